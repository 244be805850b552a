// Every route of the client, admin and cluster plane of real processes, with methods, names and headers that every
// object inherits or that no server expects: each request is answered or its connection closed, and the process is
// there afterwards.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { TestCluster } from '../support/cluster.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { type Attack, request } from './attack.ts';
import { attackAll } from './attacker.ts';

/** Members that every object literal inherits, in all spellings. */
const INHERITED = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__'];
const METHODS = [
  ...INHERITED.flatMap((name) => [name, name.toUpperCase()]),
  ...[
    'TRACE',
    'CONNECT',
    'PATCH',
    'PROPFIND',
    'PRI',
    'QUERY',
    'get',
    'post',
    'put',
    'delete',
    'head',
    'options',
    'gEt',
  ],
  ...['M', 'M'.repeat(1000), 'M'.repeat(60_000), '0', '*', '-', 'undefined', 'null'],
];

const STREAM_PARTS = [
  '',
  '/attrs',
  '/append-batch',
  '/bootstrap',
  '/snapshot',
  '/snapshot/5',
  '/retention',
  '/retention/5',
];
const CLIENT_ROUTES = [
  ...['/', '/b', '/b/streams', '/v1/stream/b/s', '/v1/stream/s', '/nowhere/at/all/of/it'],
  ...STREAM_PARTS.map((part) => `/b/s${part}`),
  ...['jwks.json', 'subscriptions', 'subscriptions/x', 'subscriptions/x/ack', 'subscriptions/x/callback'].map(
    (path) => `/v1/stream/__ds/${path}`,
  ),
  ...['metrics', 'usage', 'cluster-probe', 'leadership-shed', 'health', 'ready'].map((path) => `/__svc/${path}`),
];
const ADMIN_ROUTES = [
  ...['metrics', 'usage', 'health', 'ready', 'leadership-shed', 'leadership-shed/maintenance', 'webhook-keys'],
  ...['purge/b', 'quota/b', 'flush-cold/b/s', 'backup/info', 'backup/group/0', 'backup/group/0/import'],
  ...['snapshot', 'purge', 'membership', 'learners/2', 'leader/transfer/2', 'nodes/2/allow-next-revert'].map(
    (path) => `raft/0/${path}`,
  ),
].map((path) => `/__svc/${path}`);
const CLUSTER_ROUTES = ['/', '/__svc/leadership-shed', '/__svc/cluster-probe', '/__svc/cold-probe', '/nowhere'];

const TYPE = 'Content-Type: application/json';

/** Each route with each method. */
function oddMethods(routes: readonly string[]): Attack[] {
  return routes.flatMap((path) => METHODS.map((method) => odd(method, path, [TYPE], '{}')));
}

/** Each route with each name where a name goes: segments, queries, headers, members of bodies. */
function oddNames(routes: readonly string[]): Attack[] {
  return INHERITED.flatMap((name) => [
    ...routes.flatMap((path) => [
      ...['GET', 'POST', 'PUT'].map((method) =>
        odd(
          method,
          `${path}/${name}?${name}=${name}&offset=${name}`,
          [TYPE, `${name}: x`, `Stream-${name}: ${name}`],
          body(name),
        ),
      ),
      odd('GET', `${path}?${name}&${name}[${name}]=1`, [`${name}: ${name}`, `Accept: ${name}`], ''),
      odd('POST', path, [TYPE, `Producer-Id: ${name}`, `Producer-Epoch: ${name}`, `Producer-Seq: ${name}`], body(name)),
    ]),
    odd('DELETE', `/__svc/purge/${name}`, [], ''),
    odd('PUT', `/__svc/quota/${name}`, [TYPE], `{"max_streams":null}`),
    odd('PUT', '/__svc/quota/b', [TYPE], body(name)),
    odd('PUT', `/b/s/attrs`, [TYPE, `Stream-Attrs: {"metadata":{"${name}":"x"}}`], ''),
    odd('PUT', `/v1/stream/__ds/subscriptions/${name}`, [TYPE], `{"type":"${name}","pattern":"${name}","${name}":1}`),
  ]);
}

function body(name: string): string {
  return `{"${name}":{"${name}":1},"max_streams":"${name}","type":"${name}"}`;
}

function odd(method: string, path: string, headers: readonly string[], text: string): Attack {
  const shown = method.length > 40 ? `${method.slice(0, 10)}... (${method.length})` : method;
  // A target too long for a request line need not be answered.
  return { label: `${shown} ${path}`, bytes: request(method, path, [...headers], text), complete: method.length < 100 };
}

async function sweep(port: number, attacks: readonly Attack[], server: TestServer): Promise<void> {
  let next = 0;
  const outcomes = await attackAll(port, 16, () => attacks[next++]);
  assert.equal(outcomes.length, attacks.length);
  assert.ok(server.isRunning, `the server died:\n${server.log().slice(-4000)}`);
  const faults = outcomes.filter(({ statuses }) => statuses.includes(500) || statuses.includes(502));
  assert.deepEqual(
    faults.map((outcome) => [outcome.attack.label, outcome.text.slice(0, 400)]),
    [],
  );
  const unanswered = outcomes.filter(({ end, attack }) => end === 'silent' && attack.complete);
  assert.deepEqual(
    unanswered.map(({ attack }) => attack.label),
    [],
  );
}

test('the client and the admin plane outlive every odd method, name and header', async () => {
  // Long-polls among the attacks would only wait.
  await withServer({ groups: 4, longPollTimeout: '50ms' }, async (server) => {
    const { port, adminPort } = server;
    assert.equal((await requestOnce(port, 'PUT', '/b/s', { 'Content-Type': 'application/json' })).status, 201);
    for (const plane of [port, adminPort]) {
      const routes = [...CLIENT_ROUTES, ...ADMIN_ROUTES];
      await sweep(plane, oddMethods(routes), server);
      await sweep(plane, oddNames(routes), server);
    }
    assert.doesNotMatch(server.log(), /handler failed|INTERNAL/);
    await requestOnce(adminPort, 'DELETE', '/__svc/leadership-shed/maintenance');
    await speaksPlainly(port);
    assert.equal((await requestOnce(adminPort, 'GET', '/__svc/ready')).status, 200);
    assert.equal(await server.stop(), 0);
  });
});

/** Inherited names are names like any other, where the rules for names allow them. */
async function speaksPlainly(port: number): Promise<void> {
  const client = await RawClient.connect(port);
  for (const name of ['constructor', 'toString', 'hasOwnProperty', 'valueOf']) {
    const path = `/names-${name}/${name}`;
    const type = { 'Content-Type': 'text/plain' };
    assert.equal((await client.request('PUT', path, type)).status, 201);
    assert.equal((await client.request('POST', path, type, name)).status, 204);
    assert.equal((await client.request('GET', path)).body.toString(), name);
    assert.match((await client.request('GET', `/names-${name}/streams`)).body.toString(), new RegExp(`"${name}"`));
  }
  client.destroy();
}

test('so does the cluster plane', async () => {
  const cluster = await TestCluster.create({ nodes: 3, groups: 2 });
  // One of three: the plane listens, and no node leads.
  const server = cluster.node(1);
  try {
    await server.start('health');
    await sweep(cluster.clusterPort(1), oddMethods(CLUSTER_ROUTES), server);
    await sweep(cluster.clusterPort(1), oddNames(CLUSTER_ROUTES), server);
    assert.equal((await requestOnce(cluster.clusterPort(1), 'GET', '/__svc/leadership-shed')).status, 200);
  } finally {
    await cluster.dispose();
  }
});
