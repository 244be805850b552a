/**
 * Answers reads whose bytes are in the cold store. The shard answers with a plan (protocol/cold.ts) instead of bytes;
 * here the chunks are fetched and the answer is assembled as the shard would have given it. It arrives later than
 * answers and events that the shard sent after the plan; live readers handle that (topics/topic.ts).
 */
import type { ErrorCode } from '../../base/errors.ts';
import { decodeUtf8 } from '../../base/utf8.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ReplyHandler } from '../../ports.ts';
import type { ColdFailure } from '../ports.ts';
import { type ChunkRef, type ColdPlan, decodeColdPlan } from '../../protocol/cold.ts';
import { Reply, explain } from '../../protocol/reply.ts';
import { READ_FLAG_NO_TOUCH, type ReadQuestion } from '../../protocol/queries/read.ts';
import { type Request, requestFor } from '../../protocol/request.ts';
import { type ChunkLoader } from './chunk-loader.ts';
import type { Logger } from '../../logging/logger.ts';
import { QUERIES } from '../../protocol/operations.ts';

/** The counters of a reader, as the metrics name them. */
export const NO_READS = {
  cold_read_answers: 0,
  cold_read_refused: 0,
  cold_read_replanned: 0,
  cold_read_bad_objects: 0,
  cold_read_unavailable: 0,
};
/** Concurrent answers; more are refused. */
const READS_MAX = 1024;
/** Bytes that they hold or wait for. */
const READ_BYTES_IN_FLIGHT_MAX = 256 * 1024 * 1024;
/** Positions remembered to recognize a sequential reader. */
const TRAIL_MAX = 4096;
/** The reason of failed reads is logged at most this often. */
const LOG_EVERY_MS = 60_000;

/** Fills the reply from the chunks; returns the first invalid ref, if any (stream/cold/assemble.ts). */
export type Assemble = (plan: ColdPlan, chunks: readonly Uint8Array[], reply: Reply) => ChunkRef | undefined;

export interface ColdReaderOptions {
  readonly loader: ChunkLoader;
  readonly assemble: Assemble;
  /** Asks the shard again; false: its mailbox is full. */
  readonly send: (request: Request, handler: ReplyHandler) => boolean;
  /** An answer was assembled; other readers may ask for it again. */
  readonly keep: (question: ReadQuestion, reply: Reply) => void;
  /** Chunks after an answer that are fetched for a sequential reader. */
  readonly aheadChunks: number;
  readonly log: Logger;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
}

interface Job {
  readonly plan: ColdPlan;
  /** The shard's answer, which becomes the client's. */
  readonly reply: Reply;
  readonly handler: ReplyHandler;
  /** The chunk whose object was missing before the shard was asked again. */
  readonly missing: ChunkRef | undefined;
  readonly bytes: number;
}

/** Waits for the shard's second answer. Another plan goes through take(); any other reply is the client's. */
class Again implements ReplyHandler {
  readonly handler: ReplyHandler;
  readonly missing: ChunkRef;

  constructor(handler: ReplyHandler, missing: ChunkRef) {
    this.handler = handler;
    this.missing = missing;
  }

  get requestId(): string | undefined {
    return this.handler.requestId;
  }

  onReply(reply: Reply): void {
    this.handler.onReply(reply);
  }
}

export class ColdReader {
  readonly counters = { ...NO_READS };
  readonly #options: ColdReaderOptions;
  readonly #jobs = new Set<Job>();
  #bytes = 0;
  readonly #error = new Reply();
  /** The places where recent reads ended, oldest first: a read that begins there is sequential. */
  readonly #trail = new Set<string>();
  #loggedMs = -Infinity;
  #stopped = false;

  constructor(options: ColdReaderOptions) {
    this.#options = options;
  }

  /** Unanswered reads. */
  get pending(): number {
    return this.#jobs.size;
  }

  get pendingBytes(): number {
    return this.#bytes;
  }

  /** `reply` has REPLY_COLD. The handler is called exactly once, now or later. */
  take(reply: Reply, handler: ReplyHandler): void {
    if (handler instanceof Again) this.#begin(reply, handler.handler, handler.missing);
    else this.#begin(reply, handler, undefined);
  }

  /** Answers all open reads with STOPPING. */
  close(): void {
    this.#stopped = true;
    for (const job of [...this.#jobs]) this.#refuse(job, 'STOPPING');
  }

  #begin(reply: Reply, handler: ReplyHandler, missing: ChunkRef | undefined): void {
    const plan = this.#decode(reply, handler);
    if (plan === undefined) {
      this.#answerError(handler, 'INTERNAL');
      return;
    }
    const needed = plan.refs.slice(0, plan.needed);
    if (missing !== undefined && needed.some((ref) => ref.key === missing.key && ref.at === missing.at)) {
      this.#bad(handler, `${missing.key} is missing`);
      return;
    }
    const chunks = needed.map((ref) => this.#options.loader.cached(ref));
    const bytes = needed.reduce((sum, ref) => sum + ref.length, 0);
    const job: Job = { plan, reply: reply.withoutBody(), handler, missing, bytes };
    if (chunks.every((chunk) => chunk !== undefined)) {
      this.#readAhead(plan);
      this.#finish(job, chunks);
      return;
    }
    const isFull =
      this.#jobs.size >= READS_MAX || (this.#jobs.size > 0 && this.#bytes + bytes > READ_BYTES_IN_FLIGHT_MAX);
    if (this.#stopped || isFull) {
      this.counters.cold_read_refused++;
      this.#answerError(handler, this.#stopped ? 'STOPPING' : 'COLD_READS_FULL');
      return;
    }
    this.#jobs.add(job);
    this.#bytes += bytes;
    void this.#load(job, needed, chunks);
    this.#readAhead(plan);
  }

  #decode(reply: Reply, handler: ReplyHandler): ColdPlan | undefined {
    try {
      return decodeColdPlan(reply.body ?? new Uint8Array(0));
    } catch (error) {
      this.#options.log.error({ err: error, requestId: handler.requestId }, 'a shard sent a plan that cannot be read');
      return undefined;
    }
  }

  async #load(job: Job, refs: readonly ChunkRef[], cached: readonly (Uint8Array | undefined)[]): Promise<void> {
    const { loader, log } = this.#options;
    try {
      const chunks: Uint8Array[] = [];
      const loads = refs.map((ref, i) => cached[i] ?? loader.load(ref));
      for (const [i, load] of loads.entries()) {
        const outcome = await load;
        if (outcome instanceof Uint8Array) {
          chunks.push(outcome);
        } else if (outcome.ok) {
          chunks.push(outcome.value);
        } else {
          this.#failed(job, refs[i] as ChunkRef, outcome);
          return;
        }
      }
      if (this.#end(job)) this.#finish(job, chunks);
    } catch (error) {
      log.error({ err: error, requestId: job.handler.requestId }, 'a cold read failed');
      this.#refuse(job, 'INTERNAL');
    }
  }

  /** Never throws: the caller has already ended the job, so the client would get no answer. */
  #finish(job: Job, chunks: readonly Uint8Array[]): void {
    try {
      this.#assembled(job, chunks);
    } catch (error) {
      const { requestId } = job.handler;
      this.#options.log.error({ err: error, requestId }, 'an answer from the cold store cannot be given');
      try {
        this.#answerError(job.handler, 'INTERNAL');
      } catch (again) {
        this.#options.log.error({ err: again, requestId }, 'nor can the refusal');
      }
    }
  }

  #assembled({ plan, reply, handler }: Job, chunks: readonly Uint8Array[]): void {
    const bad = this.#options.assemble(plan, chunks, reply);
    if (bad !== undefined) {
      this.#bad(handler, `${bad.key} does not hold what was written`);
      return;
    }
    this.counters.cold_read_answers++;
    if (reply.code === 0) {
      this.#remember(placeOf(plan, reply.nextOffset));
      this.#options.keep(questionOf(plan), reply);
    }
    handler.onReply(reply);
  }

  #failed(job: Job, ref: ChunkRef, failed: ColdFailure): void {
    switch (failed.failure) {
      case 'missing':
        if (job.missing === undefined) this.#askAgain(job, ref);
        else if (this.#end(job)) this.#bad(job.handler, `${ref.key} is missing`);
        break;
      case 'bad':
        if (this.#end(job)) this.#bad(job.handler, failed.message);
        break;
      case 'busy':
        this.counters.cold_read_refused++;
        this.#refuse(job, 'COLD_READS_FULL');
        break;
      case 'stopped':
        this.#refuse(job, 'STOPPING');
        break;
      case 'denied':
      case 'unreachable':
      case 'no-threads':
        this.counters.cold_read_unavailable++;
        this.#refuse(job, 'COLD_UNAVAILABLE');
        break;
    }
  }

  /** The object may be gone because the stream is; the shard knows by now. */
  #askAgain(job: Job, missing: ChunkRef): void {
    if (!this.#end(job)) return;
    this.counters.cold_read_replanned++;
    const { plan, handler } = job;
    const question = questionOf(plan);
    const readFlags = question.readFlags | READ_FLAG_NO_TOUCH;
    const request = requestFor(QUERIES.read, plan.group, { ...question, readFlags });
    const again = new Again(handler, missing);
    if (!this.#options.send(request, again)) this.#answerError(handler, 'SHARD_BUSY');
  }

  #readAhead(plan: ColdPlan): void {
    const { loader, aheadChunks } = this.#options;
    const refs = plan.refs.slice(plan.needed, plan.needed + aheadChunks);
    if (refs.length > 0 && (plan.startOffset === 0 || this.#trail.delete(placeOf(plan, plan.startOffset)))) {
      loader.loadAhead(refs);
    }
  }

  #remember(place: string): void {
    this.#trail.add(place);
    if (this.#trail.size <= TRAIL_MAX) return;
    for (const oldest of this.#trail) {
      this.#trail.delete(oldest);
      break;
    }
  }

  #bad(handler: ReplyHandler, what: string): void {
    this.counters.cold_read_bad_objects++;
    this.#logNowAndThen(what, handler.requestId, 'an object of the cold store is not what was written');
    this.#answerError(handler, 'COLD_OBJECT_BAD', what);
  }

  #refuse(job: Job, code: ErrorCode): void {
    if (this.#end(job)) this.#answerError(job.handler, code);
  }

  #answerError(handler: ReplyHandler, code: ErrorCode, text = ''): void {
    const reply = this.#error.refuse(0, code);
    explain(reply, text);
    handler.onReply(reply);
  }

  /** False: it was answered already. */
  #end(job: Job): boolean {
    if (!this.#jobs.delete(job)) return false;
    this.#bytes -= job.bytes;
    return true;
  }

  #logNowAndThen(reason: string, requestId: string | undefined, sentence: string): void {
    const clockMs = this.#options.runtime.monotonicMs();
    if (clockMs - this.#loggedMs < LOG_EVERY_MS) return;
    this.#loggedMs = clockMs;
    this.#options.log.error({ reason, requestId }, sentence);
  }
}

function questionOf({ stream: key, mode, value, maxBytes, maxRecords, flags }: ColdPlan): ReadQuestion {
  const [bucket = '', stream = ''] = decodeUtf8(key).split('\0');
  return { bucket, stream, mode, value, maxBytes, maxRecords, readFlags: flags };
}

function placeOf(plan: ColdPlan, offset: number): string {
  return `${plan.group}:${plan.incarnation}:${offset}`;
}
