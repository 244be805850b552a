/**
 * The meters of all groups on this node, summed per bucket, in name order.
 *
 * Shards are asked for pages in that order, and the pages are merged as they arrive. A report of a million buckets
 * neither blocks a shard for long nor is ever completely in memory. A bucket's numbers are those of the moment its page
 * was made.
 */
import { type Grant, decideBucket, wholeBuckets } from '../access/scopes.ts';
import { compareText } from '../base/text.ts';
import { type ShardAnswer, type Refused, callShard, firstRefusal } from '../gateway/shard-client.ts';
import type { ShardGateway } from '../ports.ts';
import { nameFault } from '../protocol/names.ts';
import { QUERIES } from '../protocol/operations.ts';
import type { UsageRequest, UsageRow } from '../protocol/queries/summaries.ts';

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

/** The page of one shard, and how far it is used up. */
interface Source {
  readonly shard: number;
  rows: readonly UsageRow[];
  next: number;
  hasMore: boolean;
}

/**
 * Reports bucket after bucket; a refusal ends the report. `grant`: only those that it may list as a whole, because meters
 * tell of all streams of a bucket. Where its scopes name buckets, shards are asked for these and page through no others.
 */
export async function* readUsage(gateway: ShardGateway, grant?: Grant): AsyncGenerator<BucketUsage | Refused> {
  const named = grant === undefined ? undefined : wholeBuckets(grant, 'list');
  // A scope may name what no bucket is called, such as a name that is too long for a key.
  const names = named === undefined ? undefined : [...named].filter((name) => nameFault(name, undefined) === undefined);
  if (names?.length === 0) return;
  const sources = Array.from({ length: gateway.shardCount }, (_, shard): Source => {
    return { shard, rows: [], next: 0, hasMore: true };
  });
  for (;;) {
    const usedUp = sources.filter(({ hasMore, next, rows }) => hasMore && next === rows.length);
    if (usedUp.length > 0) {
      const refused = firstRefusal(await Promise.all(usedUp.map((source) => fetchPage(gateway, source, names))));
      if (refused?.code === 'INTERNAL') throw new Error(`the usage of a shard: ${refused.detail}`);
      if (refused !== undefined) return yield refused;
    }
    const bucket = smallest(sources);
    if (bucket === undefined) return;
    const meters = take(sources, bucket);
    // Reserved buckets are the service's own, not a tenant's.
    if (bucket.startsWith('__')) continue;
    if (grant === undefined || decideBucket(grant, 'list', bucket) === 'allowed') yield { bucket, meters };
  }
}

async function fetchPage(
  gateway: ShardGateway,
  source: Source,
  names: readonly string[] | undefined,
): Promise<ShardAnswer<unknown>> {
  const page: UsageRequest = { after: source.rows.at(-1)?.[0] ?? '', limit: PAGE_BUCKETS };
  const asked = names === undefined ? page : { ...page, names };
  const answer = await callShard(gateway, QUERIES.usage, source.shard, asked);
  if (answer.code !== 'OK') return answer;
  source.rows = answer.result.rows;
  source.hasMore = answer.result.hasMore;
  source.next = 0;
  return answer;
}

function smallest(sources: readonly Source[]): string | undefined {
  let found: string | undefined;
  for (const { rows, next } of sources) {
    const name = rows[next]?.[0];
    if (name !== undefined && (found === undefined || compareText(name, found) < 0)) found = name;
  }
  return found;
}

/** Adds up the bucket's meters of all sources in which it is the next one, and moves them on. */
function take(sources: readonly Source[], bucket: string): number[] {
  const sums = METERS.map(() => 0);
  for (const source of sources) {
    const [name, ...meters] = source.rows[source.next] ?? [];
    if (name !== bucket) continue;
    source.next++;
    for (const [i, meter] of meters.entries()) sums[i] = (sums[i] ?? 0) + meter;
  }
  return sums;
}
