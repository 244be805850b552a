// Appends in a session (src/session/README.md): what slots send together is one message, as a client of sessions would.

import { Packr, Unpackr } from 'msgpackr';
import { splitFlatPath } from '../../src/protocol/flat-path.ts';
import type { SlotConnection, SlotProtocol } from './slots.ts';

const PROTOCOL = 'millrace.session.v1';
const APPEND = 2;
const HELLO = 64;
const DONE = 65;
const GREETING = [
  'GET /__svc/session HTTP/1.1',
  'Host: 127.0.0.1',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
  `Sec-WebSocket-Key: ${Buffer.from('the-key-of-bench').toString('base64')}`,
  `Sec-WebSocket-Protocol: ${PROTOCOL}`,
];
const HEAD_END = Buffer.from('\r\n\r\n');
const EMPTY = Buffer.alloc(0);
const FIN = 0x80;
const BINARY = 2;
const MASKED = 0x80;
/** Clients have to mask; a mask of zeros leaves the bytes as they are. */
const MASK = Buffer.alloc(4);

/** The name of a slot's stream, on the flat routes of HTTP. */
export function sessionStream(slot: number): string {
  return `append-${slot}`;
}

function webSocketFrame(payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 0x1_0000 ? 4 : 10);
  head[0] = FIN | BINARY;
  head[1] = MASKED | (length < 126 ? length : length < 0x1_0000 ? 126 : 127);
  if (head.length === 4) head.writeUInt16BE(length, 2);
  else if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, MASK, payload]);
}

export class SessionAppend implements SlotProtocol {
  readonly greeting: Buffer = Buffer.from([...GREETING, '', ''].join('\r\n'));
  readonly #unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });
  readonly #messages: Buffer[];
  #input: Buffer = EMPTY;
  #isUpgraded = false;
  #isReady = false;

  constructor({ firstSlot, slots, payloadBytes }: SlotConnection) {
    const packr = new Packr({ useRecords: false, variableMapSize: true });
    const payload = Buffer.alloc(payloadBytes, 'x');
    const options = { 'content-type': 'application/octet-stream' };
    this.#messages = Array.from({ length: slots }, (_, slot) => {
      const { bucket, stream } = splitFlatPath(sessionStream(firstSlot + slot));
      // Its buffer is used again by the next one.
      return Buffer.from(packr.pack([APPEND, slot, bucket, stream, payload, options]));
    });
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  append(slot: number): Buffer {
    return this.#messages[slot] as Buffer;
  }

  join(appends: readonly Buffer[]): Buffer {
    return webSocketFrame(Buffer.concat(appends));
  }

  receive(chunk: Buffer, onAnswer: (slot: number, isGood: boolean) => void): undefined {
    this.#input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    if (!this.#isUpgraded && !this.#passHead()) return undefined;
    for (let message = this.#nextMessage(); message !== undefined; message = this.#nextMessage()) {
      for (const [kind, id] of this.#unpackr.unpackMultiple(message) as readonly (readonly [number, number])[]) {
        if (kind === HELLO) this.#isReady = true;
        else onAnswer(id, kind === DONE);
      }
    }
    return undefined;
  }

  #passHead(): boolean {
    const end = this.#input.indexOf(HEAD_END);
    if (end < 0) return false;
    const head = this.#input.toString('latin1', 0, end);
    if (!head.startsWith('HTTP/1.1 101 ')) throw new Error(`the session was refused: ${head}`);
    this.#input = this.#input.subarray(end + HEAD_END.length);
    this.#isUpgraded = true;
    return true;
  }

  /** The next whole message; other frames are passed over. */
  #nextMessage(): Buffer | undefined {
    for (;;) {
      const input = this.#input;
      if (input.length < 2) return undefined;
      const short = input.readUInt8(1);
      const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (input.length < headBytes) return undefined;
      const size = short < 126 ? short : short === 126 ? input.readUInt16BE(2) : Number(input.readBigUInt64BE(2));
      if (input.length < headBytes + size) return undefined;
      this.#input = input.subarray(headBytes + size);
      if (input[0] === (FIN | BINARY)) return input.subarray(headBytes, headBytes + size);
    }
  }
}
