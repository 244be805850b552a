/**
 * The store of `assistant-stream/resumable`, the resumable streams of assistant-ui, on Millrace: each stream is a log as
 * `resumable-stream.ts` writes them, whose text is the chunks in base64. A producer that dies is found dead by its readers.
 */
import { base64Of, bytesOf } from './base64.ts';
import { type MillraceClient, StreamError } from './client.ts';
import { ResumableLog, TTL_SECONDS, isCode } from './resumable-log.ts';
import { PRODUCER_TIMEOUT_MS, type SignsOfLife, checkTimeout, signsOfLife } from './signs-of-life.ts';

/** Bytes of one record: in base64 it fits into a message. */
const RECORD_BYTES_MAX = 96 * 1024;
/** Ids that assistant-ui allows. */
const ID = /^[A-Za-z0-9_.:-]{1,256}$/;

export interface ResumableStreamStoreOptions {
  readonly client: MillraceClient;
  /** Keeps the streams, by their ids. `assistant-stream` when left out. */
  readonly bucket?: string;
  /** Milliseconds after the last read or write in which a stream is removed, as whole seconds; 24 hours when left out. */
  readonly ttlMs?: number;
  /** As that of `createResumableStreamContext`: how long a producer may write nothing. 30,000 when left out. */
  readonly producerTimeoutMs?: number;
}

export interface StoreLease {
  readonly token: string;
}

export interface StoreEntry {
  /** Where to read on; of this store only. */
  readonly cursor: string;
  readonly chunk: Uint8Array;
}

/**
 * Errors are StreamErrors with the codes of assistant-ui where it has some: `missing`, `finalized`, `invalid-id`; those of readers
 * whose producer failed or died are `PRODUCER_FAILED`.
 */
export interface MillraceResumableStreamStore {
  acquire(streamId: string, options?: { readonly ttlMs?: number }): Promise<'producer' | 'consumer'>;
  /** A lease is good in the store that gave it, until its stream is finalized, deleted, or acquired again. */
  acquireLease(
    streamId: string,
    options?: { readonly ttlMs?: number },
  ): Promise<{ readonly role: 'producer'; readonly lease: StoreLease } | { readonly role: 'consumer' }>;
  /** Resolves when the chunk is durable. */
  append(streamId: string, chunk: Uint8Array, lease?: StoreLease): Promise<void>;
  finalize(streamId: string, status: 'done' | 'error', error?: string, lease?: StoreLease): Promise<boolean>;
  read(streamId: string, cursor: string, signal: AbortSignal): AsyncGenerator<StoreEntry, void>;
  status(streamId: string): Promise<'streaming' | 'done' | 'error' | 'missing'>;
  delete(streamId: string): Promise<void>;
}

export function createResumableStreamStore(options: ResumableStreamStoreOptions): MillraceResumableStreamStore {
  return new Store(options);
}

interface Producer {
  readonly streamId: string;
  readonly log: ResumableLog;
  readonly life: SignsOfLife;
}

class Store implements MillraceResumableStreamStore {
  readonly #client: MillraceClient;
  readonly #bucket: string;
  readonly #ttlMs: number;
  readonly #timeoutMs: number;
  /** By the tokens of their leases. */
  readonly #producers = new Map<string, Producer>();
  #leases = 0;

  constructor({ client, bucket, ttlMs, producerTimeoutMs }: ResumableStreamStoreOptions) {
    this.#client = client;
    this.#bucket = bucket ?? 'assistant-stream';
    this.#ttlMs = ttlMs ?? 1000 * TTL_SECONDS;
    this.#timeoutMs = producerTimeoutMs ?? PRODUCER_TIMEOUT_MS;
    checkTimeout(this.#timeoutMs);
  }

  async acquire(streamId: string, options?: { readonly ttlMs?: number }): Promise<'producer' | 'consumer'> {
    return (await this.acquireLease(streamId, options)).role;
  }

  async acquireLease(
    streamId: string,
    { ttlMs = this.#ttlMs }: { readonly ttlMs?: number } = {},
  ): ReturnType<MillraceResumableStreamStore['acquireLease']> {
    const log = this.#logOf(streamId);
    const ttlSeconds = Math.max(Math.ceil(ttlMs / 1000), 1);
    if (!(await log.begin({ timeoutMs: this.#timeoutMs, ttlSeconds }))) return { role: 'consumer' };
    // A later stream of this name refuses the second append of a writer, never the first: so the lease ends with its stream.
    await log.showLife();
    const token = String(++this.#leases);
    const life = signsOfLife(log, this.#timeoutMs, () => this.#release(token));
    this.#producers.set(token, { streamId, log, life });
    return { role: 'producer', lease: { token } };
  }

  async append(streamId: string, chunk: Uint8Array, lease?: StoreLease): Promise<void> {
    const [token, producer] = this.#producerOf(streamId, lease);
    if (lease !== undefined && producer === undefined) throw superseded(streamId);
    const log = producer?.log ?? this.#logOf(streamId);
    producer?.life.written();
    try {
      const pieces: Promise<void>[] = [];
      for (let from = 0; from < chunk.length; from += RECORD_BYTES_MAX) {
        pieces.push(log.append(base64Of(chunk.subarray(from, from + RECORD_BYTES_MAX))));
      }
      await Promise.all(pieces);
    } catch (error) {
      this.#release(token);
      if (isCode(error, 'STREAM_CLOSED')) throw refusal('finalized', `${streamId} is finalized already`);
      if (isCode(error, 'STREAM_NOT_FOUND')) throw refusal('missing', `there is no stream ${streamId}`);
      if (isCode(error, 'PRODUCER_SEQ_CONFLICT')) throw superseded(streamId);
      throw error;
    }
  }

  async finalize(streamId: string, status: 'done' | 'error', error?: string, lease?: StoreLease): Promise<boolean> {
    const [token, producer] = this.#producerOf(streamId, lease);
    if (lease !== undefined && producer === undefined && (await this.status(streamId)) !== 'missing') return false;
    const log = producer?.log ?? this.#logOf(streamId);
    try {
      const isDone = await log.end(
        status === 'done' ? { end: 'done' } : { end: 'failed', message: error ?? 'Stream errored' },
      );
      if (isDone === undefined) throw refusal('missing', `there is no stream ${streamId}`);
      return isDone;
    } catch (reason) {
      if (isCode(reason, 'PRODUCER_SEQ_CONFLICT')) return false;
      throw reason;
    } finally {
      this.#release(token);
    }
  }

  async *read(streamId: string, cursor: string, signal: AbortSignal): AsyncGenerator<StoreEntry, void> {
    const log = this.#logOf(streamId);
    if ((await log.hasEnded()) === undefined) throw refusal('missing', `there is no stream ${streamId}`);
    const after = Number(cursor) || 0;
    try {
      for await (const { record, value } of log.pieces(signal)) {
        if (record > after) yield { cursor: String(record), chunk: bytesOf(value) };
      }
    } catch (error) {
      if (!signal.aborted && !isCode(error, 'STREAM_NOT_FOUND')) throw error;
    }
  }

  async status(streamId: string): Promise<'streaming' | 'done' | 'error' | 'missing'> {
    const log = this.#logOf(streamId);
    const hasEnded = await log.hasEnded();
    if (hasEnded === undefined) return 'missing';
    if (!hasEnded) return 'streaming';
    return (await log.lastEnd())?.end === 'failed' ? 'error' : 'done';
  }

  async delete(streamId: string): Promise<void> {
    for (const [token, producer] of this.#producers) if (producer.streamId === streamId) this.#release(token);
    try {
      await this.#logOf(streamId).delete();
    } catch (error) {
      if (!isCode(error, 'STREAM_NOT_FOUND')) throw error;
    }
  }

  #logOf(streamId: string): ResumableLog {
    if (!ID.test(streamId))
      throw refusal('invalid-id', `"${streamId}" is no id of a stream; it has to match ${String(ID)}`);
    return new ResumableLog(this.#client, this.#bucket, streamId);
  }

  /** The one of the lease, or without one the last that acquired the stream here. */
  #producerOf(streamId: string, lease: StoreLease | undefined): readonly [string, Producer | undefined] {
    if (lease !== undefined) return [lease.token, this.#producers.get(lease.token)];
    return [...this.#producers].findLast(([, producer]) => producer.streamId === streamId) ?? ['', undefined];
  }

  #release(token: string): void {
    this.#producers.get(token)?.life.stop();
    this.#producers.delete(token);
  }
}

function superseded(streamId: string): StreamError {
  return refusal('missing', `the lease of ${streamId} has ended, or another producer has the stream`);
}

function refusal(code: 'missing' | 'finalized' | 'invalid-id', sentence: string): StreamError {
  return new StreamError({ status: 0, code, sentence });
}
