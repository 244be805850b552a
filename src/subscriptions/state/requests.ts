/** Bodies of subscription requests: from untrusted parsed JSON to typed requests, or a sentence that says why not. */
import {
  SUBSCRIPTION_LINKS_MAX,
  SUBSCRIPTION_NAME_BYTES_MAX,
  SUBSCRIPTION_TEXT_BYTES_MAX,
  WEBHOOK_URL_BYTES_MAX,
} from '../../base/limits.ts';
import { flatPath, splitFlatPath } from '../../protocol/flat-path.ts';
import { nameFault } from '../../protocol/names.ts';
import { type QueryResult, fail } from '../../protocol/query-string.ts';
import { isTable } from '../../base/scopes.ts';
import { textBytes } from '../../base/text.ts';
import type { SubscriptionConfig } from './subscription.ts';
import { decodeUtf8Strict } from '../../base/utf8.ts';

const LEASE_DEFAULT_MS = 30_000;
const LEASE_MIN_MS = 1000;
const LEASE_MAX_MS = 600_000;

const good = <T>(value: T): QueryResult<T> => ({ ok: true, value });

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (body: unknown): Fields | undefined => (isTable(body) ? body : undefined);

/** The body of a creation; the URL of a webhook is checked elsewhere. */
export function parseConfig(body: unknown): QueryResult<SubscriptionConfig> {
  const fields = fieldsOf(body);
  if (fields === undefined) return fail('the body must be a JSON object');
  const { type } = fields;
  if (type !== 'webhook' && type !== 'pull-wake') return fail('type must be "webhook" or "pull-wake"');
  const pattern = isAbsent(fields['pattern']) ? good(null) : parsePattern(fields['pattern']);
  if (!pattern.ok) return pattern;
  const streams = isAbsent(fields['streams']) ? good<string[]>([]) : parsePaths(fields['streams']);
  if (!streams.ok) return streams;
  if (pattern.value === null && streams.value.length === 0) return fail('give at least one of pattern and streams');
  const lease = isAbsent(fields['lease_ttl_ms']) ? LEASE_DEFAULT_MS : fields['lease_ttl_ms'];
  if (!isInteger(lease) || lease < LEASE_MIN_MS || lease > LEASE_MAX_MS) {
    return fail(`lease_ttl_ms must be an integer from ${LEASE_MIN_MS} to ${LEASE_MAX_MS}`);
  }
  const description = isAbsent(fields['description']) ? null : fields['description'];
  if (description !== null && !isText(description, SUBSCRIPTION_TEXT_BYTES_MAX)) {
    return fail(`description must be a string of at most ${SUBSCRIPTION_TEXT_BYTES_MAX} bytes`);
  }
  const target = parseTarget(type, fields);
  if (!target.ok) return target;
  const looped = wakesItself(target.value.wake_stream, streams.value);
  if (looped !== undefined) return fail(looped);
  return good({
    type,
    pattern: pattern.value,
    streams: streams.value,
    ...target.value,
    lease_ttl_ms: lease,
    description,
  });
}

/** Fields of the other type are omitted from the configuration. */
function parseTarget(
  type: SubscriptionConfig['type'],
  fields: Fields,
): QueryResult<Pick<SubscriptionConfig, 'url' | 'wake_stream'>> {
  if (type === 'webhook') {
    const url = fieldsOf(fields['webhook'])?.['url'];
    if (isText(url, WEBHOOK_URL_BYTES_MAX) && url !== '') return good({ url, wake_stream: null });
    return fail(`a webhook subscription needs webhook.url, a string of at most ${WEBHOOK_URL_BYTES_MAX} bytes`);
  }
  if (isAbsent(fields['wake_stream'])) return fail('a pull-wake subscription needs wake_stream');
  const path = parsePath(fields['wake_stream']);
  return path.ok ? good({ url: null, wake_stream: path.value }) : fail(`wake_stream: ${path.reason}`);
}

/** Why these cannot be streams of a subscription with this wake stream; undefined: they can. */
export function wakesItself(wakeStream: string | null, streams: readonly string[]): string | undefined {
  if (wakeStream === null || !streams.includes(wakeStream)) return undefined;
  return `${wakeStream} is the wake stream of the subscription: followed too, each wake would cause the next`;
}

/** {"streams": [...]}. */
export function parseStreams(body: unknown): QueryResult<string[]> {
  const fields = fieldsOf(body);
  if (fields === undefined) return fail('the body must be a JSON object');
  const paths = parsePaths(fields['streams']);
  return paths.ok && paths.value.length === 0 ? fail('streams must be a non-empty array of paths') : paths;
}

export function parseWorker(body: unknown): QueryResult<string> {
  const worker = fieldsOf(body)?.['worker'];
  if (isText(worker, SUBSCRIPTION_NAME_BYTES_MAX) && worker !== '') return good(worker);
  return fail(`worker must be a non-empty string of at most ${SUBSCRIPTION_NAME_BYTES_MAX} bytes`);
}

/** A callback, an ack or a release. */
export interface WakeRequest {
  readonly wakeId: string;
  readonly generation: number;
  /** Offsets as sent: an invalid offset is refused differently from a malformed body. */
  readonly acks: readonly (readonly [path: string, offset: string])[];
  readonly done: boolean;
}

export function parseWakeRequest(body: unknown): QueryResult<WakeRequest> {
  const fields = fieldsOf(body);
  if (fields === undefined) return fail('the body must be a JSON object');
  const { wake_id: wakeId, generation } = fields;
  if (!isText(wakeId, SUBSCRIPTION_NAME_BYTES_MAX)) return fail('wake_id must be a string');
  if (!isInteger(generation) || generation < 0) return fail('generation must be an integer');
  const done = isAbsent(fields['done']) ? false : fields['done'];
  if (typeof done !== 'boolean') return fail('done must be true or false');
  const sent = isAbsent(fields['acks']) ? [] : fields['acks'];
  if (!Array.isArray(sent) || sent.length > SUBSCRIPTION_LINKS_MAX) {
    return fail(`acks must be an array of at most ${SUBSCRIPTION_LINKS_MAX} acknowledgements`);
  }
  const acks: [string, string][] = [];
  for (const one of sent as readonly unknown[]) {
    const ack = fieldsOf(one);
    const path = parsePath(ack?.['stream'] ?? ack?.['path']);
    const offset = ack?.['offset'];
    if (!path.ok || typeof offset !== 'string') return fail('an ack is {"stream": path, "offset": offset}');
    acks.push([path.value, offset]);
  }
  return good({ wakeId, generation, acks, done });
}

/** Sorted, each once. */
function parsePaths(value: unknown): QueryResult<string[]> {
  if (!Array.isArray(value)) return fail('streams must be an array of paths');
  if (value.length > SUBSCRIPTION_LINKS_MAX) return fail(`streams may hold ${SUBSCRIPTION_LINKS_MAX} paths`);
  const paths = new Set<string>();
  for (const one of value as readonly unknown[]) {
    const path = parsePath(one);
    if (!path.ok) return fail(`streams: ${path.reason}`);
    paths.add(path.value);
  }
  return good([...paths].sort());
}

/** The one path that a stream has; a leading slash does not count, all others do. */
export function parsePath(value: unknown): QueryResult<string> {
  if (typeof value !== 'string') return fail('a path must be a string');
  const { bucket, stream } = splitFlatPath(withoutLeadingSlash(value));
  const fault = nameFault(bucket, stream);
  return fault === undefined ? good(flatPath(bucket, stream)) : fail(fault);
}

function parsePattern(value: unknown): QueryResult<string> {
  if (!isText(value, SUBSCRIPTION_TEXT_BYTES_MAX)) {
    return fail(`pattern must be a string of at most ${SUBSCRIPTION_TEXT_BYTES_MAX} bytes`);
  }
  const pattern = withoutLeadingSlash(value);
  // In the form of stream paths: the bucket _default is omitted. (`_default/**` stays: `**` alone would be every
  // bucket.)
  const { bucket, stream } = splitFlatPath(pattern);
  if (bucket === '') return fail('pattern: the bucket name is empty');
  // `**` may be all segments but the last, so there an empty last segment matches streams like `b/`.
  if (stream === '' && bucket !== '**') return fail('pattern: the stream name is empty');
  if (pattern.includes('\0') || pattern.split('/').includes('..')) return fail('pattern holds NUL or a .. segment');
  if (pattern.startsWith('__')) return fail('pattern: names beginning with __ are reserved');
  return good(stream === '**' ? pattern : flatPath(bucket, stream));
}

/** Clients also use it for "I have none". */
function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value);
}

function isText(value: unknown, bytesMax: number): value is string {
  return typeof value === 'string' && textBytes(value) <= bytesMax;
}

function withoutLeadingSlash(path: string): string {
  return path.startsWith('/') ? path.slice(1) : path;
}

export interface BodyOf {
  readonly config: SubscriptionConfig;
  readonly streams: string[];
  readonly worker: string;
  readonly wake: WakeRequest;
}

export type BodyKind = keyof BodyOf;

const PARSERS: { readonly [Kind in BodyKind]: (body: unknown) => QueryResult<BodyOf[Kind]> } = {
  config: parseConfig,
  streams: parseStreams,
  worker: parseWorker,
  wake: parseWakeRequest,
};

/** The main thread parses bodies, and does all of HTTP: 2 MiB of a body without too many parts take milliseconds. */
export function parseBody<Kind extends BodyKind>(kind: Kind, body: Uint8Array): QueryResult<BodyOf[Kind]> {
  if (!hasFewParts(body)) return fail('the body takes too much memory to be parsed');
  const text = decodeUtf8Strict(body);
  if (text === undefined) return NO_JSON;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return NO_JSON;
  }
  return PARSERS[kind](value);
}

/** Values and members of a body. An acknowledgement has five; 2 MiB of `[` or `{}` take a quarter of a second. */
const PARTS_MAX = 8 * SUBSCRIPTION_LINKS_MAX;
const [QUOTE, BACKSLASH, BRACE, BRACKET, COMMA, COLON] = [0x22, 0x5c, 0x7b, 0x5b, 0x2c, 0x3a];

function hasFewParts(body: Uint8Array): boolean {
  let parts = 0;
  for (let at = 0; at < body.length && parts <= PARTS_MAX; at++) {
    const byte = body[at];
    if (byte === BRACE || byte === BRACKET || byte === COMMA || byte === COLON) parts++;
    if (byte === QUOTE) for (at++; at < body.length && body[at] !== QUOTE; at++) if (body[at] === BACKSLASH) at++;
  }
  return parts <= PARTS_MAX;
}

const NO_JSON = { ok: false, reason: 'the body must be JSON in UTF-8' } as const;
