/** Bucket routes: create (a no-op), describe, delete when empty, list streams. Streams of a bucket live on all shards. */
import { NAME_BYTES_MAX } from '../../base/limits.ts';
import { nameBytes } from '../../protocol/command.ts';
import { newRequest } from '../../protocol/request.ts';
import { compareText } from '../../base/text.ts';
import { Gathering } from '../gather.ts';
import type { Plane } from '../plane.ts';
import { parseListQuery } from '../query.ts';
import type { Responder } from '../respond.ts';
import { type Part, askAllShards, firstRefusal, tellAllGroups } from '../../gateway/scatter.ts';
import type { UwsRequest, UwsResponse } from '../uws.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';

/** PUT: a bucket needs no making. Any body is ignored. */
export function handleCreateBucket(plane: Plane, res: UwsResponse, responder: Responder, startedMs: number): void {
  responder.begin(res, 201);
  res.end();
  plane.count('bucket', 201, startedMs);
}

interface BucketState {
  readonly exists: boolean;
  readonly streams: number;
}

function bucketState(parts: readonly Part[]): BucketState {
  let streams = 0;
  let exists = false;
  for (const part of parts) {
    if (part.code !== 'OK') continue;
    streams += part.a;
    exists ||= part.b !== 0;
  }
  return { exists: exists || streams > 0, streams };
}

function askBucket(plane: Plane, bucket: string, done: (parts: Part[]) => void): void {
  const query = newRequest();
  query.op = QUERIES.bucket.number;
  query.command.bucket = bucket;
  askAllShards(plane.ctx.gateway, query, done);
}

/** Goes on with the number of its streams, if the bucket exists; otherwise the answer is given here. */
function withBucket(plane: Plane, bucket: string, gathering: Gathering, done: (streams: number) => void): void {
  askBucket(plane, bucket, (parts) => {
    const refused = firstRefusal(parts, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return gathering.refuse(refused.code, refused.text);
    const { exists, streams } = bucketState(parts);
    return exists ? done(streams) : gathering.refuse('BUCKET_NOT_FOUND');
  });
}

export function handleDescribeBucket(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  bucket: string,
  startedMs: number,
): void {
  const gathering = new Gathering(plane, res, responder, 'bucket', startedMs);
  withBucket(plane, bucket, gathering, (streams) => {
    return gathering.json(200, { bucket_id: bucket, streams });
  });
}

/** Asked first, so that a bucket with streams loses no group's entry; each group checks once more. */
export function handleDeleteBucket(
  plane: Plane,
  res: UwsResponse,
  responder: Responder,
  bucket: string,
  startedMs: number,
): void {
  const gathering = new Gathering(plane, res, responder, 'bucket', startedMs);
  withBucket(plane, bucket, gathering, (streams) => {
    if (streams > 0) return gathering.refuse('BUCKET_NOT_EMPTY', `${streams} streams`);
    const command = newRequest();
    command.op = COMMANDS.deleteBucket.number;
    command.command.kind = COMMANDS.deleteBucket.number;
    command.command.bucket = bucket;
    tellAllGroups(plane.ctx.gateway, command, (results) => {
      const refusal = firstRefusal(results, 'BUCKET_NOT_FOUND');
      if (refusal !== undefined) gathering.refuse(refusal.code, refusal.text);
      else gathering.empty(204);
    });
  });
}

interface Listed {
  readonly stream_id: string;
}

interface ShardList {
  readonly streams?: readonly Listed[];
  readonly has_more?: boolean;
}

export function handleListStreams(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  responder: Responder,
  bucket: string,
  startedMs: number,
): void {
  const parsed = parseListQuery(req.getQuery());
  if (!parsed.ok) return plane.refuse(res, responder, 'bucketed', 'list', startedMs, 'INVALID_QUERY', parsed.reason);
  const { prefix, after, limit } = parsed.value;
  // Each makes a key of the store, whose size has an end; no name is longer than this.
  if (Math.max(nameBytes(bucket, prefix), nameBytes(bucket, after)) > NAME_BYTES_MAX) {
    const detail = `prefix and after may each take up to ${NAME_BYTES_MAX} bytes together with the bucket, as names do`;
    return plane.refuse(res, responder, 'bucketed', 'list', startedMs, 'INVALID_QUERY', detail);
  }
  const gathering = new Gathering(plane, res, responder, 'list', startedMs);
  const query = newRequest();
  query.op = QUERIES.list.number;
  query.command.bucket = bucket;
  query.prefix = prefix;
  query.after = after;
  // One more than asked for tells whether there is a next page.
  query.maxRecords = limit + 1;
  askAllShards(plane.ctx.gateway, query, (parts) => {
    const refused = firstRefusal(parts, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return gathering.refuse(refused.code, refused.text);
    if (parts.every((part) => part.code === 'BUCKET_NOT_FOUND')) return gathering.refuse('BUCKET_NOT_FOUND');
    return gathering.guard(() => gathering.json(200, { bucket_id: bucket, prefix, ...mergeLists(parts, limit) }));
  });
}

/** Each shard lists its own streams in order, so the first `limit` of all are among the first of each. */
function mergeLists(parts: readonly Part[], limit: number): Record<string, unknown> {
  const streams: Listed[] = [];
  let more = false;
  for (const part of parts) {
    if (part.body === '') continue;
    const parsed = JSON.parse(part.body) as ShardList | readonly Listed[];
    const list: ShardList = Array.isArray(parsed) ? { streams: parsed } : (parsed as ShardList);
    streams.push(...(list.streams ?? []));
    more ||= list.has_more === true;
  }
  streams.sort((left, right) => compareText(left.stream_id, right.stream_id));
  const page = streams.slice(0, limit);
  more ||= streams.length > limit;
  const last = page.at(-1);
  return {
    stream_count: page.length,
    streams: page,
    next_cursor: more && last !== undefined ? last.stream_id : null,
    has_more: more,
  };
}
