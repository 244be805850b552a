// Appends in a session (src/session/README.md): what slots send together is one message, as a client of sessions would.

import { Packr, Unpackr } from 'msgpackr';
import { splitFlatPath } from '../../src/protocol/flat-path.ts';
import type { SlotConnection, SlotProtocol } from './slots.ts';
import { WebSocketInput, handshake, webSocketFrame } from './web-socket.ts';

const APPEND = 2;
const HELLO = 64;
const DONE = 65;

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
    return webSocketFrame(Buffer.concat(appends));
  }

  receive(chunk: Buffer, onAnswer: (slot: number, isGood: boolean) => void): undefined {
    this.#input.feed(chunk, (message) => {
      for (const [kind, id] of this.#unpackr.unpackMultiple(message) as readonly (readonly [number, number])[]) {
        if (kind === HELLO) this.#isReady = true;
        else onAnswer(id, kind === DONE);
      }
    });
    if (this.#input.failure !== '') throw new Error(`the session was refused: ${this.#input.failure}`);
    return undefined;
  }
}
