/** Existing streams that match a pattern, from the shards of this node. */
import { MillraceError } from '../../base/errors.ts';
import { Glob } from '../../base/glob.ts';
import { LIST_LIMIT_MAX } from '../../base/limits.ts';
import type { ShardGateway } from '../../ports.ts';
import { flatPath, splitFlatPath } from '../../protocol/flat-path.ts';
import { nameFault } from '../../protocol/names.ts';
import { type ShardAnswer, type Callable, callShard } from '../../gateway/shard-client.ts';
import { QUERIES } from '../../protocol/operations.ts';

/** Names of buckets in one answer. */
const BUCKETS_PAGE = 512;

/** A place where matching streams can be. */
interface Place {
  /** Undefined: in any bucket. */
  readonly bucket: string | undefined;
  readonly prefix: string;
}

/** Stops after `limit` paths. */
export async function listMatching(gateway: ShardGateway, pattern: string, limit: number): Promise<string[]> {
  const glob = new Glob(pattern);
  const found: string[] = [];
  const take = (path: string): boolean => {
    const { bucket, stream } = splitFlatPath(path);
    // Names that clients cannot use match no pattern.
    if (glob.matches(path) && nameFault(bucket, stream) === undefined) found.push(path);
    return found.length < limit;
  };
  for (const { bucket, prefix } of placesOf(glob)) {
    const buckets = bucket === undefined ? await bucketNames(gateway) : [bucket];
    for (const name of buckets) {
      if (!(await listBucket(gateway, name, prefix, take))) return found;
    }
  }
  return found;
}

function placesOf(glob: Glob): Place[] {
  const front = glob.literalFront;
  const [bucket] = front;
  if (bucket === undefined) {
    return [glob.pattern === '*' ? { bucket: '_default', prefix: '' } : { bucket: undefined, prefix: '' }];
  }
  // No wildcard at all, or `a/**`, which is also the path `a`.
  const exact = splitFlatPath(front.join('/'));
  const places: Place[] = front.length === 1 ? [{ bucket: exact.bucket, prefix: exact.stream }] : [];
  return [...places, { bucket, prefix: front.slice(1).join('/') }];
}

/** Calls `take` until it returns false; false: it did. */
async function listBucket(
  gateway: ShardGateway,
  bucket: string,
  prefix: string,
  take: (path: string) => boolean,
): Promise<boolean> {
  const pages = pagesOf(
    gateway,
    QUERIES.list,
    (after) => ({ bucket, prefix, after, limit: LIST_LIMIT_MAX }),
    (streams) => ({
      names: streams.map(({ stream_id }) => stream_id),
      isLast: streams.length < LIST_LIMIT_MAX,
    }),
  );
  for await (const streams of pages) {
    for (const stream of streams) if (!take(flatPath(bucket, stream))) return false;
  }
  return true;
}

async function bucketNames(gateway: ShardGateway): Promise<Set<string>> {
  const found = new Set<string>();
  const pages = pagesOf(
    gateway,
    QUERIES.usage,
    (after) => ({ after, limit: BUCKETS_PAGE }),
    ({ rows, hasMore }) => ({ names: rows.map(([name]) => name), isLast: !hasMore }),
  );
  for await (const names of pages) for (const name of names) found.add(name);
  return found;
}

interface Page {
  readonly names: readonly string[];
  readonly isLast: boolean;
}

/** The pages of one shard in order, each starting after the last name of the previous one. */
async function* pagesOf<P, R>(
  gateway: ShardGateway,
  operation: Callable<P, R>,
  asked: (after: string) => P,
  read: (result: R) => Page,
): AsyncGenerator<readonly string[]> {
  for (let shard = 0; shard < gateway.shardCount; shard++) {
    for (let after: string | undefined = ''; after !== undefined;) {
      const answer: ShardAnswer<R> = await callShard(gateway, operation, shard, asked(after));
      if (answer.code !== 'OK') throw new MillraceError(answer.code);
      const { names, isLast } = read(answer.result);
      yield names;
      after = isLast ? undefined : names.at(-1);
    }
  }
}
