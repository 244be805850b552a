// How each refusal and each answer of the OpenAPI document is brought about over real
// sockets, with a gateway in place of the shards.
import type { TestContext } from 'node:test';
import { ERRORS, type ErrorCode, MillraceError, errorNumber } from '../../src/base/errors.ts';
import type { CatalogEntry } from '../../scripts/openapi/catalog.ts';
import type { Content } from '../../scripts/openapi/operation.ts';
import { SCHEMAS } from '../../scripts/openapi/schemas.ts';
import type { ResolvedRefusal } from '../../scripts/openapi/refusals.ts';
import type { CallOutcome } from '../../src/protocol/queries/administration.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import {
  REPLY_CREATED,
  REPLY_DUPLICATE,
  REPLY_PRODUCER,
  REPLY_UP_TO_DATE,
  type Reply,
} from '../../src/protocol/reply.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { Refusal } from '../../src/subscriptions/service/api-refusal.ts';
import { type Shape, exampleOf } from '../support/examples.ts';
import { type HeaderList, RawClient, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { KEYLESS, bookOf, bearer, flooded, listed, scopeOf, strictBookOf, withRole } from '../support/scoped-tokens.ts';
import type { Asked, Script } from '../support/scripted-gateway.ts';
import { LIMITED, secondOf } from './limited.ts';
import { type Rig, startPlanes } from './planes.ts';
import { type Behind, standInsOf } from './stand-ins.ts';

export interface Scene {
  readonly rig: Rig;
  /** Both planes ask for a token. */
  readonly guarded: Rig;
  /** Knows a token whose scopes allow nothing that a route does, and on the admin plane one that observes. */
  readonly scoped: Rig;
  /** These have room for a few bytes of bodies only, and for no session. */
  readonly tight: Rig;
  readonly crowded: Rig;
  /** The token has one request, and the bucket no live reader. */
  readonly limited: Rig;
  readonly behind: Behind;
}

const UPGRADE = {
  ...{ Upgrade: 'websocket', Connection: 'Upgrade', 'Sec-WebSocket-Version': '13' },
  ...{ 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Protocol': 'millrace.session.v1' },
};
const VALUES: ReadonlyMap<string, string> = new Map([
  ...[['bucket', 'b'] as const, ['stream', 's'] as const, ['path', 'b/s'] as const, ['id', 'x'] as const],
  ...[['offset', '6'] as const, ['group', '0'] as const, ['node', '2'] as const],
]);
const WISH = '{"scopes":[{"bucket":"b","operations":["read"]}],"expires_in":1}';
const BODIES: Readonly<Record<string, string>> = { appendBatch: '\0\0\0\x01x', narrowToken: WISH };
const JSON_BODY = { 'Content-Type': 'application/json' };

export async function startScene(t: TestContext): Promise<Scene> {
  const behind: Behind = { control: { status: 200, json: {} }, keys: undefined, backup: 'answer' };
  const services = standInsOf(behind);
  const start = async (settings: Parameters<typeof startPlanes>[1], sessions = new Sessions()): Promise<Rig> =>
    await startPlanes(t, settings, false, { ...services, sessions });
  return {
    rig: await start({ corsOrigins: ['loopback'], longPollTimeoutMs: 1 }),
    guarded: await start({ clientToken: 'c'.repeat(32), adminToken: 'a'.repeat(32) }),
    scoped: await start({ clientTokens: strictBookOf([NARROW]), adminTokens: bookOf([withRole('narrow', 'observe')]) }),
    tight: await start({ inflightBodyBytes: 4 }),
    crowded: await start({}, new Sessions(0)),
    limited: await start(LIMITED),
    behind,
  };
}

const NARROW = listed('narrow', [scopeOf('b', 's', 'subscribe')]);
async function shootNarrow({ scoped }: Scene, entry: CatalogEntry, shot: Shot = {}, token = bearer('narrow')) {
  const headers = { ...usual(entry).headers, ...token };
  return await shoot(scoped, { ...entry, planes: entry.planes.slice(0, 1) }, { ...shot, headers });
}

async function shootLimited({ limited }: Scene, entry: CatalogEntry, token: string, shot: Shot = {}) {
  const headers = { ...usual(entry).headers, ...bearer(token) };
  return await shoot(limited, { ...entry, planes: ['client'] }, { ...shot, headers });
}

/** One request of an operation. */
export interface Shot {
  readonly headers?: HeaderList;
  readonly body?: string | Buffer;
  /** Behind the path. */
  readonly query?: string;
  /** Values for the path. */
  readonly values?: Readonly<Record<string, string>>;
}

export function portOf({ planes }: CatalogEntry, { port, adminPort }: Rig): number {
  return planes.includes('admin') ? adminPort : port;
}

export function urlOf({ path, operation }: CatalogEntry, { query, values = {} }: Shot = {}): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? VALUES.get(name) ?? '');
  const byRecord = operation.parameters?.includes('record of a position') === true ? 'record=0' : '';
  const voters = operation.parameters?.includes('voters') === true ? 'voters=1,2' : '';
  const asked = query ?? (byRecord || voters);
  return asked === '' ? filled : `${filled}?${asked}`;
}

/** The usual requests of every operation with a body. */
function usual({ method, operation }: CatalogEntry): Shot {
  if (operation.body === undefined || method === 'HEAD') return {};
  return { headers: JSON_BODY, body: BODIES[operation.id] ?? '{}' };
}

export async function shoot(rig: Rig, entry: CatalogEntry, shot: Shot = {}): Promise<RawResponse> {
  const { headers, body } = { ...usual(entry), ...shot };
  return await requestOnce(portOf(entry, rig), entry.method, urlOf(entry, shot), headers ?? {}, body ?? '');
}

/** A head without a body, line by line. */
async function shootHead(port: number, lines: readonly string[]): Promise<RawResponse> {
  const client = await RawClient.connect(port);
  try {
    return await client.send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), lines[0]?.startsWith('HEAD') === true);
  } finally {
    client.destroy();
  }
}

function headOf(entry: CatalogEntry, more: readonly string[], host = 'localhost'): string[] {
  return [`${entry.method} ${urlOf(entry)} HTTP/1.1`, `Host: ${host}`, ...more];
}

/** Any shard answers so. */
async function withScript(rig: Rig, script: Script, ask: () => Promise<RawResponse>): Promise<RawResponse> {
  rig.gateway.script = script;
  try {
    return await ask();
  } finally {
    rig.gateway.script = () => undefined;
    rig.errors.length = 0;
  }
}

const OUTCOMES: ReadonlyMap<number, CallOutcome> = new Map([
  [404, 'not-found'],
  [409, 'refused'],
  [500, 'failed'],
  [502, 'store-failed'],
  [503, 'retry'],
  [507, 'disk-full'],
]);

type Provocation = (scene: Scene, entry: CatalogEntry, refusal: ResolvedRefusal) => Promise<RawResponse>;

const shooting =
  (shot: Shot): Provocation =>
  ({ rig }, entry) =>
    shoot(rig, entry, shot);

/** By code, or by code and the id of the operation. Others come from the shards. */
const PROVOCATIONS: ReadonlyMap<string, Provocation> = new Map<string, Provocation>([
  ['UNAUTHORIZED', async ({ guarded }, entry) => await shoot(guarded, entry)],
  ['TOKEN_FAILURES', (scene, entry) => flooded((wrong) => shootNarrow(scene, entry, {}, wrong))],
  ['RATE_LIMITED', (scene, entry) => secondOf(() => shootLimited(scene, entry, 'busy'))],
  ['READERS_LIMITED', (scene, entry) => shootLimited(scene, entry, 'reader', { query: 'offset=-1&live=sse' })],
  ['INSUFFICIENT_SCOPE', (scene, entry) => shootNarrow(scene, entry)],
  ['BUCKET_NOT_FOUND createBucket', (scene, entry) => shootNarrow(scene, entry, { values: { bucket: 'other' } })],
  ['INVALID_HEADER', ({ rig }, entry) => twoLengths(portOf(entry, rig), entry)],
  ['HOST_NOT_ALLOWED', ({ rig }, entry) => shootHead(portOf(entry, rig), headOf(entry, [], 'elsewhere.example'))],
  ['SESSIONS_FULL', async ({ crowded }, entry) => await shoot(crowded, entry, { headers: UPGRADE })],
  ['UPGRADE_REQUIRED', shooting({})],
  ['ORIGIN_NOT_ALLOWED openSession', shooting({ headers: { ...UPGRADE, Origin: 'http://elsewhere.example' } })],
  ['ORIGIN_NOT_ALLOWED', shooting({ headers: { Origin: 'http://elsewhere.example' } })],
  ['CONTENT_ENCODING', shooting({ headers: { ...JSON_BODY, 'Content-Encoding': 'gzip' } })],
  ['INVALID_NAME', shooting({ values: { bucket: '__b', path: '__b/s' } })],
  ['BODY_TOO_LARGE', oversized],
  ['413 INVALID_REQUEST', oversized],
  ['INFLIGHT_FULL', ({ tight }, entry) => shoot(tight, entry, { headers: JSON_BODY, body: '[1,2,3]' })],
  ['INVALID_QUERY', shooting({ query: 'offset=x&limit=0&live=sse' })],
  ['INVALID_POSITION', shooting({ query: '', values: { offset: 'x' } })],
  ['EMPTY_BODY append', shooting({ body: '' })],
  ['EMPTY_BODY appendByPath', shooting({ body: '' })],
  ['QUOTA_EXCEEDED appendBatch', producersBatch],
  ['MISSING_CONTENT_TYPE', shooting({ headers: {}, body: 'x' })],
  ['INVALID_ATTRIBUTES replaceAttributes', shooting({ headers: JSON_BODY, body: '' })],
  ['PRODUCER_INCOMPLETE', shooting({ headers: { ...JSON_BODY, 'Producer-Id': 'p' } })],
  ['INVALID_BATCH', shooting({ headers: JSON_BODY, body: '\0\0\0\x05x' })],
  ['TOO_MANY_FRAMES', shooting({ headers: JSON_BODY, body: '\0\0\0\x01x'.repeat(513) })],
  ['FORKS_FULL', shooting({ headers: { ...JSON_BODY, 'Stream-Forked-From': '/b/source' } })],
  ['UNSUPPORTED_MEDIA_TYPE', shooting({ headers: { 'Content-Type': 'text/plain' }, body: 'x' })],
  ['INVALID_JSON setQuota', shooting({ headers: JSON_BODY, body: '{' })],
  ['INVALID_QUOTA', shooting({ headers: JSON_BODY, body: '{"max_streams":-1}' })],
  ['400 INVALID_REQUEST narrowToken', shooting({ headers: JSON_BODY, body: '{}' })],
  ['400 INVALID_REQUEST', shooting({ values: { group: 'x' } })],
  ['404 NOT_FOUND', shooting({ values: { group: '999' } })],
  ['SHARD_BUSY', whileFull],
  ['503 UNAVAILABLE probeReady', leaderless],
  ['503 UNAVAILABLE probeReadyHead', leaderless],
]);

function oversized({ rig }: Scene, entry: CatalogEntry): Promise<RawResponse> {
  const length = `Content-Length: ${(entry.row.bodyBytesMax ?? 0) + 1}`;
  return shootHead(portOf(entry, rig), headOf(entry, ['Content-Type: application/json', length]));
}

function twoLengths(port: number, entry: CatalogEntry): Promise<RawResponse> {
  return shootHead(port, headOf(entry, ['Content-Length: 0', 'Content-Length: 0']));
}

/** Without a producer each frame has a status of its own. */
async function producersBatch({ rig }: Scene, entry: CatalogEntry): Promise<RawResponse> {
  const script: Script = (_, reply) => {
    reply.flags |= REPLY_PRODUCER;
    reply.code = errorNumber('QUOTA_EXCEEDED');
  };
  return await withScript(rig, script, () => shoot(rig, entry));
}

async function leaderless({ rig }: Scene, entry: CatalogEntry): Promise<RawResponse> {
  return await withScript(rig, statusOf(null), () => shoot(rig, entry));
}

async function whileFull({ rig }: Scene, entry: CatalogEntry): Promise<RawResponse> {
  rig.gateway.full = true;
  try {
    return await shoot(rig, entry);
  } finally {
    rig.gateway.full = false;
    rig.errors.length = 0;
  }
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code);
}

export async function provoke(scene: Scene, entry: CatalogEntry, refusal: ResolvedRefusal): Promise<RawResponse> {
  const { code, status } = refusal;
  const { path } = entry;
  const { id, tag } = entry.operation;
  if (entry.row.methods.includes('*') && 'application/json' in refusal.content && status !== 413) {
    return await provokeControl(scene, entry, refusal);
  }
  if (path === '/__svc/webhook-keys' && (status === 409 || isFromBehind(code)))
    return await provokeKeys(scene, entry, code);
  if (/^(export|import)Group/.test(id) && (status === 409 || isFromBehind(code)))
    return await provokeBackup(scene, entry, code);
  if (entry.row.methods.includes('*') && code === 'INTERNAL') {
    scene.behind.control = new Error('planned');
    return await withScript(
      scene.rig,
      () => undefined,
      () => shoot(scene.rig, entry),
    );
  }
  // On the admin plane it says other things.
  if (code === 'UNAVAILABLE' && entry.planes.includes('client') && entry.row.access === undefined)
    return await shootNarrow(scene, entry, {}, KEYLESS);
  if (/^(un)?drain$/.test(id) && code === 'INTERNAL') scene.rig.drainMark.failure = new Error('planned');
  const found =
    PROVOCATIONS.get(`${status} ${code} ${id}`) ??
    PROVOCATIONS.get(`${code} ${id}`) ??
    (id === 'flushCold' ? undefined : PROVOCATIONS.get(`${status} ${code}`)) ??
    PROVOCATIONS.get(code);
  if (found !== undefined) return await found(scene, entry, refusal);
  const outcome = (tag === 'raft' || id === 'flushCold') && code !== 'STOPPING' ? OUTCOMES.get(status) : undefined;
  const script: Script = (_, reply) => {
    if (outcome !== undefined)
      QUERIES.admin.result.write(reply, { outcome, body: exampleIn(refusal.content)?.value ?? 'why' });
    else reply.code = isErrorCode(code) ? errorNumber(code) : 0;
  };
  return await withScript(scene.rig, script, () => shoot(scene.rig, entry));
}

type Answered = Readonly<Record<string, unknown>>;

/** Undefined: the document allows text, or nothing. */
function exampleIn(content: Content | undefined): { readonly type: string; readonly value: Answered } | undefined {
  const [[type, schema] = ['', undefined]] = Object.entries(content ?? {});
  if (schema === undefined || !/[/+]json$/.test(type) || content?.['text/plain'] !== undefined) return undefined;
  return { type, value: exampleOf(SCHEMAS[schema] as Shape) as Answered };
}

/** Not refused before the service is asked. */
function isFromBehind(code: string): boolean {
  return isErrorCode(code) && (ERRORS[code].bucketed >= 500 || ['IMPORT_LOST'].includes(code));
}

async function provokeControl(
  { rig, behind }: Scene,
  entry: CatalogEntry,
  { code }: ResolvedRefusal,
): Promise<RawResponse> {
  behind.control = isErrorCode(code) ? new MillraceError(code) : new Refusal(code as Refusal['code'], 'why');
  return await shoot(rig, entry);
}

async function provokeKeys({ rig, behind }: Scene, entry: CatalogEntry, code: string): Promise<RawResponse> {
  behind.keys = code === 'CONFLICT' ? 'why' : isErrorCode(code) ? new MillraceError(code) : undefined;
  return await shoot(rig, entry);
}

async function provokeBackup({ rig, behind }: Scene, entry: CatalogEntry, code: string): Promise<RawResponse> {
  behind.backup = isErrorCode(code) && code !== 'CONFLICT' ? code : 'conflict';
  return await shoot(rig, entry);
}

/** An answer that needs more than the usual request and an empty reply of the shards. */
interface Success {
  readonly shot?: Shot;
  readonly script?: Script;
}

const flags =
  (set: number): Script =>
  (_, reply) =>
    void (reply.flags |= set);

const EMPTY_BUCKET = { streams: 0, exists: true, retainedBytes: 0, streamsMax: -1, retainedBytesMax: -1 };

function emptyBucket({ op }: Asked, reply: Reply): void {
  if (op === QUERIES.bucket.number) QUERIES.bucket.result.write(reply, EMPTY_BUCKET);
}

/** Every shard has two groups, which `leader` leads. */
function statusOf(leader: number | null): Script {
  return (asked, reply) => {
    const groups = [0, 1].map((n) => ({ raft_group_id: 2 * (asked.shard ?? 0) + n, leader, voter_ids: [1] }));
    QUERIES.status.result.write(reply, { raft_groups: groups });
  };
}

const SUCCESSES: ReadonlyMap<string, Success> = new Map<string, Success>([
  ['101 openSession', { shot: { headers: UPGRADE } }],
  ['201 createStream', { script: flags(REPLY_CREATED) }],
  ['200 append', { script: flags(REPLY_PRODUCER) }],
  ['204 append', { script: flags(REPLY_PRODUCER | REPLY_DUPLICATE) }],
  ['204 read', { shot: { query: 'offset=now&live=long-poll' }, script: flags(REPLY_UP_TO_DATE) }],
  ['304 read', { shot: { headers: { 'If-None-Match': '*' } } }],
  ['200 listStreams', { script: (_, reply) => QUERIES.list.result.write(reply, []) }],
  ['200 describeBucket', { script: emptyBucket }],
  ['204 deleteBucket', { script: emptyBucket }],
  ['200 readMetrics', { script: statusOf(1) }],
  ['200 probeReady', { script: statusOf(1) }],
  ['200 readUsage', { script: (_, reply) => QUERIES.usage.result.write(reply, { hasMore: false, rows: [] }) }],
  [
    '204 flushCold',
    { script: (_, reply) => QUERIES.admin.result.write(reply, { outcome: 'nothing-to-do', body: '' }) },
  ],
  ['204 appendBatch', { shot: { headers: { ...JSON_BODY, Prefer: 'return=minimal' } } }],
]);

export async function succeed({ rig, behind }: Scene, entry: CatalogEntry, status: number): Promise<RawResponse> {
  const example = exampleIn(entry.operation.answers.find((one) => one.status === status)?.content);
  behind.control = example === undefined ? { status } : { status, json: example.value, contentType: example.type };
  behind.keys = undefined;
  behind.backup = 'answer';
  const { shot, script } = SUCCESSES.get(`${status} ${entry.operation.id.replace(/(ByPath|Head)$/, '')}`) ?? {};
  const isAdministration = entry.operation.tag === 'raft' || entry.operation.id === 'flushCold';
  const done: Script = (_, reply) => {
    if (isAdministration) QUERIES.admin.result.write(reply, { outcome: 'done', body: example?.value ?? {} });
  };
  return await withScript(rig, script ?? done, () => shoot(rig, entry, shot));
}
