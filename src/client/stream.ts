/** One stream, as a program sees it. */
import { type AppendOptions, StreamAppends, type StreamContext } from './appends.ts';
import { bytesOf, checkOptions, checkPath } from './arguments.ts';
import { isClosed } from './channel.ts';
import { StreamError, clientError, wholeNumber } from './error.ts';
import { pathOf } from './http-channel.ts';
import { type FollowedRange, type FollowedEvent, RecordStream } from './records.ts';
import { type EndSignal, type WaitOptions, endable, signalsOf } from './waiting.ts';
import { KIND, type StreamPath, type WireAnswer, type WireOptions, type WireRequest, optionsBehind } from './wire.ts';

/** Tries to read a snapshot that others replace meanwhile. */
const SNAPSHOT_TRIES_MAX = 20;
/** Positions of another stream: those that a stream told stay its own. */
const OUTSIDE: ReadonlySet<string> = new Set(['OFFSET_OUT_OF_RANGE', 'OFFSET_INSIDE_RECORD', 'RECORD_OUT_OF_RANGE']);

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
  /** That of the batch which told the offset: another stream, made under the name since, is refused with 404. */
  readonly incarnation?: string | undefined;
  /** Ends at the tail instead of waiting for more. */
  readonly live?: boolean;
  /** A stream that is not there is awaited; `now` is its start then. */
  readonly wait?: 'create';
}

export interface FollowedBatch {
  /** The text of an array where the stream is JSON of an array; see `records()`. */
  readonly data: Uint8Array;
  /** Behind these bytes: where to follow on, also in another process. */
  readonly offset: number;
  /** Tells the stream from others of its name, so it is stored with `offset`; undefined: a node of a version before. */
  readonly incarnation: string | undefined;
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

export interface StreamAttributes {
  readonly title?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface ForkOptions extends WaitOptions {
  readonly bucket?: string;
  readonly name: string;
  /** Where the fork leaves this stream: an offset that a node returned; the tail when left out. */
  readonly offset?: number;
}

/** A place in a stream, where a message or record begins: an offset that a node returned, or the ordinal of a record. */
export type StreamPlace = { readonly offset: number } | { readonly record: number };

export interface SnapshotOptions extends WaitOptions {
  readonly contentType?: string;
  /** The digest of the snapshot that it replaces; another one is refused with 409. */
  readonly replaces?: string;
}

export interface PublishedSnapshot {
  readonly data: Uint8Array;
  readonly contentType: string;
  /** It stands for everything below: where to follow on. */
  readonly offset: number;
  readonly digest: string;
}

export class MillraceStream {
  readonly bucket: string;
  readonly name: string;
  readonly #parts: StreamContext;
  readonly #appends: StreamAppends;

  /** `client.stream()` makes them. */
  constructor(parts: StreamContext) {
    checkPath(parts.path);
    checkOptions({ 'content-type': parts.contentType ?? '' });
    this.#parts = parts;
    this.bucket = parts.path.bucket;
    this.name = parts.path.stream;
    this.#appends = new StreamAppends(parts);
  }

  /**
   * Makes the stream, unless it is there with the same configuration; another one is refused with 409. After a lost answer
   * the call is repeated, and `isNew` is false although this call may have made the stream.
   */
  async create(options: CreateOptions = {}): Promise<{ readonly isNew: boolean; readonly offset: number }> {
    const { contentType, data, closed, ttlSeconds, expiresAt, signal } = options;
    const headers: WireOptions = {
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
      ...(closed === true ? { 'stream-closed': true } : {}),
      ...(ttlSeconds === undefined ? {} : { 'stream-ttl': ttlSeconds }),
      ...(expiresAt === undefined ? {} : { 'stream-expires-at': expiresAt.toISOString() }),
    };
    const body = data === undefined ? {} : { body: bytesOf(data) };
    const { next, fields } = await this.#ask({ kind: KIND.create, ...body, options: headers }, signal);
    this.#appends.contentType = fields.get('content-type') ?? contentType;
    return { isNew: fields.get('stream-created') === 'true', offset: next ?? 0 };
  }

  /**
   * Appends bytes, or text as UTF-8; they may not change before this settles. Resolves with the offset behind them when a
   * majority of the nodes has them on disk. Appends take effect once and in the order of the calls, whatever nodes and
   * connections do meanwhile; one that is refused has those behind it that wait refused too.
   *
   * With `expectedOffset` it is done only where that is the stream's tail, else refused with `OffsetConflict`. Too many
   * bytes under way make it wait. On JSON streams the offset is behind all that went along in one batch.
   */
  async append(data: Uint8Array | string, { signal, expectedOffset }: AppendOptions = {}): Promise<number> {
    const bytes = bytesOf(data);
    if (bytes.length === 0) throw clientError('INVALID_ARGUMENT', 'there are no bytes to append; send at least one');
    return await this.#appends.append({ bytes, closes: false, expectedOffset, signals: signalsOf(signal) });
  }

  /** Resolves when there is room for another append, for writers that do not await each of them. */
  async ready({ signal }: WaitOptions = {}): Promise<void> {
    await this.#appends.ready(signalsOf(signal));
  }

  /** Ends the stream behind everything that was appended before, with a last piece if there is one. */
  async close(data: Uint8Array | string = '', { signal, expectedOffset }: AppendOptions = {}): Promise<number> {
    const bytes = bytesOf(data);
    try {
      return await this.#appends.append({ bytes, closes: true, expectedOffset, signals: signalsOf(signal) });
    } catch (error) {
      const isDone = error instanceof StreamError && error.code === 'STREAM_CLOSED' && bytes.length === 0;
      if (!isDone || error.offset === undefined || error.offset !== (expectedOffset ?? error.offset)) throw error;
      return error.offset;
    }
  }

  /**
   * Everything from an offset on, without a gap and without a repeat, then what comes. Ends behind the last bytes of a
   * closed stream; throws when it is deleted, also when another one has its name by then, or where the bytes are gone
   * (410, see `offset` of the error).
   */
  follow(options: FollowOptions = {}): AsyncGenerator<FollowedBatch, void> {
    const { offset = 0, live = true, wait, incarnation, signal } = options;
    const followed = { options: { offset, ...(wait === undefined ? {} : { wait }) }, live, incarnation };
    return endable((end) => batchesOf(this.#events(followed, [end, ...signalsOf(signal)])));
  }

  async head({ signal }: WaitOptions = {}): Promise<StreamDescription> {
    const answer = await this.#ask({ kind: KIND.head }, signal);
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
    await this.#ask({ kind: KIND.delete }, signal);
  }

  /** The records of a JSON stream as values of `T`. */
  records<T = unknown>(): RecordStream<T> {
    return new RecordStream<T>({
      append: async (data, options) => await this.append(data, options),
      events: (followed, signals) => this.#events(followed, signals),
    });
  }

  async attributes({ signal }: WaitOptions = {}): Promise<StreamAttributes> {
    const { body } = await this.#ask({ kind: KIND.attributes }, signal);
    const attributes: StreamAttributes = JSON.parse(new TextDecoder().decode(body));
    return attributes;
  }

  /** Replaces them whole. */
  async setAttributes(attributes: StreamAttributes, { signal }: WaitOptions = {}): Promise<void> {
    await this.#ask({ kind: KIND.attributes, body: bytesOf(JSON.stringify(attributes)) }, signal);
  }

  /** A new stream that begins with what this one has, and goes on by itself. */
  async fork({ bucket = this.bucket, name, offset, signal }: ForkOptions): Promise<MillraceStream> {
    const path = { bucket, stream: name };
    checkPath(path);
    const options: WireOptions = {
      'stream-forked-from': pathOf(this.#parts.path),
      ...(offset === undefined ? {} : { 'stream-fork-offset': digits(offset) }),
    };
    const request = { ...path, kind: 0, options, route: { method: 'PUT', suffix: '' } };
    const { fields } = await this.#parts.pool.ask(request, signalsOf(signal));
    return new MillraceStream({ ...this.#parts, path, contentType: fields.get('content-type'), producer: undefined });
  }

  /** Publishes what the program made of everything below a place, so that readers may begin there. */
  async publishSnapshot(place: StreamPlace, data: Uint8Array | string, options: SnapshotOptions = {}): Promise<void> {
    const { contentType = 'application/octet-stream', replaces, signal } = options;
    const headers: WireOptions = {
      'content-type': contentType,
      ...(replaces === undefined ? {} : { 'stream-snapshot-match': replaces }),
    };
    await this.#put(`/snapshot${suffixOf(place)}`, { body: bytesOf(data), options: headers }, signal);
  }

  /** Undefined: none is published. */
  async snapshot(options: WaitOptions = {}): Promise<PublishedSnapshot | undefined> {
    return (await this.bootstrap(options)).snapshot;
  }

  /** Discards what lies below a place, at most up to the published snapshot. */
  async retain(place: StreamPlace, { signal }: WaitOptions = {}): Promise<void> {
    await this.#put(`/retention${suffixOf(place)}`, {}, signal);
  }

  /** The beginning for a reader: the snapshot, if there is one, and where to follow on. */
  async bootstrap({ signal }: WaitOptions = {}): Promise<{ snapshot: PublishedSnapshot | undefined; offset: number }> {
    for (let tries = 1; ; tries++) {
      try {
        const { fields, body } = await this.#ask({ kind: 0, route: { method: 'GET', suffix: '/snapshot' } }, signal);
        const contentType = fields.get('content-type') ?? 'application/octet-stream';
        const offset = wholeNumber(fields.get('stream-snapshot-offset')) ?? 0;
        const digest = fields.get('stream-snapshot-digest') ?? '';
        return { snapshot: { data: body, contentType, offset, digest }, offset };
      } catch (error) {
        const isMissing = error instanceof StreamError && error.code === 'SNAPSHOT_NOT_FOUND';
        if (!isMissing || tries === SNAPSHOT_TRIES_MAX) throw error;
      }
      // One may have been published since, or in place of the one that the node redirected to.
      const { fields } = await this.#ask({ kind: KIND.head }, signal);
      const floor = wholeNumber(fields.get('stream-retained-offset')) ?? 0;
      if (!fields.has('stream-snapshot-offset')) return { snapshot: undefined, offset: floor };
    }
  }

  async #put(
    suffix: string,
    parts: Pick<WireRequest, 'body' | 'options'>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    await this.#ask({ kind: 0, ...parts, route: { method: 'PUT', suffix } }, signal);
  }

  async #ask(request: Omit<WireRequest, keyof StreamPath>, signal: AbortSignal | undefined): Promise<WireAnswer> {
    checkOptions(request.options ?? {});
    return await this.#parts.pool.ask({ ...this.#parts.path, ...request }, signalsOf(signal));
  }

  /** Resumes behind the last event when a connection ends. */
  async *#events(followed: FollowedRange, signals: readonly EndSignal[]): AsyncGenerator<FollowedEvent, void> {
    const { pool, path } = this.#parts;
    const { options, live } = followed;
    checkOptions(options);
    const { wait, ...now } = options;
    // All that comes into a stream that is not there yet is news, so it is asked for without waiting, and then from its start.
    let position = wait !== undefined && options['offset'] === 'now' ? now : options;
    let { incarnation } = followed;
    for (let tries = 0; ; tries++) {
      try {
        const channel = await pool.any(signals);
        for await (const event of channel.follow(path, position, [...signals, pool.closed])) {
          // Later events of a session do not tell it, nor do nodes of versions before.
          const told = event.fields.get('stream-incarnation') ?? incarnation;
          incarnation ??= told;
          if (told !== incarnation) throw replaced();
          tries = 0;
          position = optionsBehind(position, event);
          yield { ...event, incarnation };
          if (isClosed(event) || (!live && event.fields.get('stream-up-to-date') === 'true')) return;
        }
      } catch (error) {
        const isAwaited = position === now && error instanceof StreamError && error.code === 'STREAM_NOT_FOUND';
        if (isAwaited) position = { ...options, offset: 0 };
        else if (incarnation !== undefined && error instanceof StreamError && OUTSIDE.has(error.code)) throw replaced();
        else await pool.pause(error, tries, signals);
      }
    }
  }
}

async function* batchesOf(events: AsyncGenerator<FollowedEvent, void>): AsyncGenerator<FollowedBatch, void> {
  for await (const { next, fields, body, incarnation } of events) {
    const isUpToDate = fields.get('stream-up-to-date') === 'true';
    if (body.length > 0 && next !== undefined) yield { data: body, offset: next, incarnation, isUpToDate };
  }
}

/** The refusal of a follower whose connection tells it that its stream is removed. */
function replaced(): StreamError {
  const sentence = 'the stream that was followed is gone, and another one of its name was made';
  return new StreamError({ status: 404, code: 'STREAM_NOT_FOUND', sentence });
}

/** As nodes write them. */
function digits(offset: number): string {
  return String(offset).padStart(20, '0');
}

function suffixOf(place: StreamPlace): string {
  return 'record' in place ? `?record=${place.record}` : `/${digits(place.offset)}`;
}
