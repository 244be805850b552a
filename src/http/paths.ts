/**
 * Path -> pattern, on the raw URL of the request. One parser for both families and the service
 * routes, so that there is one place that decides what can never reach a stream: NUL, `..` segments,
 * empty names, the bucket `v1` and names beginning with `__`.
 *
 *   /v1/stream/{path}      flat family: decoded, then split at the first `/`; without one the bucket is _default
 *   /{bucket}/{stream}      bucketed family: one segment, whose %2F become part of the name
 */

import type { ShardGateway } from '../ports.ts';
import type { RouteFamily } from './context.ts';
import { splitFlatPath } from '../protocol/flat-path.ts';
import { decodeUrlPart } from '../protocol/header-values.ts';
import { nameFault } from '../protocol/names.ts';

/** The patterns of paths of the client plane. Routes are rows of these (router.ts, routes/table.ts). */
export type PathPattern =
  | '/{bucket}'
  | '/{bucket}/streams'
  | '/{bucket}/{stream}'
  | '/{bucket}/{stream}/attrs'
  | '/{bucket}/{stream}/append-batch'
  | '/{bucket}/{stream}/bootstrap'
  | '/{bucket}/{stream}/snapshot'
  | '/{bucket}/{stream}/snapshot/{offset}'
  | '/{bucket}/{stream}/retention'
  | '/{bucket}/{stream}/retention/{offset}'
  | '/v1/stream/__ds/*'
  | '/__svc/*';

/** A path in its parts. Each request context has one, which every request fills again. */
export interface ParsedPath {
  /** The raw URL, if it was kept. */
  url: string;
  /** A path that breaks the rules for names, and one that names nothing. */
  pattern: PathPattern | 'invalid' | 'none';
  family: RouteFamily;
  bucket: string;
  stream: string;
  /** invalid: what is wrong with the name; snapshot and retention: the offset as sent, empty when there is none. */
  detail: string;
  /** The stream's group; -1: not looked up. */
  group: number;
  /** Variables of an operator's path, as they were sent. */
  parameters: readonly string[];
}

export function newPath(): ParsedPath {
  return {
    url: '',
    pattern: 'none',
    family: 'bucketed',
    bucket: '',
    stream: '',
    detail: '',
    group: -1,
    parameters: [],
  };
}

const FLAT_PREFIX = '/v1/stream/';
/** Reserved for subscriptions, in front of all streams. */
export const CONTROL_PREFIX = `${FLAT_PREFIX}__ds/`;
type BelowStream = PathPattern extends infer P ? (P extends `/{bucket}/{stream}/${infer Rest}` ? Rest : never) : never;
/** How a path goes on below a stream, without and with a segment of its own. Patterns without a row do not compile. */
const BELOW_ROWS: Readonly<
  Record<Exclude<BelowStream, `${string}/{offset}`>, readonly [alone: PathPattern, withOffset?: PathPattern]>
> = {
  attrs: ['/{bucket}/{stream}/attrs'],
  'append-batch': ['/{bucket}/{stream}/append-batch'],
  bootstrap: ['/{bucket}/{stream}/bootstrap'],
  snapshot: ['/{bucket}/{stream}/snapshot', '/{bucket}/{stream}/snapshot/{offset}'],
  retention: ['/{bucket}/{stream}/retention', '/{bucket}/{stream}/retention/{offset}'],
};
const BELOW: ReadonlyMap<string, (typeof BELOW_ROWS)[keyof typeof BELOW_ROWS]> = new Map(Object.entries(BELOW_ROWS));
/** Raw characters that a URL may hold. Others have no agreed bytes, so two spellings could name one stream. */
const NOT_URL = /[^\x21-\x7e]/;

export function parsePath(url: string, path: ParsedPath): void {
  path.family = 'bucketed';
  path.bucket = '';
  path.stream = '';
  path.detail = '';
  path.group = -1;
  if (NOT_URL.test(url)) return invalid(path, 'the path must be ASCII; percent-encode other characters as UTF-8');
  if (url.startsWith(FLAT_PREFIX)) return parseFlat(url, path);
  if (url.startsWith('/__svc/')) {
    path.pattern = '/__svc/*';
    return;
  }
  parseBucketed(url, path);
}

function parseFlat(url: string, path: ParsedPath): void {
  path.family = 'flat';
  if (url.startsWith(CONTROL_PREFIX)) {
    path.pattern = '/v1/stream/__ds/*';
    return;
  }
  const decoded = decodeUrlPart(url.slice(FLAT_PREFIX.length));
  if (decoded === undefined) return invalid(path, BAD_ENCODING);
  const { bucket, stream } = splitFlatPath(decoded);
  path.bucket = bucket;
  path.stream = stream;
  path.pattern = '/{bucket}/{stream}';
  checkNames(path);
}

function parseBucketed(url: string, path: ParsedPath): void {
  if (url === '/') {
    path.pattern = 'none';
    return;
  }
  const first = url.indexOf('/', 1);
  const bucket = decodeUrlPart(first < 0 ? url.slice(1) : url.slice(1, first));
  if (bucket === undefined) return invalid(path, BAD_ENCODING);
  path.bucket = bucket;
  if (first < 0) {
    path.pattern = '/{bucket}';
    return checkNames(path);
  }
  const second = url.indexOf('/', first + 1);
  const stream = decodeUrlPart(second < 0 ? url.slice(first + 1) : url.slice(first + 1, second));
  if (stream === undefined) return invalid(path, BAD_ENCODING);
  path.stream = stream;
  if (second >= 0) path.pattern = subResource(url.slice(second + 1), path);
  else path.pattern = stream === 'streams' ? '/{bucket}/streams' : '/{bucket}/{stream}';
  if (path.pattern !== 'none') checkNames(path);
}

function subResource(rest: string, path: ParsedPath): PathPattern | 'none' {
  const slash = rest.indexOf('/');
  const [alone, withOffset] = BELOW.get(slash < 0 ? rest : rest.slice(0, slash)) ?? [];
  if (slash < 0) return alone ?? 'none';
  const offset = rest.slice(slash + 1);
  // A slash must have something behind it, and nothing behind that.
  if (withOffset === undefined || offset === '' || offset.includes('/')) return 'none';
  path.detail = offset;
  return withOffset;
}

const BAD_ENCODING = 'the percent-encoding is malformed or not UTF-8';

function checkNames(path: ParsedPath): void {
  const fault = nameFault(path.bucket, path.pattern === '/{bucket}' ? undefined : path.stream);
  if (fault !== undefined) invalid(path, fault);
}

function invalid(path: ParsedPath, detail: string): void {
  path.pattern = 'invalid';
  path.detail = detail;
}

/** Paths of streams that are known at once; with the longest names 5 MiB. */
const KNOWN_MAX = 8192;
const KNOWN_CHARS_MAX = 128;
/** One in so many unknown paths is kept: appends over a million streams must not pay for what they rarely find. */
const LEARN_ONE_OF = 8;

const STREAM: PathPattern = '/{bucket}/{stream}';

/** Which group a stream belongs to. */
export type Groups = Pick<ShardGateway, 'groupOf'>;

/** Parses paths, and remembers those of streams with their group: the same ones come again and again. */
export class KnownPaths {
  readonly #groups: Groups;
  readonly #known = new Map<string, Readonly<ParsedPath>>();
  #unknown = 0;

  constructor(groups: Groups) {
    this.#groups = groups;
  }

  get size(): number {
    return this.#known.size;
  }

  /** Does the same as parsePath, from the cache where it can. */
  parse(url: string, path: ParsedPath): void {
    path.url = url;
    const known = this.#known.get(url);
    if (known === undefined) {
      parsePath(url, path);
      if (path.pattern === STREAM) this.#learn(url, path);
      return;
    }
    path.pattern = STREAM;
    path.family = known.family;
    path.bucket = known.bucket;
    path.stream = known.stream;
    path.detail = '';
    path.group = known.group;
  }

  #learn(url: string, path: ParsedPath): void {
    this.#unknown++;
    if (this.#unknown % LEARN_ONE_OF !== 0 || url.length > KNOWN_CHARS_MAX) return;
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(url, { ...path, group: this.#groups.groupOf(path.bucket, path.stream) });
  }
}
