/**
 * Cluster-wide bucket quotas. Every group stores the bounds, so the leader of a write reports when its bucket has one,
 * and buckets without a quota cost no queries. A group has only its own gauges, so for a bucket with a quota the
 * receiving node queries all groups. Far below a bound it does so once a second. Near it, one batch of writes at a
 * time, each after everything sent before is answered. What one node admits is exact; several nodes together may exceed
 * the bound by their concurrent writes. While a group does not answer, the node uses the last known figures, or its own
 * replica's. A write that does not fit is marked, and refused.
 */
import { errorCode } from '../base/errors.ts';
import { type DefaultQuota, NO_QUOTA } from '../base/use-limits.ts';
import { QUOTA_BUCKETS_MAX } from '../base/limits.ts';
import type { BucketResult } from '../protocol/queries/summaries.ts';
import { type ShardAnswer, callShards, firstRefusal, resultsOf } from './shard-client.ts';
import type { ReplyHandler, ShardGateway, WriteGateway } from '../ports.ts';
import { decodeQuota } from '../protocol/bucket-command.ts';
import { Reply, explain } from '../protocol/reply.ts';
import { QUOTA_OVER, QUOTA_UNMARKED, type Request } from '../protocol/request.ts';
import { type QuotaEntry, FRESH_MS, describe, fits, isBounded, needOf, newEntry, verdict } from './quota-entry.ts';
import { HeldRequests, UncheckedWrites } from './unchecked-writes.ts';
import { COMMANDS, QUERIES, commandsWhere } from '../protocol/operations.ts';

/**
 * Longer than most elections, because after it nodes no longer see what others admit. A write waits this long, or half
 * as long again.
 */
const PATIENCE_MS = 2000;

const COUNTED = commandsWhere(({ quota }) => quota === 'counted');
const CHANGES_QUOTA = commandsWhere(({ quota }) => quota === 'changes');

/** Space for bytes of a fork. */
export interface Reserved {
  /** This many of them are in the bucket now. */
  used(bytes: number): void;
  end(): void;
}

export class QuotaGate implements WriteGateway {
  readonly counters = { asked: 0, refused: 0 };
  readonly #inner: ShardGateway;
  readonly #monotonicMs: () => number;
  readonly #later: (ms: number, run: () => void) => void;
  /** Buckets known to have a quota. */
  readonly #entries = new Map<string, QuotaEntry>();
  readonly #held = new HeldRequests();
  readonly #unchecked: UncheckedWrites;
  #default: DefaultQuota = NO_QUOTA;

  constructor(inner: ShardGateway, monotonicMs: () => number, later: (ms: number, run: () => void) => void) {
    this.#inner = inner;
    this.#monotonicMs = monotonicMs;
    this.#later = later;
    this.#unchecked = new UncheckedWrites({
      inner,
      held: this.#held,
      monotonicMs,
      hasQuota: (bucket) => this.#entries.has(bucket),
      onQuota: (bucket, copy, reply, handler) => {
        const entry = this.#entryOf(bucket);
        if (copy !== undefined) return this.#wait(entry, copy, handler);
        if (errorCode(reply.code) === 'QUOTA_EXCEEDED') this.counters.refused++;
        return handler.onReply(reply);
      },
    });
  }

  /** The quota of each bucket that has none of its own. Writes that wait are held against it when the groups answer. */
  get defaultQuota(): DefaultQuota {
    return this.#default;
  }

  set defaultQuota(quota: DefaultQuota) {
    this.#default = quota;
    this.#unchecked.forgetAll();
    for (const entry of this.#entries.values()) entry.toldAtMs = -Infinity;
  }

  get groupCount(): number {
    return this.#inner.groupCount;
  }

  send(request: Request, handler: ReplyHandler): boolean {
    if (COUNTED.has(request.op)) return this.#count(request, handler);
    if (CHANGES_QUOTA.has(request.op)) return this.#change(request, handler);
    return this.#inner.send(request, handler);
  }

  /**
   * Reserves space for bytes that come later, in other commands. One of the two callbacks is called, later. The BEGIN
   * of a fork went before, so a quota is known.
   */
  reserve(bucket: string, bytes: number, done: (room: Reserved) => void, denied: (reply: Reply) => void): void {
    const entry = this.#known(bucket);
    if (entry === undefined) return queueMicrotask(() => done({ used: () => undefined, end: () => undefined }));
    let left = bytes;
    const room: Reserved = {
      used: (size) => {
        const part = Math.min(left, size);
        left -= part;
        entry.reserved -= part;
      },
      end: () => room.used(left),
    };
    entry.waiting.push({
      need: { streams: 0, bytes },
      sinceMs: this.#monotonicMs(),
      grant: (isOver) => {
        if (isOver) return denied(this.#over(entry));
        entry.reserved += bytes;
        return done(room);
      },
      deny: denied,
    });
    return queueMicrotask(() => this.#pump(entry));
  }

  /** The quota changes; the old figures are dropped before and after the answer. */
  #change(request: Request, handler: ReplyHandler): boolean {
    const { bucket, payload } = request.command;
    const quota = request.op === COMMANDS.quota.number && payload !== undefined ? decodeQuota(payload) : undefined;
    const forget = (): void => {
      const isSet =
        quota !== undefined && isBounded({ streamsMax: quota.streamsMax, bytesMax: quota.retainedBytesMax });
      const entry = isSet ? this.#entryOf(bucket) : this.#entries.get(bucket);
      if (entry !== undefined) entry.toldAtMs = -Infinity;
    };
    forget();
    return this.#inner.send(request, {
      onReply: (reply) => {
        forget();
        handler.onReply(reply);
      },
    });
  }

  #count(request: Request, handler: ReplyHandler): boolean {
    const { bucket } = request.command;
    const entry = this.#unchecked.isFree(bucket) ? undefined : this.#known(bucket);
    if (entry === undefined) return this.#unchecked.send(request, handler);
    const need = needOf(request);
    const isNext = entry.waiting.length === 0;
    // A close overtakes no append of its stream that waits.
    if (isNext && need.streams === 0 && need.bytes === 0) return this.#inner.send(request, handler);
    if (entry.isLate) this.#askAgain(entry);
    const known = isNext ? verdict(entry, need, this.#monotonicMs()) : undefined;
    if (known !== undefined) return this.#send(entry, request, handler, known === 'over');
    const copy = this.#held.take(request);
    if (copy === undefined) return false;
    this.#wait(entry, copy, handler);
    return true;
  }

  #wait(entry: QuotaEntry, copy: Request, handler: ReplyHandler): void {
    entry.waiting.push({
      need: needOf(copy),
      sinceMs: this.#monotonicMs(),
      grant: (isOver) => {
        this.#held.drop(copy);
        if (!this.#send(entry, copy, handler, isOver)) handler.onReply(new Reply().refuse(0, 'SHARD_BUSY'));
      },
      deny: (reply) => {
        this.#held.drop(copy);
        handler.onReply(reply);
      },
    });
    // Answers never come inside send().
    queueMicrotask(() => this.#pump(entry));
  }

  #send(entry: QuotaEntry, request: Request, handler: ReplyHandler, isOver: boolean): boolean {
    request.quotaMark = isOver ? QUOTA_OVER : QUOTA_UNMARKED;
    const sent = this.#inner.send(request, {
      onReply: (reply) => {
        entry.pending--;
        if (errorCode(reply.code) === 'QUOTA_EXCEEDED') {
          this.counters.refused++;
          explain(reply, describe(entry));
        }
        handler.onReply(reply);
        this.#pump(entry);
      },
    });
    request.quotaMark = QUOTA_UNMARKED;
    if (!sent) return false;
    entry.pending++;
    if (isOver) return true;
    const { streams, bytes } = needOf(request);
    entry.streams += streams;
    entry.bytes += bytes;
    return true;
  }

  #pump(entry: QuotaEntry): void {
    for (;;) {
      const [first] = entry.waiting;
      if (first === undefined) return;
      const known = entry.asking && !entry.isLate ? undefined : verdict(entry, first.need, this.#monotonicMs());
      if (known === undefined) break;
      entry.waiting.shift();
      first.grant(known === 'over');
    }
    // Writes in progress may or may not be included in the groups' answer.
    if (!entry.asking && entry.pending === 0) this.#ask(entry);
    this.#watch(entry);
  }

  /** A write that waits too long, for groups or for another write to one of them, uses the last known figures. */
  #watch(entry: QuotaEntry): void {
    if (entry.isWatched || !entry.isTold) return;
    entry.isWatched = true;
    this.#later(PATIENCE_MS / 2, () => {
      entry.isWatched = false;
      const [first] = entry.waiting;
      if (first === undefined) return;
      if (this.#monotonicMs() - first.sinceMs >= PATIENCE_MS) entry.isLate = true;
      this.#pump(entry);
    });
  }

  #askAgain(entry: QuotaEntry): void {
    if (!entry.asking && this.#monotonicMs() - entry.askedAtMs >= FRESH_MS) this.#ask(entry);
  }

  #ask(entry: QuotaEntry, isSoon = false): void {
    entry.asking = true;
    this.counters.asked++;
    entry.askedAtMs = this.#monotonicMs();
    let isInside = true;
    callShards(
      this.#inner,
      QUERIES.bucket,
      { bucket: entry.bucket, isSoon, countsAll: isBounded(this.#default) },
      (answers) => {
        const take = (): void => this.#told(entry, answers, isSoon);
        if (isInside) queueMicrotask(take);
        else take();
      },
    );
    isInside = false;
  }

  #told(entry: QuotaEntry, answers: readonly ShardAnswer<BucketResult>[], isUnconfirmed: boolean): void {
    entry.asking = false;
    const refused = firstRefusal(answers, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) {
      if (entry.isTold) entry.isLate = true;
      // Nothing is known yet: this node's replicas are better than nothing.
      else if (!isUnconfirmed) this.#ask(entry, true);
      else for (const one of entry.waiting.splice(0)) one.deny(new Reply().refuse(0, refused.code));
      return this.#pump(entry);
    }
    // Writes continued during a late answer, which may or may not include them: the next write queries again.
    entry.toldAtMs = entry.isLate || isUnconfirmed ? -Infinity : entry.askedAtMs;
    entry.isLate = isUnconfirmed;
    entry.isTold = true;
    const parts = resultsOf(answers);
    const own = {
      streamsMax: Math.max(-1, ...parts.map((part) => part.streamsMax)),
      bytesMax: Math.max(-1, ...parts.map((part) => part.retainedBytesMax)),
    };
    Object.assign(entry, isBounded(own) ? own : this.#default);
    entry.streams = parts.reduce((sum, { streams }) => sum + streams, 0);
    entry.bytes = parts.reduce((sum, { retainedBytes }) => sum + retainedBytes, 0);
    if (!isBounded(entry)) this.#entries.delete(entry.bucket);
    for (const one of entry.waiting.splice(0)) one.grant(!fits(entry, one.need));
  }

  /** Undefined: no quota is known. */
  #known(bucket: string): QuotaEntry | undefined {
    return this.#entries.get(bucket) ?? (isBounded(this.#default) ? this.#entryOf(bucket) : undefined);
  }

  #entryOf(bucket: string): QuotaEntry {
    const known = this.#entries.get(bucket);
    if (known !== undefined) return known;
    this.#unchecked.forget(bucket);
    if (this.#entries.size >= QUOTA_BUCKETS_MAX) this.#makeRoom();
    const entry = newEntry(bucket);
    this.#entries.set(bucket, entry);
    return entry;
  }

  /** Drops the oldest unused one; a leader reports its quota again on the next write. */
  #makeRoom(): void {
    let toEvict = Math.ceil(QUOTA_BUCKETS_MAX / 16);
    for (const [bucket, { asking, pending, reserved, waiting }] of this.#entries) {
      if (asking || pending > 0 || reserved > 0 || waiting.length > 0) continue;
      this.#entries.delete(bucket);
      if (--toEvict === 0) return;
    }
  }

  #over(entry: QuotaEntry): Reply {
    this.counters.refused++;
    const reply = new Reply().refuse(0, 'QUOTA_EXCEEDED');
    explain(reply, describe(entry));
    return reply;
  }
}
