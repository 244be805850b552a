/** One bucket as a tenant: DELETE /__svc/purge/{bucket}, PUT and GET /__svc/quota/{bucket}; GET /__svc/usage of all. */
import type { Grant } from '../../../access/scopes.ts';
import { USAGE_VERSION, WRITE_UNIT_BYTES } from '../../../base/limits.ts';
import { decodeUtf8, encodeUtf8 } from '../../../base/utf8.ts';
import type { ShardGateway } from '../../../ports.ts';
import type { Quota } from '../../../protocol/bucket-command.ts';
import { isJson } from '../../../protocol/media-type.ts';
import { type ColdObjects, purge } from '../../../tenants/bucket-purge.ts';
import { readQuota, setQuota, shownQuota } from '../../../tenants/bucket-quota.ts';
import { METERS, readUsage } from '../../../tenants/bucket-usage.ts';
import { declaredBytes } from '../../headers.ts';
import type { RequestContext } from '../../request.ts';
import { JSON_TYPE } from '../../response.ts';
import { grantOf } from '../../scope-gate.ts';
import type { StreamHead, StreamingResponse } from '../../streaming.ts';

export function handlePurge(call: RequestContext, coldObjects: ColdObjects | undefined): void {
  const { bucket, gateway, server } = call;
  const { writes } = server;
  call.keep();
  const isWanted = (): boolean => !call.isOver;
  const logError = (error: unknown, what: string): void => server.logError(error, what, call.requestId);
  const answer = (report: Awaited<ReturnType<typeof purge>>): void => {
    if (report === undefined) return undefined;
    if (report.code !== 'OK') {
      const where = `group ${report.group} was not finished`;
      const done = `${report.removedStreams} streams are removed; repeat the purge to go on`;
      return call.refuse(report.code, `${where}, ${done}`);
    }
    return call.json(200, {
      bucket,
      removed_streams: report.removedStreams,
      groups_with_streams: report.groupsWithStreams,
      cold_gc_entries_reclaimed: report.reclaimedObjects,
    });
  };
  purge({ gateway, writes, bucket, coldObjects, isWanted, logError }).then(answer, (error: unknown) =>
    call.crash(error),
  );
}

/** A quota is two numbers; more than this is none. */
export const QUOTA_BODY_BYTES_MAX = 4096;
const NONE = -1;
const MEMBERS: ReadonlySet<string> = new Set(['max_streams', 'max_retained_bytes']);

export function handlePutQuota(call: RequestContext): void {
  const { contentType = '', contentLength } = call.headers;
  call.keep();
  call.readBody(declaredBytes(contentLength), {
    tooLarge: () => call.text(413, `a quota is at most ${QUOTA_BODY_BYTES_MAX} bytes`),
    consume: (_, body) => {
      if (body.length > 0 && !isJson(contentType)) return call.refuse('UNSUPPORTED_MEDIA_TYPE');
      const quota = parseQuota(body);
      if ('code' in quota) return call.refuse(quota.code, quota.reason);
      return setQuota(call.server.writes, call.bucket, quota, (refused) => {
        if (refused === undefined) return call.empty(204);
        const { code, told, groups } = refused;
        return call.refuse(code, `${told} of ${groups} groups have the new quota; repeat the call`);
      });
    },
  });
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

/** null: no bound. */
export function handleGetQuota(call: RequestContext): void {
  call.keep();
  readQuota(call.gateway, call.bucket, (report) => {
    if (report.code !== 'OK') return call.refuse(report.code, report.detail);
    return call.json(200, shownQuota(report, call.server.writes.defaultQuota));
  });
}

/** Characters written at once. */
const PIECE_CHARS = 64 * 1024;
const USAGE_HEAD: StreamHead = { status: 200, headers: (res) => void res.writeHeader('content-type', JSON_TYPE) };

export function handleUsage(call: RequestContext): void {
  const response = call.streaming();
  if (call.responder.headOnly) return response.whole(USAGE_HEAD, undefined);
  return void writeUsage(response, call.gateway, grantOf(call.credentials)).catch((error: unknown) =>
    call.crash(error),
  );
}

/** Writes bucket after bucket, at the pace of the reader. */
async function writeUsage(response: StreamingResponse, gateway: ShardGateway, grant?: Grant): Promise<void> {
  let text = `{"version":${USAGE_VERSION},"write_unit_bytes":${WRITE_UNIT_BYTES},"buckets":{`;
  let separator = '';
  for await (const next of readUsage(gateway, grant)) {
    if (response.isOver) return undefined;
    if ('code' in next) return response.fail(next.code, next.detail);
    const members = METERS.map((meter, i) => `"${meter}":${next.meters[i]}`).join(',');
    text += `${separator}${JSON.stringify(next.bucket)}:{${members}}`;
    separator = ',';
    if (text.length < PIECE_CHARS) continue;
    if (!response.isBegun) response.begin(USAGE_HEAD);
    const piece = text;
    text = '';
    await response.put(piece);
  }
  const rest = encodeUtf8(`${text}}}`);
  if (!response.isBegun) return response.whole(USAGE_HEAD, rest);
  await response.put(rest);
  response.end();
}
