// Data that version 0.1.0 did not have, or its golden data leaves out: conditional writes, batches, what is left of
// sources that were removed while forks of them live, forks of cold and of JSON streams, tenants that were purged,
// leases of subscriptions, a queue of objects to delete. In a bucket of its own.
import assert from 'node:assert/strict';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { type Ports, type World, aboutStreams } from '../backup/world.ts';
import { until } from '../support/until.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { SUBSCRIPTIONS, addCold, describe, fill, flushCold, subscription } from './contents.ts';

const TEXT = { 'content-type': 'text/plain' };
const JSON_TYPE = { 'content-type': 'application/json' };
const CLOSE = { 'stream-closed': 'true' };
/** Behind a row, so that streams have several. */
const LONG = 'x'.repeat(5000);

export const CONDITIONAL = '/more/conditional';
const STREAMS = [
  ...[CONDITIONAL, '/more/closed-by-producer', '/more/batch', '/more/json-batch', '/more/of-stone', '/more/json'],
  ...[
    '/more/half',
    '/more/cold-json',
    '/more/of-cold',
    '/more/long',
    '/more/untyped',
    '/more/empty',
    '/more/sequenced',
  ],
];
const SUBSCRIBED = ['held', 'all'];
const QUOTAS = ['more', 'reserved', 'purged'];

type Call = (
  method: string,
  path: string,
  headers?: Record<string, string>,
  body?: string | Buffer,
) => Promise<RawResponse>;

interface Client {
  /** Every answer is one of success. */
  readonly made: Call;
  readonly refused: (status: number, ...call: Parameters<Call>) => Promise<void>;
}

function client(port: number): Client {
  const call: Call = (method, path, headers = {}, body = '') =>
    requestOnce(port, method, path, headers, Buffer.from(body));
  return {
    made: async (method, path, headers, body) => {
      const answer = await call(method, path, headers, body);
      assert([200, 201, 204].includes(answer.status), `${method} ${path}: ${answer.status} ${answer.body.toString()}`);
      return answer;
    },
    refused: async (status, method, path, headers, body) => {
      assert.equal((await call(method, path, headers, body)).status, status, `${method} ${path}`);
    },
  };
}

const producer = (epoch: number, seq: number): Record<string, string> => ({
  'producer-id': 'Ünï',
  'producer-epoch': `${epoch}`,
  'producer-seq': `${seq}`,
});

const etagOf = (answer: RawResponse): string => answer.headers.get('etag') ?? '';

/** Through the first of the nodes, but for what only a leader does. */
export async function fillAll(nodes: readonly [Ports, ...Ports[]]): Promise<World> {
  const [ports] = nodes;
  const world = await addCold(nodes, await fill(ports));
  const api = client(ports.port);
  await conditional(api);
  await writes(api);
  await forks(api, nodes);
  await tenants(api, client(ports.adminPort));
  await subscribe(api);
  return { ...world, streams: [...world.streams, ...STREAMS] };
}

async function conditional({ made, refused }: Client): Promise<void> {
  await made('PUT', CONDITIONAL, { ...TEXT, 'if-none-match': '*' }, 'one,');
  await refused(412, 'PUT', CONDITIONAL, { ...TEXT, 'if-none-match': '*' });
  const first = etagOf(await made('HEAD', CONDITIONAL));
  await made('POST', CONDITIONAL, { ...TEXT, 'if-match': first }, 'two,');
  await refused(412, 'POST', CONDITIONAL, { ...TEXT, 'if-match': first }, 'never,');
  await refused(412, 'DELETE', CONDITIONAL, { 'if-match': first });
}

async function writes({ made, refused }: Client): Promise<void> {
  await made('PUT', '/more/closed-by-producer', TEXT);
  await made('POST', '/more/closed-by-producer', { ...TEXT, ...producer(0, 0) }, 'first epoch,');
  await made('POST', '/more/closed-by-producer', { ...TEXT, ...producer(7, 0) }, 'another epoch,');
  await made('POST', '/more/closed-by-producer', { ...TEXT, ...producer(7, 1), ...CLOSE }, 'and the end');
  const frames = (...texts: string[]): Buffer => Buffer.from(joinFrames(texts.map((text) => Buffer.from(text))));
  await made('PUT', '/more/batch', TEXT);
  await made('POST', '/more/batch/append-batch', TEXT, frames('a', 'bb', LONG, 'dddd'));
  await made('PUT', '/more/json-batch', JSON_TYPE);
  await made('POST', '/more/json-batch/append-batch', JSON_TYPE, frames('{"n":1}', '[2,3]'));
  await made('POST', '/more/json-batch', { ...JSON_TYPE, 'stream-record-match': '3' }, '{"n":4e400}');
  await refused(412, 'POST', '/more/json-batch', { ...JSON_TYPE, 'stream-record-match': '3' }, '5');
  await made('PUT', '/more/long', { ...TEXT, 'stream-expires-at': '2099-12-31T23:59:59Z' }, LONG.repeat(3));
  await made('PUT', '/more/untyped');
  await made('POST', '/more/untyped', TEXT, 'typed by its first append');
  await made('PUT', '/more/empty', { ...JSON_TYPE, ...CLOSE, 'stream-ttl': '3000000000' });
  await made('PUT', '/more/sequenced', TEXT);
  for (const seq of ['0001', '0002', 'ÿ']) await made('POST', '/more/sequenced', { ...TEXT, 'stream-seq': seq }, seq);
  await made('PUT', '/more/sequenced/snapshot/4', { 'content-type': 'text/x-state' }, LONG);
  await made('PUT', '/more/sequenced/retention/4');
  await made(
    'PUT',
    '/more/sequenced/attrs',
    JSON_TYPE,
    '{"title":"Ünï","metadata":{"n":1.00,"big":12345678901234567890}}',
  );
}

async function forks({ made }: Client, nodes: readonly Ports[]): Promise<void> {
  await made('PUT', '/more/stone', TEXT, 'of a stream that was removed,');
  await made('PUT', '/more/of-stone', { ...TEXT, 'stream-forked-from': '/more/stone' }, 'of its fork');
  await made('DELETE', '/more/stone');
  await made('PUT', '/more/json', JSON_TYPE, '[{"n":1},{"n":2},{"n":3}]');
  await made('PUT', '/more/half', {
    'stream-forked-from': '/more/json',
    'stream-fork-offset': '0',
    'stream-fork-sub-offset': '2',
  });
  await made('PUT', '/more/cold-json', JSON_TYPE, JSON.stringify(Array.from({ length: 300 }, (_, n) => ({ n }))));
  await flushCold(nodes, '/more/cold-json');
  await made('POST', '/more/cold-json', JSON_TYPE, '["hot"]');
  await made('PUT', '/more/of-cold', { 'stream-forked-from': '/more/cold-json' });
  // Cold objects of removed streams wait in the queue of objects.
  await made('PUT', '/more/unwanted', TEXT, LONG);
  await flushCold(nodes, '/more/unwanted');
  await made('DELETE', '/more/unwanted');
}

async function tenants({ made }: Client, admin: Client): Promise<void> {
  await made('PUT', '/purged/stream', TEXT, LONG);
  await admin.made('PUT', '/__svc/quota/purged', JSON_TYPE, '{"max_streams":5}');
  await admin.made('DELETE', '/__svc/purge/purged');
  await admin.made('PUT', '/__svc/quota/more', JSON_TYPE, '{"max_retained_bytes":1000000000}');
  await admin.made('PUT', '/__svc/quota/reserved', JSON_TYPE, '{"max_streams":3,"max_retained_bytes":4096}');
}

/** One of a stream that it begins at its tail, and one of all streams here from their beginnings. */
async function subscribe({ made }: Client): Promise<void> {
  const pull = { type: 'pull-wake', streams: ['more/json'], wake_stream: 'wake/held', description: 'Ünï' };
  await made('PUT', `${SUBSCRIPTIONS}/held`, JSON_TYPE, JSON.stringify(pull));
  await made('POST', '/more/json', JSON_TYPE, '[{"n":4},{"n":5}]');
  const all = { type: 'pull-wake', pattern: 'more/**', wake_stream: 'wake/all', lease_ttl_ms: 5000 };
  await made('PUT', `${SUBSCRIPTIONS}/all`, JSON_TYPE, JSON.stringify(all));
}

/** All that describe() shows, and what is of this file. */
export async function describeAll(ports: Ports, world: World): Promise<Record<string, unknown>> {
  const seen: Record<string, unknown> = await describe(ports, world);
  const get = (path: string, port = ports.port): Promise<RawResponse> => requestOnce(port, 'GET', path);
  seen['etag'] = etagOf(await requestOnce(ports.port, 'HEAD', CONDITIONAL));
  const stone = await requestOnce(ports.port, 'HEAD', '/more/stone');
  const purged = await requestOnce(ports.port, 'HEAD', '/purged/stream');
  seen['gone'] = [stone.status, purged.status];
  seen['list more'] = JSON.parse((await get('/more/streams?limit=1000')).body.toString());
  for (const bucket of QUOTAS) {
    const quota = JSON.parse((await get(`/__svc/quota/${bucket}`, ports.adminPort)).body.toString()) as Record<
      string,
      unknown
    >;
    seen[`quota ${bucket}`] = [quota['max_streams'], quota['max_retained_bytes']];
  }
  for (const id of SUBSCRIBED) {
    // Where wakes are delivered they fail: there are no wake streams.
    const { status: _, ...shown } = await subscription(ports, id);
    seen[`subscription ${id}`] = shown;
  }
  const repeated = await requestOnce(
    ports.port,
    'POST',
    '/more/closed-by-producer',
    { ...TEXT, ...producer(7, 1), ...CLOSE },
    Buffer.from('and the end'),
  );
  const told = [...repeated.headers].filter(([name]) => /^(?:stream-|producer-)/.test(name));
  seen['repeated'] = [repeated.status, told.map(([name, value]) => `${name}: ${value}`).sort()];
  return aboutStreams(seen);
}

/** An ETag that a client kept from before still names the state. */
export async function appendWhere({ port }: Ports, tag: string): Promise<void> {
  const headers = { ...TEXT, 'if-match': tag };
  const stale = { ...TEXT, 'if-match': tag.replace(/[0-9a-f]/, (digit) => (digit === '0' ? '1' : '0')) };
  // Neither is decided before the node knows of the other nodes, and of the quota.
  const decided = async (status: number, send: Record<string, string>, body: string): Promise<void> =>
    await until(`a conditional write is answered with ${status}`, async () => {
      const answer = await requestOnce(port, 'POST', CONDITIONAL, send, Buffer.from(body));
      assert([status, 503].includes(answer.status), `${answer.status} ${answer.body.toString()}`);
      return answer.status === status;
    });
  await decided(412, stale, 'never,');
  await decided(204, headers, 'three,');
}
