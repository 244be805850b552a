/** PUT and GET /__svc/quota/{bucket}: one bound for the cluster, kept in every group (gateway/quota-gate.ts goes by it). */
import { decodeUtf8 } from '../../../base/utf8.ts';
import { type Quota, encodeQuota } from '../../../protocol/bucket-command.ts';
import { isJson } from '../../../protocol/media-type.ts';
import { newRequest } from '../../../protocol/request.ts';
import { Gathering } from '../../gather.ts';
import { guardData, readData } from '../../guard.ts';
import { askAllShards, firstRefusal, tellAllGroups } from '../../../gateway/scatter.ts';
import type { ServiceCall } from './service-call.ts';
import { COMMANDS, QUERIES } from '../../../protocol/operations.ts';

/** A quota is two numbers; more than this is none. */
const BODY_BYTES_MAX = 4096;
const NONE = -1;
const MEMBERS: ReadonlySet<string> = new Set(['max_streams', 'max_retained_bytes']);

export function handlePutQuota({ plane, res, req, responder, startedMs }: ServiceCall, bucket: string): void {
  const contentType = req.getHeader('content-type');
  const gathering = new Gathering(plane, res, responder, 'bucket', startedMs);
  const done = (body: Uint8Array | undefined): void => {
    if (body === undefined) return gathering.text(413, `a quota is at most ${BODY_BYTES_MAX} bytes`);
    if (body.length > 0 && !isJson(contentType)) return gathering.refuse('UNSUPPORTED_MEDIA_TYPE');
    const parsed = parseQuota(body);
    if ('code' in parsed) return gathering.refuse(parsed.code, parsed.reason);
    const request = newRequest();
    request.op = COMMANDS.quota.number;
    request.command.kind = COMMANDS.quota.number;
    request.command.bucket = bucket;
    request.command.payload = encodeQuota(parsed);
    return tellAllGroups(plane.ctx.gateway, request, (parts) => {
      const refused = firstRefusal(parts);
      if (refused === undefined) return gathering.empty(204);
      const told = parts.filter((part) => part.code === 'OK').length;
      return gathering.refuse(refused.code, `${told} of ${parts.length} groups have the new quota; repeat the call`);
    });
  };
  const take = collectBody(done);
  readData(res, guardData(plane.logError, gathering, take));
}

/** `done` gets undefined for a body over the bound, and nothing when the client goes away (the gathering sees that). */
function collectBody(done: (body: Uint8Array | undefined) => void): (chunk: ArrayBuffer, last: boolean) => void {
  const chunks: Uint8Array[] = [];
  let size = 0;
  return (chunk, last) => {
    if (size > BODY_BYTES_MAX) return;
    size += chunk.byteLength;
    if (size > BODY_BYTES_MAX) return done(undefined);
    chunks.push(new Uint8Array(chunk.slice(0)));
    if (last) done(Buffer.concat(chunks));
  };
}

type Refused = { readonly code: 'INVALID_JSON' | 'INVALID_QUOTA'; readonly reason: string };

/** No body, or members that are absent or null: no bound. */
function parseQuota(body: Uint8Array): Quota | Refused {
  if (body.length === 0) return { streamsMax: NONE, retainedBytesMax: NONE };
  let value: unknown;
  try {
    value = JSON.parse(decodeUtf8(body));
  } catch {
    return { code: 'INVALID_JSON', reason: '' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wrong('it is not an object');
  const unknown = Object.keys(value).find((name) => !MEMBERS.has(name));
  if (unknown !== undefined) return wrong(`it has no member ${JSON.stringify(unknown.slice(0, 40))}`);
  const { max_streams, max_retained_bytes } = value as Record<string, unknown>;
  const streamsMax = parseBound(max_streams);
  const retainedBytesMax = parseBound(max_retained_bytes);
  if (streamsMax === undefined) return wrong('max_streams');
  return retainedBytesMax === undefined ? wrong('max_retained_bytes') : { streamsMax, retainedBytesMax };
}

function wrong(reason: string): Refused {
  return { code: 'INVALID_QUOTA', reason };
}

function parseBound(value: unknown): number | undefined {
  if (value === undefined || value === null) return NONE;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) return undefined;
  // Above 2^53 there is nothing to count.
  return Math.min(value, Number.MAX_SAFE_INTEGER);
}

/** The bounds, the largest where a change is under way, null: none; and what the bucket has. */
export function handleGetQuota({ plane, res, responder, startedMs }: ServiceCall, bucket: string): void {
  const gathering = new Gathering(plane, res, responder, 'bucket', startedMs);
  const query = newRequest();
  query.op = QUERIES.bucket.number;
  query.command.bucket = bucket;
  askAllShards(plane.ctx.gateway, query, (parts) => {
    const refused = firstRefusal(parts, 'BUCKET_NOT_FOUND');
    if (refused !== undefined) return gathering.refuse(refused.code, refused.text);
    const largest = (bounds: readonly number[]): number | null => {
      const bound = Math.max(...bounds);
      return bound < 0 ? null : bound;
    };
    return gathering.json(200, {
      max_streams: largest(parts.map((part) => part.streamsMax)),
      max_retained_bytes: largest(parts.map((part) => part.retainedBytesMax)),
      used_streams: parts.reduce((sum, { a }) => sum + a, 0),
      used_retained_bytes: parts.reduce((sum, { c }) => sum + c, 0),
    });
  });
}
