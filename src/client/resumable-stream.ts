/**
 * The context of the npm package `resumable-stream` on Millrace: a stream of text, as of a language model, whose readers come
 * back at any character, from any process on. The text is on the nodes, so it outlives its producer, and readers ask only them.
 */
import type { MillraceClient } from './client.ts';
import { readableOf } from './readable.ts';
import { ResumableLog, TTL_SECONDS } from './resumable-log.ts';
import { PRODUCER_TIMEOUT_MS, checkTimeout, signsOfLife } from './signs-of-life.ts';

/** Characters of one record: with six bytes for each, as control characters have in JSON, it fits into a message. */
const RECORD_CHARS_MAX = 32 * 1024;
const MESSAGE_CHARS_MAX = 1000;

export interface ResumableStreamContextOptions {
  readonly client: MillraceClient;
  /** Keeps the streams, by their ids. `resumable-stream` when left out. */
  readonly bucket?: string;
  /** Keeps a program alive until the promise is resolved, as `after` of Next.js. */
  readonly waitUntil?: ((promise: Promise<unknown>) => void) | null;
  /** Seconds after the last read or write in which a stream is removed; 24 hours when left out. */
  readonly ttlSeconds?: number;
  /**
   * How streams that have ended are resumed. `null`, as in `resumable-stream`: with null, so that the program takes the text from
   * its database. `replay`: like others, from any character on, until they are removed. `null` when left out.
   */
  readonly afterEnd?: 'null' | 'replay';
  /**
   * A producer that can write nothing for so many milliseconds may be taken for dead; readers that wait learn of it within two times
   * as many. 30,000 when left out. It shows that it lives three times as often.
   */
  readonly producerTimeoutMs?: number;
}

/** Its signal is aborted when the stream is stopped, or cannot be written any more: give it to what makes the text. */
export type MakeStream = (signal: AbortSignal) => ReadableStream<string>;

/**
 * Reading: a stream closes when the text is complete or was stopped, and errors with a StreamError when it is not:
 * `PRODUCER_FAILED`, with the message of the producer's error, or when the producer died. Cancelling ends that reader only.
 * `skipCharacters` counts UTF-16 units, as the length of a string; text that is not there yet is skipped when it comes.
 */
export interface MillraceResumableStreamContext {
  /**
   * The first caller with an id runs `makeStream` and writes what it returns to the nodes, to its end, even if no
   * reader is left. It, and the others behind `skipCharacters`, read from there. Null: it has ended.
   */
  resumableStream(
    streamId: string,
    makeStream: MakeStream,
    skipCharacters?: number,
  ): Promise<ReadableStream<string> | null>;
  /** The same: an id that is in use is resumed and never has a second producer. */
  createNewResumableStream(
    streamId: string,
    makeStream: MakeStream,
    skipCharacters?: number,
  ): Promise<ReadableStream<string> | null>;
  /** Null: it has ended. Undefined: there is none. */
  resumeExistingStream(streamId: string, skipCharacters?: number): Promise<ReadableStream<string> | null | undefined>;
  /** True: it is being written. Null: there is none. */
  hasExistingStream(streamId: string): Promise<null | true | 'DONE'>;
  /**
   * Ends a stream from any process: its readers close behind what was written so far, and its producer's signal is aborted and what
   * `makeStream` returned cancelled. True: this call did it. `DONE`: it had ended. Null: there is none.
   */
  stopExistingStream(streamId: string): Promise<null | true | 'DONE'>;
}

export function createResumableStreamContext(options: ResumableStreamContextOptions): MillraceResumableStreamContext {
  const { client, bucket = 'resumable-stream', waitUntil, afterEnd = 'null' } = options;
  const { ttlSeconds = TTL_SECONDS, producerTimeoutMs: timeoutMs = PRODUCER_TIMEOUT_MS } = options;
  checkTimeout(timeoutMs);
  const logOf = (streamId: string): ResumableLog => new ResumableLog(client, bucket, streamId);
  const readerOf = (log: ResumableLog, skipCharacters = 0): ReadableStream<string> =>
    readableOf((signal) => log.text(skipCharacters, signal));

  const resumeExistingStream: MillraceResumableStreamContext['resumeExistingStream'] = async (streamId, skip) => {
    const log = logOf(streamId);
    const hasEnded = await log.hasEnded();
    if (hasEnded === undefined) return undefined;
    return hasEnded && afterEnd === 'null' ? null : readerOf(log, skip);
  };
  const resumableStream: MillraceResumableStreamContext['resumableStream'] = async (streamId, makeStream, skip) => {
    const log = logOf(streamId);
    if (!(await log.begin({ timeoutMs, ttlSeconds }))) return (await resumeExistingStream(streamId, skip)) ?? null;
    const produced = produce(log, makeStream, timeoutMs);
    waitUntil?.(produced);
    return readerOf(log);
  };
  return {
    resumableStream,
    createNewResumableStream: resumableStream,
    resumeExistingStream,
    async hasExistingStream(streamId) {
      const hasEnded = await logOf(streamId).hasEnded();
      if (hasEnded === undefined) return null;
      return hasEnded ? 'DONE' : true;
    },
    async stopExistingStream(streamId) {
      const isDone = await logOf(streamId).end({ end: 'stopped' });
      if (isDone === undefined) return null;
      return isDone ? true : 'DONE';
    },
  };
}

/** Never rejects: readers get what went wrong from the log, or find its producer dead. */
async function produce(log: ResumableLog, makeStream: MakeStream, timeoutMs: number): Promise<void> {
  const stop = new AbortController();
  const over = new AbortController();
  let reader: ReadableStreamDefaultReader<unknown> | undefined;
  const abandon = (reason: unknown): void => {
    if (over.signal.aborted) return;
    stop.abort(reason);
    reader?.cancel(reason).catch(() => undefined);
  };
  const stopped = 'the stream was stopped, or its producer was taken for dead';
  log.ended(over.signal).then(() => abandon(new Error(stopped)), abandon);
  const life = signsOfLife(log, timeoutMs, abandon);
  try {
    const source: ReadableStream<unknown> = makeStream(stop.signal);
    reader = source.getReader();
    for (;;) {
      // One that was cancelled is done.
      const { done, value } = await reader.read();
      if (done) break;
      if (typeof value !== 'string') throw new TypeError(`a chunk has to be a string, not ${typeof value}`);
      for (let from = 0; from < value.length; from += RECORD_CHARS_MAX) {
        log.append(value.slice(from, from + RECORD_CHARS_MAX)).catch(abandon);
      }
      life.written();
      await log.ready();
    }
    // The end that it writes itself is no stop.
    over.abort();
    await log.end(stop.signal.aborted ? failed(stop.signal.reason) : { end: 'done' });
  } catch (error) {
    over.abort();
    reader?.cancel(error).catch(() => undefined);
    // Without a node or a client that takes it, its readers find out by themselves.
    await log.end(failed(error)).catch(() => undefined);
  } finally {
    life.stop();
  }
}

function failed(error: unknown): { readonly end: 'failed'; readonly message: string } {
  const message = error instanceof Error ? error.message : String(error);
  return { end: 'failed', message: message.slice(0, MESSAGE_CHARS_MAX) };
}
