/**
 * The meters of all groups on this node, summed per bucket, in name order.
 *
 * Shards are asked for pages in that order, and the pages are merged as they arrive. A report of a million buckets
 * neither blocks a shard for long nor is ever completely in memory. A bucket's numbers are those of the moment its page
 * was made.
 */
import { compareText } from '../base/text.ts';
import type { ShardGateway } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import { QUERIES } from '../protocol/operations.ts';
import { ALL_GROUPS, requestFor } from '../protocol/request.ts';
import type { UsageRow } from '../protocol/shard-summary.ts';

/** Buckets of one page: a few milliseconds of a shard. */
const PAGE_BUCKETS = 512;

/** In the order in which shards tell them. */
export const METERS = [
  'committed_append_bytes',
  'committed_records',
  'committed_write_units',
  'retained_bytes',
  'stream_count',
] as const;

/** A bucket on this node; `meters` in the order of METERS. */
export interface BucketUsage {
  readonly bucket: string;
  readonly meters: readonly number[];
}

/** What is known of one shard's buckets. */
interface Source {
  readonly shard: number;
  rows: readonly UsageRow[];
  next: number;
  more: boolean;
  /** Name of the last row of the page. */
  last: string;
}

/** Receives the requested pages. Runs in the callback of a reply. */
export interface UsageListener {
  fetched(): void;
  refused(reply: Reply): void;
  /** A shard takes no question now. */
  busy(): void;
  /** Runs what may throw. */
  guard(work: () => void): void;
}

export class UsageReport {
  readonly #gateway: ShardGateway;
  readonly #sources: Source[];
  #asked = 0;

  constructor(gateway: ShardGateway) {
    this.#gateway = gateway;
    this.#sources = Array.from({ length: gateway.shardCount }, (_, shard) => ({
      shard,
      rows: [],
      next: 0,
      more: true,
      last: '',
    }));
  }

  /** The next bucket; undefined after the last one; `fetch` when pages have to be fetched first. */
  next(): BucketUsage | 'fetch' | undefined {
    for (;;) {
      if (this.#sources.some(isUsedUp)) return 'fetch';
      const bucket = this.#smallest();
      if (bucket === undefined) return undefined;
      const meters = this.#take(bucket);
      // Reserved buckets are the service's own, not a tenant's.
      if (!bucket.startsWith('__')) return { bucket, meters };
    }
  }

  /** Asks those whose page is used up. */
  fetch(listener: UsageListener): void {
    const usedUp = this.#sources.filter(isUsedUp);
    this.#asked = usedUp.length;
    for (const source of usedUp) this.#ask(source, listener);
  }

  #ask(source: Source, listener: UsageListener): void {
    const query = requestFor(QUERIES.usage, ALL_GROUPS, { after: source.last, limit: PAGE_BUCKETS });
    const onReply = (reply: Reply): void => listener.guard(() => this.#page(source, reply, listener));
    if (!this.#gateway.send(query, { onReply }, source.shard)) listener.busy();
  }

  #page(source: Source, reply: Reply, listener: UsageListener): void {
    if (reply.code !== 0) return listener.refused(reply);
    const { rows, hasMore } = QUERIES.usage.result.read(reply);
    source.rows = rows;
    source.next = 0;
    source.more = hasMore;
    source.last = source.rows.at(-1)?.[0] ?? source.last;
    this.#asked--;
    return this.#asked === 0 ? listener.fetched() : undefined;
  }

  #smallest(): string | undefined {
    let smallest: string | undefined;
    for (const { rows, next } of this.#sources) {
      const name = rows[next]?.[0];
      if (name !== undefined && (smallest === undefined || compareText(name, smallest) < 0)) smallest = name;
    }
    return smallest;
  }

  #take(bucket: string): number[] {
    const sums = METERS.map(() => 0);
    for (const source of this.#sources) {
      const [name, ...meters] = source.rows[source.next] ?? [];
      if (name !== bucket) continue;
      source.next++;
      for (const [i, meter] of meters.entries()) sums[i] = (sums[i] ?? 0) + meter;
    }
    return sums;
  }
}

function isUsedUp({ more, next, rows }: Source): boolean {
  return more && next === rows.length;
}
