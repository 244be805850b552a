/**
 * The socket of a session, as the library's is: the kernel takes some bytes, the rest waits and is counted, and what
 * waits is lost when the node closes. The client takes what it wants.
 */
import { Unpackr } from 'msgpackr';
import {
  READER_BUFFER_BYTES_MAX,
  SESSION_FOLLOW_BYTES_MAX,
  SESSION_MESSAGE_BYTES_MAX,
} from '../../../src/base/limits.ts';
import type { OpenSocket } from '../../../src/http/guard.ts';

export type Told = readonly [kind: number, ...values: unknown[]];

const EVENT = 67;
/** Closed without a word. */
const ABNORMAL = 1006;
/** Events stop when more waits than a reader may have; those whose reads were under way still come. */
const EVENT_BYTES_MAX = READER_BUFFER_BYTES_MAX + SESSION_FOLLOW_BYTES_MAX + SESSION_MESSAGE_BYTES_MAX;

interface Message {
  readonly frames: readonly Told[];
  readonly eventBytes: number;
  leftBytes: number;
}

export interface WireOwner {
  hear(frame: Told): void;
  /** The node has closed it. */
  ended(code: number): void;
  fail(what: string): Error;
}

const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

export class Wire implements OpenSocket {
  isOpen = true;
  readonly #owner: WireOwner;
  readonly #kernelBytes: number;
  readonly #messages: Message[] = [];
  #bytes = 0;
  #eventBytes = 0;

  constructor(owner: WireOwner, kernelBytes: number) {
    this.#owner = owner;
    this.#kernelBytes = kernelBytes;
  }

  /** That the client has not taken. */
  get bytes(): number {
    return this.#bytes;
  }

  getBufferedAmount(): number {
    return this.isOpen ? Math.max(0, this.#bytes - this.#kernelBytes) : 0;
  }

  send(message: Uint8Array): number {
    if (!this.isOpen) throw this.#owner.fail('a socket that is closed gets a message');
    // The node uses its memory again.
    const bytes = Buffer.from(message);
    const frames = unpackr.unpackMultiple(bytes) as Told[];
    const eventBytes = frames.reduce((sum, frame) => sum + (frame[0] === EVENT ? bodyOf(frame).length : 0), 0);
    this.#messages.push({ frames, eventBytes, leftBytes: bytes.length });
    this.#bytes += bytes.length;
    this.#eventBytes += eventBytes;
    if (this.#eventBytes > EVENT_BYTES_MAX + this.#kernelBytes)
      throw this.#owner.fail(`${this.#eventBytes} bytes of events wait for a client that takes nothing`);
    return this.getBufferedAmount() === 0 ? 1 : 0;
  }

  /** The client takes so many bytes. True: some of those that waited have left. */
  take(bytes: number): boolean {
    const before = this.getBufferedAmount();
    let left = bytes;
    while (left > 0) {
      const [first] = this.#messages;
      if (first === undefined) break;
      const taken = Math.min(left, first.leftBytes);
      left -= taken;
      first.leftBytes -= taken;
      this.#bytes -= taken;
      if (first.leftBytes > 0) break;
      this.#messages.shift();
      this.#eventBytes -= first.eventBytes;
      for (const frame of first.frames) this.#owner.hear(frame);
    }
    return this.isOpen && this.getBufferedAmount() < before;
  }

  end(code = ABNORMAL): void {
    if (!this.isOpen) return;
    // Bytes that the kernel has arrive, with the code behind them.
    const arrives = this.getBufferedAmount() === 0;
    this.isOpen = false;
    if (arrives) this.take(this.#bytes);
    this.#owner.ended(arrives ? code : ABNORMAL);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#owner.ended(ABNORMAL);
  }
}

export function bodyOf(frame: Told): Uint8Array {
  const body = frame[4];
  return body instanceof Uint8Array ? body : new Uint8Array(0);
}
