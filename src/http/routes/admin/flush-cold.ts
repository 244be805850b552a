/**
 * POST /__svc/flush-cold/{bucket}/{stream}?min_hot_bytes&max_bytes: moves a prefix of the stream's hot bytes
 * to the cold store now. 200 with the new frontier, 204 when fewer hot bytes than asked for are there, 404, 409 on a node that
 * does not lead (with the leader's id) or has no cold store, 502 when the store fails. Numbers that cannot be read count as
 * left out.
 */
import { parseUint53 } from '../../../protocol/header-values.ts';
import { newRequest } from '../../../protocol/request.ts';
import type { Plane } from '../../plane.ts';
import { collect } from '../../query.ts';
import { OperatorExchange } from './raft-admin.ts';
import type { Responder } from '../../respond.ts';
import { newRoute, parseRoute } from '../../routes.ts';
import type { UwsRequest, UwsResponse } from '../../uws.ts';
import { QUERIES } from '../../../protocol/operations.ts';

const FLUSH_PATH = '/__svc/flush-cold';
export const FLUSH_PREFIX = `${FLUSH_PATH}/`;
const MIN_BYTES = 1;
const MAX_BYTES = 8 * 1024 * 1024;
/** The shard takes the bound as u32, and has one of its own far below. */
const UINT32_MAX = 0xffff_ffff;
const PARAMETERS: ReadonlySet<string> = new Set(['min_hot_bytes', 'max_bytes']);

export function handleFlushCold(
  plane: Plane,
  res: UwsResponse,
  req: UwsRequest,
  method: string,
  responder: Responder,
  startedMs: number,
): void {
  const route = newRoute();
  // Names mean the same here as on the client plane.
  parseRoute(req.getUrl().slice(FLUSH_PATH.length), route);
  if (route.kind === 'invalid') {
    return plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'INVALID_NAME', route.detail);
  }
  // There is nothing to list here, so `streams` is a stream like any other.
  if ((route.kind !== 'stream' && route.kind !== 'list') || route.family !== 'bucketed') {
    return plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'ROUTE_NOT_FOUND');
  }
  if (method !== 'post') return plane.count('other', responder.methodNotAllowed(res, 'POST'), startedMs);
  const collected = collect(req.getQuery() ?? '', PARAMETERS);
  const parameters = collected.ok ? collected.value : new Map<string, string>();
  const request = newRequest();
  request.op = QUERIES.flushStream.number;
  request.group = plane.ctx.gateway.groupOf(route.bucket, route.stream);
  request.command.bucket = route.bucket;
  request.command.stream = route.stream;
  request.value = number(parameters.get('min_hot_bytes'), MIN_BYTES);
  request.maxBytes = Math.min(UINT32_MAX, number(parameters.get('max_bytes'), MAX_BYTES));
  const exchange = new OperatorExchange(plane);
  exchange.open(res, responder, 'bucketed', 'other', startedMs);
  return exchange.send(request);
}

function number(text: string | undefined, otherwise: number): number {
  const parsed = parseUint53(text ?? '', 'the number');
  return parsed.ok ? parsed.value : otherwise;
}
