/** One stream, as a program sees it. */
import { type AppendsHome, StreamAppends } from './appends.ts';
import { isClosed } from './channel.ts';
import { StreamError, clientError, wholeNumber } from './error.ts';
import type { EndSignal } from './waiting.ts';
import { CREATE, DELETE, HEAD, type StreamPath, type WireAnswer, type WireOptions, optionsBehind } from './wire.ts';

/** Waits end when the signal is aborted, with its reason. What was sent before may still be done. */
export interface WaitOptions {
  readonly signal?: AbortSignal;
}

export interface CreateOptions extends WaitOptions {
  /** `application/json` makes a stream of records; without one bytes. */
  readonly contentType?: string;
  /** Its first bytes. */
  readonly data?: Uint8Array | string;
  /** Nothing can be appended. */
  readonly closed?: boolean;
  /** Seconds after the last read or write in which it expires; or the moment. */
  readonly ttlSeconds?: number;
  readonly expiresAt?: Date;
}

export interface FollowOptions extends WaitOptions {
  /** An offset that the client or a node returned; 0, the start, when left out. `now`: only what comes. */
  readonly offset?: number | 'now';
  /** Ends at the tail instead of waiting for more. */
  readonly live?: boolean;
  /** A stream that is not there is awaited. */
  readonly wait?: 'create';
}

export interface FollowedBatch {
  /** The text of an array where the stream is JSON of an array; see `records()`. */
  readonly data: Uint8Array;
  /** Behind these bytes: where to follow on, also in another process. */
  readonly offset: number;
  /** These are the last bytes that the stream had when they were sent. */
  readonly isUpToDate: boolean;
}

export interface StreamDescription {
  readonly contentType: string;
  /** Its tail: where the next append begins. */
  readonly offset: number;
  /** Bytes below were discarded. */
  readonly retainedOffset: number;
  readonly isClosed: boolean;
  readonly etag: string;
  /** Ordinals, of a JSON stream: of the first record that is there, and of the next one. */
  readonly records?: { readonly first: number; readonly next: number };
}

export interface StreamContext extends AppendsHome {
  readonly path: StreamPath;
  readonly contentType: string | undefined;
}

export class MillraceStream {
  readonly bucket: string;
  readonly name: string;
  readonly #parts: StreamContext;
  readonly #appends: StreamAppends;

  /** `client.stream()` makes them. */
  constructor(parts: StreamContext) {
    this.#parts = parts;
    this.bucket = parts.path.bucket;
    this.name = parts.path.stream;
    this.#appends = new StreamAppends(parts, parts.path, parts.contentType);
  }

  /** Makes the stream, unless it is there with the same configuration; another one is refused with 409. */
  async create(options: CreateOptions = {}): Promise<{ readonly isNew: boolean; readonly offset: number }> {
    const { contentType, data, closed, ttlSeconds, expiresAt, signal } = options;
    const headers: WireOptions = {
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
      ...(closed === true ? { 'stream-closed': true } : {}),
      ...(ttlSeconds === undefined ? {} : { 'stream-ttl': ttlSeconds }),
      ...(expiresAt === undefined ? {} : { 'stream-expires-at': expiresAt.toISOString() }),
    };
    const body = data === undefined ? {} : { body: bytesOf(data) };
    const request = { ...this.#parts.path, kind: CREATE, ...body, options: headers };
    const { next, fields } = await this.#parts.pool.ask(request, signalsOf(signal));
    this.#appends.contentType = fields.get('content-type') ?? contentType;
    return { isNew: fields.get('stream-created') === 'true', offset: next ?? 0 };
  }

  /**
   * Appends bytes, or text as UTF-8; they may not change before this settles. Resolves with the offset behind them when a
   * majority of the nodes has them on disk. Appends take effect once and in the order of the calls, whatever nodes and
   * connections do meanwhile; one that is refused has those behind it that wait refused too.
   *
   * Too many bytes under way make it wait. On JSON streams the offset is behind all that went along in one batch.
   */
  async append(data: Uint8Array | string, { signal }: WaitOptions = {}): Promise<number> {
    const bytes = bytesOf(data);
    if (bytes.length === 0) throw clientError('INVALID_ARGUMENT', 'there are no bytes to append; send at least one');
    return await this.#appends.append({ bytes, closes: false, signals: signalsOf(signal) });
  }

  /** Resolves when there is room for another append, for writers that do not await each of them. */
  async ready({ signal }: WaitOptions = {}): Promise<void> {
    await this.#appends.ready(signalsOf(signal));
  }

  /** Ends the stream behind everything that was appended before, with a last piece if there is one. */
  async close(data: Uint8Array | string = '', { signal }: WaitOptions = {}): Promise<number> {
    const bytes = bytesOf(data);
    try {
      return await this.#appends.append({ bytes, closes: true, signals: signalsOf(signal) });
    } catch (error) {
      const isDone = error instanceof StreamError && error.code === 'STREAM_CLOSED' && bytes.length === 0;
      if (!isDone || error.offset === undefined) throw error;
      return error.offset;
    }
  }

  /**
   * Everything from an offset on, without a gap and without a repeat, then what comes. Ends behind the last bytes of a
   * closed stream; throws when it is deleted, or where the bytes are gone (410, see `offset` of the error).
   */
  async *follow({ offset = 0, live = true, wait, signal }: FollowOptions = {}): AsyncGenerator<FollowedBatch, void> {
    const options = { offset, ...(wait === undefined ? {} : { wait }) };
    for await (const { next, fields, body } of this.#events(options, live, signalsOf(signal))) {
      const isUpToDate = fields.get('stream-up-to-date') === 'true';
      if (body.length > 0 && next !== undefined) yield { data: body, offset: next, isUpToDate };
    }
  }

  async head({ signal }: WaitOptions = {}): Promise<StreamDescription> {
    const answer = await this.#parts.pool.ask({ ...this.#parts.path, kind: HEAD }, signalsOf(signal));
    const { fields, next = 0 } = answer;
    const first = wholeNumber(fields.get('stream-record-first'));
    const record = wholeNumber(fields.get('stream-record-next'));
    return {
      contentType: fields.get('content-type') ?? 'application/octet-stream',
      offset: next,
      retainedOffset: wholeNumber(fields.get('stream-retained-offset')) ?? 0,
      isClosed: isClosed(answer),
      etag: fields.get('etag') ?? '',
      ...(first === undefined || record === undefined ? {} : { records: { first, next: record } }),
    };
  }

  async delete({ signal }: WaitOptions = {}): Promise<void> {
    await this.#parts.pool.ask({ ...this.#parts.path, kind: DELETE }, signalsOf(signal));
  }

  /** Resumes behind the last event when a connection ends. */
  async *#events(options: WireOptions, live: boolean, signals: readonly EndSignal[]): AsyncGenerator<WireAnswer, void> {
    const { pool, path } = this.#parts;
    let position = options;
    for (let tries = 0; ; tries++) {
      try {
        const channel = await pool.of(path, signals);
        for await (const event of channel.follow(path, position, [...signals, pool.closed])) {
          tries = 0;
          position = optionsBehind(position, event);
          yield event;
          if (isClosed(event) || (!live && event.fields.get('stream-up-to-date') === 'true')) return;
        }
      } catch (error) {
        await pool.pause(error, tries, signals);
      }
    }
  }
}

function bytesOf(data: Uint8Array | string): Uint8Array {
  return typeof data === 'string' ? new TextEncoder().encode(data) : data;
}

function signalsOf(signal: AbortSignal | undefined): readonly EndSignal[] {
  return signal === undefined ? [] : [signal];
}
