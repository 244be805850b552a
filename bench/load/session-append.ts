// Appends in a session (src/session/README.md): what slots send together is one message, as a client of sessions would.
// The load is a client's to the byte, and costs less to make: appends are packed once, and answers are not unpacked.

import { Packr, Unpackr } from 'msgpackr';
import { splitFlatPath } from '../../src/protocol/flat-path.ts';
import type { SlotConnection, SlotProtocol } from './slots.ts';
import { WebSocketInput, handshake, webSocketFrame } from './web-socket.ts';

const APPEND = 2;
const HELLO = 64;
const DONE = 65;
const REFUSED = 66;
/** How the answer to an append begins, and how it ends behind its offset: without fields or a body. */
const DONE_START = 0x9541;
const DONE_END = 0x80c0;
const UINT_8 = 0xcc;
const UINT_64 = 0xcf;

/** The name of a slot's stream, on the flat routes of HTTP. */
export function sessionStream(slot: number): string {
  return `append-${slot}`;
}

export class SessionAppend implements SlotProtocol {
  readonly greeting: Buffer = handshake();
  readonly #unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });
  readonly #messages: Buffer[];
  readonly #input = new WebSocketInput();
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
    return webSocketFrame(appends);
  }

  receive(chunk: Buffer, onAnswer: (slot: number, isGood: boolean) => void): undefined {
    this.#input.feed(chunk, (message) => {
      const rest = scanDone(message, onAnswer);
      if (rest < message.length) this.#unpack(message.subarray(rest), onAnswer);
    });
    if (this.#input.failure !== '') throw new Error(`the session was refused: ${this.#input.failure}`);
    return undefined;
  }

  #unpack(message: Buffer, onAnswer: (slot: number, isGood: boolean) => void): void {
    for (const [kind, id] of this.#unpackr.unpackMultiple(message) as readonly (readonly [number, number])[]) {
      if (kind === HELLO) this.#isReady = true;
      else if (kind === DONE || kind === REFUSED) onAnswer(id, kind === DONE);
    }
  }
}

/** Tells of the answers up to the first frame that is no plain DONE; returns where that begins. */
function scanDone(message: Buffer, onAnswer: (slot: number, isGood: boolean) => void): number {
  let at = 0;
  while (at + 2 < message.length && message.readUInt16BE(at) === DONE_START) {
    const next = at + 2 + uintBytes(message, at + 2);
    const end = next + uintBytes(message, next);
    if (end + 2 > message.length || message.readUInt16BE(end) !== DONE_END) break;
    onAnswer(uintAt(message, at + 2), true);
    at = end + 2;
  }
  return at;
}

/** Bytes of the whole number at `at`; what is none is found behind it. */
function uintBytes(message: Buffer, at: number): number {
  const first = message[at] ?? 0;
  return first >= UINT_8 && first <= UINT_64 ? 1 + (1 << (first - UINT_8)) : 1;
}

/** Slots of a connection are fewer than 2^16. */
function uintAt(message: Buffer, at: number): number {
  const size = uintBytes(message, at);
  return size === 1 ? message.readUInt8(at) : message.readUIntBE(at + 1, size - 1);
}
