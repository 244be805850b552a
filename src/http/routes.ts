/**
 * Path -> route, on the raw URL of the request. One parser for both families and the service routes, so that there is one
 * place that decides what can never reach a stream: NUL, `..` segments, empty names, the bucket `v1` and names beginning
 * with `__`.
 *
 *   /__svc/...                          service
 *   /v1/stream/{path}                   stream, flat family: decoded, then split at the first `/`; no `/`: bucket _default
 *   /v1/stream/__ds/...                 control: subscriptions and their keys
 *   /{bucket}                           bucket
 *   /{bucket}/streams                   list
 *   /{bucket}/{stream}                  stream, bucketed family; one segment, whose %2F become part of the name
 *   /{bucket}/{stream}/attrs            attrs
 *   /{bucket}/{stream}/append-batch     batch
 *   /{bucket}/{stream}/bootstrap        bootstrap
 *   /{bucket}/{stream}/snapshot[/{offset}], /{bucket}/{stream}/retention[/{offset}]
 */
import { splitFlatPath } from '../protocol/flat-path.ts';
import { decodePathSegment } from '../protocol/header-values.ts';
import { nameFault } from '../protocol/names.ts';
import type { Family } from './contract.ts';

export type RouteKind =
  | 'stream'
  | 'attrs'
  | 'batch'
  | 'snapshot'
  | 'retention'
  | 'bootstrap'
  | 'bucket'
  | 'list'
  | 'service'
  | 'control'
  | 'invalid'
  | 'none';

/** Filled by parseRoute and read at once, before another request is parsed: one object serves all of them. */
export interface Route {
  kind: RouteKind;
  family: Family;
  bucket: string;
  stream: string;
  /** invalid: what is wrong with the name; snapshot and retention: the offset as sent, empty when there is none. */
  detail: string;
}

export function newRoute(): Route {
  return { kind: 'none', family: 'bucketed', bucket: '', stream: '', detail: '' };
}

const FLAT_PREFIX = '/v1/stream/';
/** Reserved for subscriptions, in front of all streams. */
export const CONTROL_PREFIX = `${FLAT_PREFIX}__ds/`;
/** Below a stream, without and with a segment of its own. */
const WITHOUT_POSITION: ReadonlyMap<string, RouteKind> = new Map([
  ['attrs', 'attrs'],
  ['append-batch', 'batch'],
  ['bootstrap', 'bootstrap'],
]);
const WITH_POSITION: ReadonlyMap<string, RouteKind> = new Map([
  ['snapshot', 'snapshot'],
  ['retention', 'retention'],
]);
/** Raw characters that a URL may hold. Others have no agreed bytes, so two spellings could name one stream. */
const NOT_URL = /[^\x21-\x7e]/;

export function parseRoute(url: string, route: Route): void {
  route.family = 'bucketed';
  route.bucket = '';
  route.stream = '';
  route.detail = '';
  if (NOT_URL.test(url)) return invalid(route, 'the path must be ASCII; percent-encode other characters as UTF-8');
  if (url.startsWith(FLAT_PREFIX)) return parseFlat(url, route);
  if (url.startsWith('/__svc/')) {
    route.kind = 'service';
    return;
  }
  parseBucketed(url, route);
}

function parseFlat(url: string, route: Route): void {
  route.family = 'flat';
  if (url.startsWith(CONTROL_PREFIX)) {
    route.kind = 'control';
    return;
  }
  const path = decodePathSegment(url.slice(FLAT_PREFIX.length));
  if (path === undefined) return invalid(route, BAD_ENCODING);
  const { bucket, stream } = splitFlatPath(path);
  route.bucket = bucket;
  route.stream = stream;
  route.kind = 'stream';
  checkNames(route);
}

function parseBucketed(url: string, route: Route): void {
  if (url === '/') {
    route.kind = 'none';
    return;
  }
  const first = url.indexOf('/', 1);
  const bucket = decodePathSegment(first < 0 ? url.slice(1) : url.slice(1, first));
  if (bucket === undefined) return invalid(route, BAD_ENCODING);
  route.bucket = bucket;
  if (first < 0) {
    route.kind = 'bucket';
    return checkNames(route);
  }
  const second = url.indexOf('/', first + 1);
  const stream = decodePathSegment(second < 0 ? url.slice(first + 1) : url.slice(first + 1, second));
  if (stream === undefined) return invalid(route, BAD_ENCODING);
  route.stream = stream;
  route.kind = second < 0 ? (stream === 'streams' ? 'list' : 'stream') : subResource(url.slice(second + 1), route);
  if (route.kind !== 'none') checkNames(route);
}

function subResource(rest: string, route: Route): RouteKind {
  const alone = WITHOUT_POSITION.get(rest);
  if (alone !== undefined) return alone;
  const slash = rest.indexOf('/');
  const position = slash < 0 ? '' : rest.slice(slash + 1);
  const kind = WITH_POSITION.get(slash < 0 ? rest : rest.slice(0, slash));
  // A slash must have something behind it, and nothing behind that.
  if (kind === undefined || position.includes('/') || (slash >= 0 && position === '')) return 'none';
  route.detail = position;
  return kind;
}

const BAD_ENCODING = 'the percent-encoding is malformed or not UTF-8';

function checkNames(route: Route): void {
  const fault = nameFault(route.bucket, route.kind === 'bucket' ? undefined : route.stream);
  if (fault !== undefined) invalid(route, fault);
}

function invalid(route: Route, detail: string): void {
  route.kind = 'invalid';
  route.detail = detail;
}
