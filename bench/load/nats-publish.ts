// JetStream publishes on a raw socket, each with a reply subject on which the stream's acknowledgement arrives.

import { natsSubject } from './nats-subject.ts';
import type { SlotConnection, SlotProtocol } from './slots.ts';

const EMPTY = Buffer.alloc(0);
const PONG = Buffer.from('PONG\r\n');
const LINE_END = Buffer.from('\r\n');

/** With headers and no_responders a publish without a subscriber is answered at once instead of never. */
export const NATS_CONNECT: string = `CONNECT ${JSON.stringify({
  verbose: false,
  pedantic: false,
  lang: 'bench',
  version: '1',
  headers: true,
  no_responders: true,
})}\r\n`;

export interface NatsEvents {
  message(subject: string, payload: Buffer, hasHeaders: boolean): void;
  pong(): void;
}

/** Splits what the server sends. Throws on -ERR: the benchmark makes no errors that it could live with. */
export class NatsReader {
  #input: Buffer = EMPTY;

  /** Returns what has to be sent back, if anything. */
  feed(chunk: Buffer, events: NatsEvents): Buffer | undefined {
    const input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    let reply: Buffer | undefined;
    let at = 0;
    for (;;) {
      const lineEnd = input.indexOf(LINE_END, at);
      if (lineEnd < 0) break;
      const line = input.toString('latin1', at, lineEnd);
      let next = lineEnd + 2;
      if (line.startsWith('MSG ') || line.startsWith('HMSG ')) {
        const words = line.split(' ');
        next += Number(words.at(-1)) + 2;
        if (next > input.length) break;
        events.message(words[1] as string, input.subarray(lineEnd + 2, next - 2), words[0] === 'HMSG');
      } else if (line === 'PING') {
        reply = PONG;
      } else if (line === 'PONG') {
        events.pong();
      } else if (line.startsWith('-ERR')) {
        throw new Error(`nats-server says ${line}`);
      }
      at = next;
    }
    // A copy, because the chunk's memory is used again.
    this.#input = at === input.length ? EMPTY : Buffer.from(input.subarray(at));
    return reply;
  }
}

export class NatsPublish implements SlotProtocol {
  readonly greeting: Buffer;
  readonly #reader = new NatsReader();
  readonly #messages: Buffer[];
  #isReady = false;

  constructor({ index, firstSlot, slots, payloadBytes }: SlotConnection) {
    const inbox = `_INBOX.c${index}`;
    this.greeting = Buffer.from(`${NATS_CONNECT}SUB ${inbox}.* 1\r\nPING\r\n`);
    const payload = 'x'.repeat(payloadBytes);
    this.#messages = Array.from({ length: slots }, (_, slot) =>
      Buffer.from(`PUB ${natsSubject(firstSlot + slot)} ${inbox}.${slot} ${payloadBytes}\r\n${payload}\r\n`),
    );
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  append(slot: number): Buffer {
    return this.#messages[slot] as Buffer;
  }

  receive(chunk: Buffer, onAnswer: (slot: number, isGood: boolean) => void): Buffer | undefined {
    return this.#reader.feed(chunk, {
      message: (subject, payload, hasHeaders) => {
        const slot = Number(subject.slice(subject.lastIndexOf('.') + 1));
        onAnswer(slot, !hasHeaders && payload.includes('"seq":') && !payload.includes('"error"'));
      },
      pong: () => (this.#isReady = true),
    });
  }
}
