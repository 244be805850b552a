// The cheapest correct SSE reader: takes the chunked transfer coding apart (a chunk border may fall anywhere) but does
// not parse event lines, because a thousand readers in one process must cost less than the server they measure.

import { EventOrder, scanEvents } from './fan-out-event.ts';

const EMPTY = Buffer.alloc(0);
const HEAD_END = '\r\n\r\n';
/** A response head larger than this is not one of the servers measured here. */
const HEAD_BYTES_MAX = 16 * 1024;

export class SseReader {
  readonly order = new EventOrder();
  readonly greeting: string;
  open = false;
  failure = '';

  readonly #onOpen: () => void;
  readonly #onEvent: (sequence: number, sentUs: number) => void;
  #head: Buffer = EMPTY;
  #chunked = false;
  /** Bytes of the current chunk still to come, its CRLF not included. */
  #chunkLeftBytes = 0;
  #sizeLine = '';
  /** Start of a marker whose end has not arrived. */
  #carry: Buffer = EMPTY;

  constructor(greeting: string, onOpen: () => void, onEvent: (sequence: number, sentUs: number) => void) {
    this.greeting = greeting;
    this.#onOpen = onOpen;
    this.#onEvent = (sequence, sentUs) => {
      this.order.take(sequence);
      onEvent(sequence, sentUs);
    };
  }

  feed(input: Buffer): void {
    let at = 0;
    if (!this.open) {
      this.#head = Buffer.concat([this.#head, input]);
      const end = this.#head.indexOf(HEAD_END);
      if (end < 0) {
        if (this.#head.length > HEAD_BYTES_MAX) this.failure = 'response head without an end';
        return;
      }
      const head = this.#head.toString('latin1', 0, end);
      if (!head.startsWith('HTTP/1.1 200')) {
        this.failure = head.split('\r\n')[0] ?? 'no status line';
        return;
      }
      this.#chunked = /transfer-encoding: *chunked/i.test(head);
      input = this.#head;
      at = end + HEAD_END.length;
      this.open = true;
      this.#head = EMPTY;
      this.#onOpen();
    }
    if (!this.#chunked) this.#body(input, at, input.length);
    else this.#chunks(input, at);
  }

  #chunks(input: Buffer, start: number): void {
    let at = start;
    while (at < input.length) {
      if (this.#chunkLeftBytes > 0) {
        const end = Math.min(input.length, at + this.#chunkLeftBytes);
        this.#body(input, at, end);
        this.#chunkLeftBytes -= end - at;
        at = end;
        continue;
      }
      const lineEnd = input.indexOf(0x0a, at);
      this.#sizeLine += input.toString('latin1', at, lineEnd < 0 ? input.length : lineEnd);
      if (lineEnd < 0) return;
      // The CRLF that closes the previous chunk reads as an empty size line.
      const size = this.#sizeLine.trim();
      this.#sizeLine = '';
      this.#chunkLeftBytes = size === '' ? 0 : Number.parseInt(size, 16);
      at = lineEnd + 1;
    }
  }

  #body(input: Buffer, start: number, end: number): void {
    if (this.#carry.length > 0) {
      const joined = Buffer.concat([this.#carry, input.subarray(start, end)]);
      this.#carry = Buffer.from(joined.subarray(scanEvents(joined, 0, joined.length, this.#onEvent)));
      return;
    }
    const rest = scanEvents(input, start, end, this.#onEvent);
    if (rest < end) this.#carry = Buffer.from(input.subarray(rest, end));
  }
}
