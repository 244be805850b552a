// Settings from variables of the environment: as strong as between flags and file, as strict as the file.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type EnvironmentVariables, readEnvironment, variableOf } from '../../src/config/environment.ts';
import { ConfigError } from '../../src/config/error.ts';
import type { Option } from '../../src/config/kinds.ts';
import { loadConfig } from '../../src/config/load.ts';
import { OPTION_KEYS, OPTIONS } from '../../src/config/options.ts';

const SECRET = '8f14e45fceea167a5a36dedd4bea2543';

function file(t: TestContext, name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-environment-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

function refusal(environment: EnvironmentVariables, argv: readonly string[] = []): string {
  try {
    loadConfig(argv, environment);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.message;
  }
  return assert.fail(`accepted: ${JSON.stringify(environment)}`);
}

test('flags win over the environment, it over the file, the file over the defaults', (t) => {
  const path = file(t, 'millrace.toml', '[raft]\ngroup_count = 4\n[server]\nlisten = "127.0.0.1:81"\nhosts = ["a"]\n');
  const environment = { MILLRACE_CONFIG: path, MILLRACE_RAFT__GROUP_COUNT: '8', MILLRACE_SERVER__LISTEN: '[::1]:82' };
  const { raft, server, http } = loadConfig(['--groups', '16'], environment);
  assert.equal(raft.groupCount, 16);
  assert.deepEqual(server.listen, { host: '::1', port: 82 });
  assert.deepEqual(server.hosts, ['a']);
  assert.equal(http.sseLifetimeMs, 60_000);
  assert.equal(loadConfig([], environment).raft.groupCount, 8);
  const other = file(t, 'other.toml', '[raft]\ngroup_count = 2\n');
  const named = loadConfig(['--config', other], { MILLRACE_CONFIG: path });
  assert.deepEqual([named.raft.groupCount, named.server.hosts], [2, []]);
  assert.match(refusal({ MILLRACE_CONFIG: '/nowhere/x.toml' }), /^MILLRACE_CONFIG=\/nowhere\/x\.toml: cannot be read/);
});

test('every key has a variable, which takes the default of the key as a file writes it', () => {
  const names = OPTION_KEYS.map(variableOf);
  assert.equal(new Set(names).size, OPTION_KEYS.length);
  for (const key of OPTION_KEYS) {
    assert.match(variableOf(key), /^MILLRACE(_[A-Z0-9]+)(_{1,2}[A-Z0-9]+)+$/);
    assert.equal(readEnvironment({ [variableOf(key)]: 'x' }).get(key), 'x');
    const { kind, ...option }: Option<unknown> = OPTIONS[key];
    if (!('fallback' in option)) continue;
    const shown = kind.format(option.fallback).replaceAll(/^"|"$/g, '');
    assert.deepEqual(kind.parse(kind.fromText?.(shown) ?? shown, key), loadedDefault(key, option.fallback), key);
  }
});

/** A path is made absolute when it is read. */
function loadedDefault(key: string, fallback: unknown): unknown {
  return key === 'storage.data_dir' ? loadConfig([], {}).storage.dataDir : fallback;
}

test('each type of value is written as in a file, lists also without quotes', () => {
  const nodes = [1, 2, 3].map((nodeId) => ({ nodeId, address: { host: `10.0.0.${nodeId}`, port: 4440 } }));
  const links = { MILLRACE_SERVER__CLUSTER_LISTEN: '127.0.0.1:4440' };
  for (const peers of [
    '1=10.0.0.1:4440,2=10.0.0.2:4440,3=10.0.0.3:4440',
    ' 1=10.0.0.1:4440, 2=10.0.0.2:4440, 3=10.0.0.3:4440',
    `[${nodes.map(({ nodeId, address }) => `{ node_id = ${nodeId}, addr = "${address.host}:4440" }`).join(', ')}]`,
  ]) {
    assert.deepEqual(loadConfig([], { ...links, MILLRACE_RAFT__PEERS: peers }).raft.peers, nodes);
  }
  for (const hosts of ['a.example,b.example', '["a.example", "b.example"]', 'A.example, b.example']) {
    const { server } = loadConfig([], { MILLRACE_SERVER__HOSTS: hosts });
    assert.deepEqual(server.hosts, ['a.example', 'b.example'], hosts);
  }
  const { http, raft, storage, runtime } = loadConfig([], {
    MILLRACE_HTTP__SSE_KEEPALIVE: '5s',
    MILLRACE_HTTP__SSE_LIFETIME: '2000',
    MILLRACE_HTTP__CORS_ORIGINS: '[]',
    MILLRACE_RAFT__INIT_MEMBERSHIP: 'true',
    MILLRACE_RAFT__MAX_UNCOMMITTED_SIZE_PER_GROUP: '0',
    MILLRACE_STORAGE__COLD__CACHE__MAX_SIZE: '1 MiB',
    MILLRACE_RUNTIME__CORE_COUNT: '3',
    // Neither set nor a mistake.
    MILLRACE_CLUSTER__SECRET: '',
    MILLRACE_LOG: 'warn',
    MILLRACE_CLUSTER: '/etc/millrace/cluster.toml',
    MILLRACE_SERVICE_HOST: '10.1.2.3',
    MILLRACE_PORT_4437_TCP_ADDR: '10.1.2.3',
    MILLRACE_HTTP_SERVICE_PORT: '4437',
  });
  assert.deepEqual([http.sseKeepaliveMs, http.sseLifetimeMs, http.corsOrigins], [5000, 2000, []]);
  assert.deepEqual([raft.initMembership, raft.maxUncommittedBytesPerGroup], [true, 0]);
  assert.deepEqual([storage.cold.cacheBytesMax, runtime.coreCount], [1024 * 1024, 3]);
});

test('what is misspelt or does not fit is refused by the name of its variable', () => {
  const cases: readonly (readonly [EnvironmentVariables, string | RegExp])[] = [
    [
      { MILLRACE_RAFT__NODE: '2' },
      'MILLRACE_RAFT__NODE: unknown key; did you mean MILLRACE_RAFT__NODE_ID (raft.node_id)?',
    ],
    [
      { MILLRACE_RAFT_NODE_ID: '2' },
      'MILLRACE_RAFT_NODE_ID: unknown key; did you mean MILLRACE_RAFT__NODE_ID (raft.node_id)?',
    ],
    [
      { MILLRACE_STORAGE__COLD__BUCKET: 'b' },
      /did you mean MILLRACE_STORAGE__COLD__S3__BUCKET \(storage\.cold\.s3\.bucket\)\?$/,
    ],
    // People guess these; ignored, they would start a node in the wrong folder, and open.
    [{ MILLRACE_DATA_DIR: '/x' }, /did you mean MILLRACE_STORAGE__DATA_DIR \(storage\.data_dir\)\?$/],
    [{ MILLRACE_TOKEN: 't' }, /did you mean MILLRACE_HTTP__CLIENT_TOKEN \(http\.client_token\)\?$/],
    [{ MILLRACE_LISTEN: ':1' }, /did you mean MILLRACE_SERVER__LISTEN \(server\.listen\)\?$/],
    [{ MILLRACE_QQQQ: '' }, /^MILLRACE_QQQQ: no key has this variable/],
    [{ MILLRACE_raft__node_id: '2' }, /^MILLRACE_raft__node_id: unknown key; did you mean MILLRACE_RAFT__NODE_ID/],
    [{ MILLRACE_QQQQ__ZZZZZZZZZZ: '' }, /^MILLRACE_QQQQ__ZZZZZZZZZZ: no key has this variable/],
    [{ MILLRACE___PROTO__: 'x' }, /^MILLRACE___PROTO__: /],
    [
      { MILLRACE_RAFT__NODE_ID: '0' },
      /^MILLRACE_RAFT__NODE_ID = "0": expected an integer from 1 to \d+, or "hostname"$/,
    ],
    [{ MILLRACE_RAFT__INIT_MEMBERSHIP: 'yes' }, 'MILLRACE_RAFT__INIT_MEMBERSHIP = "yes": expected true or false'],
    [{ MILLRACE_HTTP__SSE_KEEPALIVE: '5' }, /^MILLRACE_HTTP__SSE_KEEPALIVE = "5": expected a duration from 100ms/],
    [
      { MILLRACE_HTTP__ADMIN_TOKEN: 'hun ter' },
      /^MILLRACE_HTTP__ADMIN_TOKEN = "\(not shown\)": expected visible ASCII/,
    ],
    [
      { MILLRACE_STORAGE__COLD__S3__ENDPOINT: 'http://a:hunter@b' },
      /^MILLRACE_STORAGE__COLD__S3__ENDPOINT \(not shown\)/,
    ],
    [{ MILLRACE_RAFT__PEERS: '10.0.0.1:4440' }, /^MILLRACE_RAFT__PEERS\[0\] = "10\.0\.0\.1:4440": expected a list of/],
    [{ MILLRACE_RAFT__PEERS: '1=a' }, /^MILLRACE_RAFT__PEERS\[0\]\.addr = "a": expected HOST:PORT/],
    [{ MILLRACE_RAFT__PEERS: '[{ node_id = 1, addr = "a:1" }' }, /^MILLRACE_RAFT__PEERS = "\[\{.*: expected a list of/],
    [
      { MILLRACE_SERVER__HOSTS: '[]\nmore = 1' },
      /^MILLRACE_SERVER__HOSTS = "\[\]\\nmore = 1": expected a list of host/,
    ],
    [{ MILLRACE_SERVER__HOSTS: '["a", 3]' }, /^MILLRACE_SERVER__HOSTS = /],
    [{ MILLRACE_SERVER__ALLOW_UNAUTHENTICATED: 'all' }, /expected a list of "client", "admin", or both$/],
  ];
  for (const [environment, expected] of cases) {
    const said = refusal(environment);
    if (typeof expected === 'string') assert.equal(said, expected);
    else assert.match(said, expected);
    assert.doesNotMatch(said, /hunter|hun ter/);
  }
});

test('secrets come from files, and never from two places', (t) => {
  const secret = file(t, 'secret', `${SECRET}\n`);
  const environment = {
    MILLRACE_CLUSTER__SECRET_FILE: secret,
    MILLRACE_HTTP__CLIENT_TOKEN_FILE: secret,
    MILLRACE_HTTP__ADMIN_TOKEN: SECRET,
    MILLRACE_SERVER__LISTEN: '0.0.0.0:4437',
    MILLRACE_SERVER__ADMIN_LISTEN: '0.0.0.0:4438',
    MILLRACE_SERVER__CLUSTER_LISTEN: '0.0.0.0:4440',
  };
  const { cluster, http } = loadConfig([], environment);
  assert.deepEqual([cluster.secret, http.clientToken, http.adminToken], [SECRET, SECRET, SECRET]);
  assert.match(refusal({ ...environment, MILLRACE_CLUSTER__SECRET: SECRET }), /^cluster\.secret_file: give either/);
  assert.match(refusal({ ...environment, MILLRACE_HTTP__ADMIN_TOKEN: '' }), /set http\.admin_token_file to a file/);
});

test('the node id is the ordinal of the host name plus one, where that is asked for', (t) => {
  const idOn = (HOSTNAME: string): number =>
    loadConfig([], { HOSTNAME, MILLRACE_RAFT__NODE_ID: 'hostname' }).raft.nodeId;
  assert.deepEqual(['millrace-0', 'millrace-2', 'a-b-10.millrace.svc.cluster.local'].map(idOn), [1, 3, 11]);
  const path = file(t, 'millrace.toml', '[raft]\nnode_id = "hostname"\n');
  assert.equal(loadConfig(['--config', path], { HOSTNAME: 'node-4' }).raft.nodeId, 5);
  for (const name of ['millrace', 'db3', 'db.host-1', '-', 'a-9999999999', '10-0-0-1x', '']) {
    const said = refusal({ HOSTNAME: name, MILLRACE_RAFT__NODE_ID: 'hostname' });
    assert(
      said.startsWith(`MILLRACE_RAFT__NODE_ID = "hostname": the name of this host, "${name}", does not end`),
      said,
    );
  }
  // Without the variable: what the system says.
  const ownName = /-\d{1,9}(\.|$)/.test(hostname()) ? undefined : hostname();
  if (ownName !== undefined) assert.match(refusal({ MILLRACE_RAFT__NODE_ID: 'hostname' }), /the name of this host, "/);
  assert.equal(loadConfig([], { HOSTNAME: 'millrace-7' }).raft.nodeId, 1, 'only when asked for');
});

test('what Kubernetes tells pods of services by our name is no setting', () => {
  const sections = new Set(OPTION_KEYS.map((key) => key.split('.')[0] ?? ''));
  const services = [
    'MILLRACE',
    'MILLRACE_NODES',
    ...[...sections].map((section) => `MILLRACE_${section.toUpperCase()}`),
  ];
  const told = services.flatMap((service) => [
    [`${service}_SERVICE_HOST`, '10.0.0.1'],
    [`${service}_SERVICE_PORT`, '4437'],
    [`${service}_SERVICE_PORT_HTTP`, '4437'],
    [`${service}_PORT`, 'tcp://10.0.0.1:4437'],
    [`${service}_PORT_4437_TCP`, 'tcp://10.0.0.1:4437'],
    [`${service}_PORT_4437_TCP_PROTO`, 'tcp'],
    [`${service}_PORT_4437_TCP_PORT`, '4437'],
    [`${service}_PORT_4437_TCP_ADDR`, '10.0.0.1'],
  ]);
  assert.deepEqual(readEnvironment(Object.fromEntries(told) as EnvironmentVariables), new Map());
});
