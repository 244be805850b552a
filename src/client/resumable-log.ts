/**
 * The stream behind one resumable stream. Its records are JSON: the first is its producer's, then come text and signs of life, and
 * the last one, which closes it, says how it ended. So the end is as durable as the text, and readers need nothing but the stream.
 */
import {
  type MillraceClient,
  type MillraceStream,
  type RecordStream,
  StreamError,
  type StreamRecord,
} from './client.ts';
import type { ClientCode } from './error.ts';

export const JSON_TYPE = 'application/json';
/** Timers that are longer fire at once, and readers would take any producer for dead. */
const TIMER_MS_MAX = 2 ** 31 - 1;
/** As long as streams of `resumable-stream` live. */
export const TTL_SECONDS = 24 * 60 * 60;

export interface LogEnd {
  readonly end: 'done' | 'stopped' | 'failed';
  /** Why it failed, for readers. */
  readonly message?: string;
}

interface LogStart {
  readonly producer: string;
  /** The producer writes more often, so one that has written nothing for so long is dead. */
  readonly timeoutMs: number;
}

type LogEntry = string | LogStart | LogEnd | { readonly alive: true };

export interface BeginOptions {
  readonly timeoutMs: number;
  readonly ttlSeconds: number;
}

export class ResumableLog {
  readonly #stream: MillraceStream;
  readonly #records: RecordStream<LogEntry>;

  constructor(client: MillraceClient, bucket: string, streamId: string) {
    this.#stream = client.stream(bucket, streamId, { contentType: JSON_TYPE });
    this.#records = this.#stream.records<LogEntry>();
  }

  /** Makes the stream. False: it is there already, so another caller is or was its producer. */
  async begin({ timeoutMs, ttlSeconds }: BeginOptions): Promise<boolean> {
    const start: LogStart = { producer: crypto.getRandomValues(new Uint32Array(4)).join('-'), timeoutMs };
    try {
      const options = { contentType: JSON_TYPE, data: JSON.stringify(start), ttlSeconds };
      if ((await this.#stream.create(options)).isNew) return true;
    } catch (error) {
      if (!isCode(error, 'CREATE_CONFLICT')) throw error;
    }
    // The client asks again when a connection ends before the answer came, and then finds what it made itself.
    for await (const { value } of this.#records.follow({ live: false }))
      return startOf(value).producer === start.producer;
    return false;
  }

  /** Undefined: there is no such stream. */
  async hasEnded(): Promise<boolean | undefined> {
    try {
      return (await this.#stream.head()).isClosed;
    } catch (error) {
      if (isCode(error, 'STREAM_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  /** Resolves when it is durable. */
  async append(text: string): Promise<void> {
    await this.#records.append(text);
  }

  async showLife(): Promise<void> {
    await this.#records.append({ alive: true });
  }

  async ready(): Promise<void> {
    await this.#stream.ready();
  }

  /** False: it had ended before. Undefined: there is no such stream. */
  async end(end: LogEnd): Promise<boolean | undefined> {
    try {
      await this.#stream.close(JSON.stringify(end));
      return true;
    } catch (error) {
      if (isCode(error, 'STREAM_CLOSED')) return false;
      if (isCode(error, 'STREAM_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  /** Undefined: it goes on. */
  async lastEnd(): Promise<LogEnd | undefined> {
    for await (const { value } of this.#records.follow({ tail: 1, live: false })) if (isEnd(value)) return value;
    return undefined;
  }

  async delete(): Promise<void> {
    await this.#stream.delete();
  }

  /** Resolves when it has ended, also by another process, or is gone. */
  async ended(signal: AbortSignal): Promise<void> {
    const batches = this.#stream.follow({ offset: 'now', signal });
    while ((await batches.next()).done !== true);
  }

  /** The text behind so many characters, until it ends as `pieces` does. */
  async *text(skipCharacters: number, signal: AbortSignal): AsyncGenerator<string, void> {
    let skipped = Math.max(skipCharacters || 0, 0);
    for await (const { value } of this.pieces(signal)) {
      if (value.length > skipped) yield value.slice(skipped);
      skipped = Math.max(skipped - value.length, 0);
    }
  }

  /**
   * The pieces that were appended, until it ends. Throws when its producer failed. One that writes nothing for two times its
   * timeout, while nodes answer, is taken for dead: then this ends the stream, for all readers and for the producer.
   */
  async *pieces(signal: AbortSignal): AsyncGenerator<Pick<StreamRecord<string>, 'record' | 'value'>, void> {
    const records = this.#records.follow({ signal });
    let timeoutMs: number | undefined;
    try {
      for (;;) {
        const { value: entry } = await this.#lively(records.next(), timeoutMs, signal);
        if (entry === undefined) throw broken('it was closed without an end');
        const { record, value } = entry;
        if (timeoutMs === undefined) ({ timeoutMs } = startOf(value));
        else if (typeof value === 'string') yield { record, value };
        else if (isEnd(value)) {
          if (value.end !== 'failed') return;
          throw refusal('PRODUCER_FAILED', value.message ?? 'the producer failed');
        }
      }
    } finally {
      // A record that is awaited comes no more once the reader has ended, which aborts the signal.
      void records.return().catch(() => undefined);
    }
  }

  /** A node that is away must not look like a dead producer, so the tail is asked for, and has to stay for a whole timeout. */
  async #lively<T>(next: Promise<T>, timeoutMs: number | undefined, signal: AbortSignal): Promise<T> {
    if (timeoutMs === undefined) return await next;
    for (let tail: number | undefined; ;) {
      const isOver = await within(next, timeoutMs);
      if (isOver) return await next;
      const { offset } = await this.#stream.head({ signal });
      if (offset === tail) {
        await this.end({ end: 'failed', message: `the producer has written nothing for ${timeoutMs / 1000} s` });
      }
      tail = offset;
    }
  }
}

export function isCode(error: unknown, code: string): boolean {
  return error instanceof StreamError && error.code === code;
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

export function isTimeout(ms: number): boolean {
  return ms > 0 && ms <= TIMER_MS_MAX;
}

function isEnd(value: unknown): value is LogEnd {
  return isObject(value) && 'end' in value;
}

function startOf(value: unknown): LogStart {
  if (isObject(value) && 'producer' in value && 'timeoutMs' in value) {
    const { producer, timeoutMs } = value;
    if (typeof producer === 'string' && typeof timeoutMs === 'number' && isTimeout(timeoutMs))
      return { producer, timeoutMs };
  }
  throw broken('its first record is no producer');
}

function broken(fact: string): StreamError {
  return refusal('BAD_ANSWER', `this is no resumable stream: ${fact}`);
}

export function refusal(code: ClientCode, sentence: string): StreamError {
  return new StreamError({ status: 0, code, sentence });
}

/** Whether it settles in this time. */
async function within(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([over, promise.then(() => true)]);
  } finally {
    clearTimeout(timer);
  }
}
