/**
 * The way out of a session: what is written in one turn of the event loop leaves as one message of its socket, and
 * subscriptions read so much at once that a socket which does not take it fills no memory.
 */
import {
  READER_BUFFER_BYTES_MAX,
  READER_STALL_MS_MAX,
  SESSION_FOLLOW_BYTES_MAX,
  SESSION_MESSAGE_BYTES_MAX,
  SESSION_UNSENT_WHEN_FULL_BYTES_MAX,
} from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import type { OpenSocket } from '../http/guard.ts';
import type { HttpServerContext } from '../http/server-context.ts';
import type { Reply } from '../protocol/reply.ts';
import { Timed } from '../topics/clock.ts';
import { MessageWriter } from './messagepack.ts';
import { FieldWriter } from './messages.ts';

const REASON_CHARS_MAX = 100;
/** The library's word for a message of which nothing waits. */
const TAKEN = 1;
const NO_BYTES: Uint8Array = new Uint8Array(0);

export class SessionOutbox extends Timed {
  readonly #out = new MessageWriter();
  readonly #fields = new FieldWriter(this.#out);
  /** All that is written, while it is a message that other sessions get as well. */
  #shared: Uint8Array | undefined;
  readonly #server: HttpServerContext;
  readonly #requestId: string;
  readonly #sent: () => void;
  #socket: OpenSocket | undefined;
  /** Bytes that the socket has not taken. */
  #unsentBytes = 0;
  #isDue = false;

  /** `sent` is called when what was written is with the socket. */
  constructor(server: HttpServerContext, requestId: string, sent: () => void) {
    super();
    this.#server = server;
    this.#requestId = requestId;
    this.#sent = sent;
  }

  open(socket: OpenSocket): void {
    this.#socket = socket;
  }

  /** The socket is gone, and what is written from now on with it. */
  close(): void {
    this.#socket = undefined;
    this.countUnsent();
  }

  get isOpen(): boolean {
    return this.#socket !== undefined;
  }

  get out(): MessageWriter {
    this.#copyShared();
    return this.#out;
  }

  get fields(): FieldWriter {
    this.#copyShared();
    return this.#fields;
  }

  /** Writes a message whose memory never changes. It is copied only if more follows, or came before. */
  share(message: Uint8Array): void {
    if (this.#shared === undefined && this.#out.length === 0) this.#shared = message;
    else this.out.raw(message);
  }

  #copyShared(): void {
    if (this.#shared === undefined) return;
    this.#out.raw(this.#shared);
    this.#shared = undefined;
  }

  get #written(): Uint8Array {
    return this.#shared ?? this.#out.written;
  }

  /** More waits than a slow client may have, so reads and events wait for it. */
  get isStalled(): boolean {
    if (planted('session-stall-ignored')) return false;
    return this.#unsentBytes > READER_BUFFER_BYTES_MAX || (this.#unsentBytes > 0 && this.#server.backpressure.full);
  }

  /** Whether a read's answer may leave: one record may have more bytes than were counted before it was asked for. */
  takes(body: Uint8Array | undefined, countedBytes: number): boolean {
    return !this.isStalled || (body?.length ?? 0) <= countedBytes;
  }

  /** The socket has taken everything. */
  get isEmpty(): boolean {
    return this.#shared === undefined && this.#out.length === 0 && this.#unsentBytes === 0;
  }

  sendSoon(): void {
    if (this.#out.length > SESSION_MESSAGE_BYTES_MAX) return this.flush();
    if (this.#isDue) return;
    this.#isDue = true;
    this.#server.node.live.flushSoon(this);
  }

  flush(): void {
    try {
      this.send();
    } catch (error) {
      this.#server.logError(error, 'session', this.#requestId);
    }
  }

  send(): void {
    this.#isDue = false;
    const written = this.#written;
    if (this.#socket !== undefined && written.length > 0) {
      this.#server.ctx.metrics.sessions.bytesOut += written.length;
      const isTaken = this.#socket.send(written, true, false) === TAKEN;
      if (!isTaken || this.#unsentBytes > 0) this.queued();
    }
    this.#shared = undefined;
    this.#out.clear();
    this.#sent();
  }

  /** The socket got bytes, from here or from the library. */
  queued(): void {
    this.countUnsent();
    const isOver = this.#unsentBytes > SESSION_UNSENT_WHEN_FULL_BYTES_MAX && this.#server.backpressure.full;
    // At once: a goodbye would wait behind the bytes that are too many.
    if (isOver) this.#socket?.close();
  }

  countUnsent(): void {
    const bytes = this.#socket?.getBufferedAmount() ?? 0;
    const before = this.#unsentBytes;
    const { backpressure, node } = this.#server;
    backpressure.usedBytes += bytes - before;
    this.#unsentBytes = bytes;
    if (bytes === 0) node.live.clock.cancel(this);
    else if (before === 0 || bytes < before) node.live.clock.schedule(this, READER_STALL_MS_MAX);
  }

  /** The client took nothing for too long. */
  onTime(): void {
    this.#socket?.close();
  }

  override get requestId(): string {
    return this.#requestId;
  }

  /** Sends what is written, and closes the socket with a code of RFC 6455. */
  end(code: number, reason: string): void {
    if (this.#written.length > 0) this.send();
    this.#socket?.end(code, reason.slice(0, REASON_CHARS_MAX));
  }
}

/** An EVENT of a stream that several follow, as it was written for the first of them. All sessions of a node share it. */
export class TailEvent {
  id = -1;
  /** Its memory never changes. */
  message = NO_BYTES;
  /** An object of this event alone. */
  #body: Uint8Array | undefined;
  #nextOffset = -1;
  #flags = 0;

  isOf({ body, nextOffset, flags }: Reply): boolean {
    return this.#body === body && this.#nextOffset === nextOffset && this.#flags === flags;
  }

  keep({ body, nextOffset, flags }: Reply, id: number, message: Uint8Array): void {
    this.#body = body;
    this.#nextOffset = nextOffset;
    this.#flags = flags;
    this.id = id;
    this.message = message;
  }
}

/** One that waits for its turn. */
interface Reader {
  /** It may read now. */
  resume(): void;
}

/** The subscriptions of a session that read, and those that wait until others have read. */
export class ReadTurns {
  readonly #outbox: SessionOutbox;
  readonly #waiting = new Set<Reader>();
  #bytes = 0;
  #isResuming = false;

  constructor(outbox: SessionOutbox) {
    this.#outbox = outbox;
  }

  /** False: its resume() is called when its turn has come. */
  take(reader: Reader, bytes: number): boolean {
    if (!this.#outbox.isOpen) return false;
    const isFree = this.#isFree;
    if (isFree) this.#bytes += bytes;
    else this.#waiting.add(reader);
    return isFree;
  }

  /** It has left, and wants no turn. */
  forget(reader: Reader): void {
    this.#waiting.delete(reader);
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
    this.resume();
  }

  /** A loop, and not a call for each: one whose read finds the mailbox full gives its turn back at once. */
  resume(): void {
    if (this.#isResuming) return;
    this.#isResuming = true;
    try {
      for (const reader of this.#waiting) {
        if (!this.#isFree) break;
        this.#waiting.delete(reader);
        reader.resume();
      }
    } finally {
      this.#isResuming = false;
    }
  }

  get #isFree(): boolean {
    return this.#bytes < SESSION_FOLLOW_BYTES_MAX && !this.#outbox.isStalled;
  }
}
