import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { NO_LIMITS } from '../../src/base/use-limits.ts';
import { toConfig } from '../../src/config/config.ts';
import { describeOptions } from '../../src/config/describe.ts';
import { doorWarnings } from '../../src/config/doors.ts';
import { ConfigError } from '../../src/config/error.ts';
import { helpOrVersion, loadConfig } from '../../src/config/load.ts';
import { OPTION_KEYS, OPTIONS } from '../../src/config/options.ts';
import type { Defaulted, Option } from '../../src/config/kinds.ts';
import type { OptionValues } from '../../src/config/options.ts';

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-config-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

function file(t: TestContext, toml: string): string {
  const path = join(folder(t), 'millrace.toml');
  writeFileSync(path, toml);
  return path;
}

function refusal(argv: readonly string[]): string {
  try {
    loadConfig(argv);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.message;
  }
  return assert.fail(`accepted: ${argv.join(' ')}`);
}

test('without flags and file: the documented defaults, loopback only', () => {
  const config = loadConfig([]);
  assert.deepEqual(config.server.listen, { host: '127.0.0.1', port: 4437 });
  assert.deepEqual(config.server.adminListen, { host: '127.0.0.1', port: 4438 });
  assert.equal(config.server.clusterListen, undefined);
  assert.equal(config.server.inflightBodyBytes, 256 * 1024 * 1024);
  assert.equal(config.storage.dataDir, resolve('data'));
  assert.equal(config.storage.cold.backend, 'none');
  assert.equal(config.runtime.coreCount, Math.max(1, availableParallelism() - 1));
  assert.equal(config.runtime.liveReadMaxWaitersPerCore, 65_536);
  assert.equal(config.storage.cold.dir, resolve('data', 'cold'));
  assert.deepEqual(config.raft, {
    nodeId: 1,
    groupCount: 16,
    initMembership: false,
    maxUncommittedBytesPerGroup: 0,
    peers: [],
  });
  assert.deepEqual(config.http, {
    longPollTimeoutMs: 30_000,
    sseKeepaliveMs: 15_000,
    sseLifetimeMs: 60_000,
    readCache: 'none',
    corsOrigins: ['loopback'],
    clientToken: undefined,
    tokens: undefined,
    adminToken: undefined,
    adminTokens: undefined,
    trustedProxies: [],
    limits: NO_LIMITS,
  });
});

test('flags win over the file, the file over the defaults', (t) => {
  const path = file(
    t,
    `
    [server]
    listen = "0.0.0.0:80"
    allow_unauthenticated = ["client"]
    admin_listen = "[::1]:81"
    http_inflight_body_size = "64 MiB"
    [storage]
    data_dir = "/var/lib/millrace"
    [raft]
    group_count = 4
    peers = [{ node_id = 1, addr = "127.0.0.1:5000" }]
    [http]
    long_poll_timeout = "500ms"
    sse_lifetime = 2000
    cors_origins = ["https://app.example"]
    `,
  );
  const config = loadConfig(['--config', path, '--listen', '127.0.0.1:0', '--cores=3', '--data', '/tmp/x']);
  assert.deepEqual(config.server.listen, { host: '127.0.0.1', port: 0 });
  assert.deepEqual(config.server.adminListen, { host: '::1', port: 81 });
  assert.equal(config.server.inflightBodyBytes, 64 * 1024 * 1024);
  assert.equal(config.storage.dataDir, '/tmp/x');
  assert.equal(config.runtime.coreCount, 3);
  assert.equal(config.raft.groupCount, 4);
  assert.deepEqual(config.raft.peers, [{ nodeId: 1, address: { host: '127.0.0.1', port: 5000 } }]);
  assert.equal(config.http.longPollTimeoutMs, 500);
  assert.equal(config.http.sseLifetimeMs, 2000);
  assert.deepEqual(config.http.corsOrigins, ['https://app.example']);
});

test('every option of the table has a place in Config, and every default is one its own kind accepts', () => {
  const values: Record<string, unknown> = {};
  for (const key of OPTION_KEYS) values[key] = (OPTIONS[key] as Partial<Defaulted<unknown>>).fallback;
  const read = new Set<string | symbol>();
  const watched = new Proxy(values, {
    get: (target, key) => {
      read.add(key);
      return Reflect.get(target, key);
    },
  });
  toConfig(watched as unknown as OptionValues);
  assert.deepEqual(
    OPTION_KEYS.filter((key) => !read.has(key)),
    [],
  );
  for (const key of OPTION_KEYS) {
    const option: Option<unknown> = OPTIONS[key];
    if (!('fallback' in option) || key === 'raft.peers') continue;
    const shown = option.kind.format(option.fallback);
    const raw: unknown = JSON.parse(shown);
    assert.notEqual(option.kind.parse(raw, key), undefined, `${key} = ${shown}`);
  }
});

test('bad flags are refused by name', () => {
  assert.equal(refusal(['--core', '2']), '--core: unknown flag; did you mean --cores?');
  assert.equal(refusal(['--zzzzzzzz']), '--zzzzzzzz: unknown flag; see --help');
  for (const [guess, meant] of [
    ['--data-dir', '--data (storage.data_dir)'],
    ['--port', '--listen (server.listen)'],
    ['--storage.data_dir', '--data (storage.data_dir)'],
    ['--token', 'MILLRACE_HTTP__CLIENT_TOKEN (http.client_token)'],
    ['--client-token-file', 'MILLRACE_HTTP__CLIENT_TOKEN_FILE (http.client_token_file)'],
  ] as const)
    assert.equal(refusal([guess, 'x']), `${guess}: unknown flag; did you mean ${meant}?`);
  for (const name of Object.getOwnPropertyNames(Object.prototype)) {
    for (const argv of [[`--${name}`], [`--${name}`, 'x'], [`--${name}=x`]]) {
      assert.equal(refusal(argv), `--${name}: unknown flag; see --help`);
    }
  }
  assert.equal(refusal(['--cores', 'x']), '--cores x: expected an integer from 1 to 1024');
  assert.equal(refusal(['--cores', '0']), '--cores 0: expected an integer from 1 to 1024');
  assert.equal(refusal(['--cores', '1.5']), '--cores 1.5: expected an integer from 1 to 1024');
  assert.equal(refusal(['--groups', '1e3']), '--groups 1e3: expected an integer from 1 to 4096');
  assert.equal(
    refusal(['--listen', '4437']),
    '--listen 4437: expected HOST:PORT such as "127.0.0.1:4437" or "[::1]:4437"',
  );
  assert.equal(refusal(['--listen', '--data', 'x']), '--listen: expected a value; see --help');
  assert.equal(refusal(['--data=']), '--data: expected a value; see --help');
  assert.equal(refusal(['--data', 'a', '--data', 'b']), '--data: given more than once');
  assert.equal(refusal(['serve']), 'unexpected argument "serve"; see --help');
  assert.equal(refusal(['--', 'x']), 'unexpected argument "x"; see --help');
  assert.equal(refusal(['--help=3']), '--help: takes no value');
  assert.match(refusal(['--config', '/nowhere/x.toml']), /^--config \/nowhere\/x\.toml: cannot be read \(ENOENT/);
});

test('bad files are refused with the key, the value and what was expected', (t) => {
  const cases: [string, RegExp][] = [
    ['x = 1', /^x: unknown key$/],
    ['[server]\nlissen = "a"', /^server\.lissen: unknown key; did you mean server\.listen\?$/],
    ['[storage.cold]\nbucket = "b"', /^storage\.cold\.bucket: unknown key; did you mean storage\.cold\.s3\.bucket\?$/],
    ['server = 3', /^server = 3: expected a table, \[server\]$/],
    ['[[server]]\nlisten = "a:1"', /^server = .*: expected a table/],
    ['["__proto__"]\nx = 1', /^__proto__: unknown key/],
    ['constructor = 1', /^constructor: unknown key/],
    ['[server]\nlisten = 3', /^server\.listen = 3: expected HOST:PORT/],
    ['[server]\npublic_url = "node1:4437"', /^server\.public_url = .*: expected an http:\/\/ or https:/],
    ['[server]\npublic_url = "http://node1/x"', /^server\.public_url = .*: expected an http:\/\/ or https:/],
    ['[server]\npublic_url = "javascript:alert(1)"', /^server\.public_url = .*: expected an http:\/\/ or https:/],
    ['[server]\npublic_url = "http://u:p@node1"', /^server\.public_url \(not shown\) holds an @/],
    [`[server]\npublic_url = "http://${'n'.repeat(263)}"`, /^server\.public_url = .*: expected an http:\/\/ or https:/],
    [
      '[server]\nhttp_inflight_body_size = "1 MiB"',
      /^server\.http_inflight_body_size = "1 MiB": expected a size from 32 MiB to 64 GiB/,
    ],
    ['[http]\nlong_poll_timeout = "2h"', /^http\.long_poll_timeout = "2h": expected a duration from 1ms to 1m/],
    ['[http]\nlong_poll_timeout = 1979-05-27', /^http\.long_poll_timeout = "1979-05-27": expected a duration/],
    ['[http]\ncors_origins = ["https://a.example/"]', /^http\.cors_origins = .*: expected a list of origins/],
    ['[http]\nadmin_token = "a b"', /^http\.admin_token = "\(not shown\)": expected visible ASCII/],
    [
      '[subscriptions]\nsigning_key_file = "/dev/null"',
      /^subscriptions\.signing_key_file = "\/dev\/null": expected a PEM file with an Ed25519 private key/,
    ],
    ['[tracing]\notlp_endpoint = "127.0.0.1:4318"', /^tracing\.otlp_endpoint = .*: expected an http:\/\/ or https:/],
    ['[tracing]\notlp_endpoint = "http:///v1"', /^tracing\.otlp_endpoint = .*: expected an http:\/\/ or https:/],
    ['[tracing]\notlp_endpoint = "http://u:p@h/v1"', /^tracing\.otlp_endpoint \(not shown\) holds an @, \? or #/],
    ['[tracing]\notlp_endpoint = "http://h/v1?key=p"', /^tracing\.otlp_endpoint \(not shown\) holds an @, \? or #/],
    ['[tracing]\nsample_ratio = 1.5', /^tracing\.sample_ratio = 1\.5: expected a number from 0 to 1/],
    ['[tracing]\nsample_ratio = nan', /^tracing\.sample_ratio = .*: expected a number from 0 to 1/],
    ['[raft]\nnode_id = 0', /^raft\.node_id = 0: expected an integer from 1/],
    ['[raft]\ninit_membership = "yes"', /^raft\.init_membership = "yes": expected true or false$/],
    ['[raft]\npeers = [{ node_id = 1, adr = "a:1" }]', /^raft\.peers\[0\]\.adr: unknown key/],
    ['[raft]\npeers = [{ node_id = 1 }]', /^raft\.peers\[0\]\.addr is missing: expected HOST:PORT/],
    ['[raft]\npeers = [{ node_id = 2, addr = "a:1" }]', /^raft\.peers: this node is not in the list; add node_id = 1/],
    ['[raft]\npeers = [{ node_id = 1, addr = "a:1" }, { node_id = 1, addr = "b:1" }]', /node 1 is listed twice/],
    [
      '[raft]\npeers = [{ node_id = 1, addr = "a:1" }, { node_id = 2, addr = "b:1" }]',
      /^server\.cluster_listen is missing: expected HOST:PORT for the links/,
    ],
    ['[storage.cold]\nbackend = "tape"', /^storage\.cold\.backend = "tape": expected one of "none", "dir", "s3"$/],
    ['[storage.cold]\nbackend = "s3"', /^storage\.cold\.s3\.bucket is missing: expected a bucket/],
    // As long as backups are kept: more than a year.
    ['[storage.cold]\ngc_grace = "401d"', /^storage\.cold\.gc_grace = "401d": expected a duration from 0ms to 400d/],
    [
      '[storage.cold]\nbackend = "dir"\n[server]\ncluster_listen = "127.0.0.1:4440"\n' +
        '[raft]\npeers = [{ node_id = 1, addr = "a:1" }, { node_id = 2, addr = "b:1" }]',
      /^storage\.cold\.dir is missing: expected a directory that all nodes/,
    ],
    ['[storage.cold]\nroot = "../up"', /^storage\.cold\.root = "\.\.\/up": expected letters, digits/],
    [
      '[storage.cold]\nbackend = "dir"\nflush_size = "65 MiB"',
      /^storage\.cold\.flush_size: expected at most storage\.cold\.max_hot_size_per_group/,
    ],
    [
      '[storage.cold]\nbackend = "s3"\ns3.bucket = "b"\ns3.access_key_id = "k"',
      /^storage\.cold\.s3\.secret_access_key is missing: expected the secret/,
    ],
    [
      '[storage.cold]\nbackend = "s3"\ns3.bucket = "b"\ns3.secret_access_key = "k"',
      /^storage\.cold\.s3\.access_key_id is missing/,
    ],
    [
      '[server]\nlisten = "127.0.0.1:4438"',
      /^server\.admin_listen = "127\.0\.0\.1:4438": server\.listen listens there already/,
    ],
    [
      '[server]\ncluster_listen = "0.0.0.0:4439"',
      /^cluster\.secret is missing: .* because server\.cluster_listen is reachable/,
    ],
    ['[server]\ntls_key = "/x"', /^server\.tls_cert is missing/],
    [
      '[server]\ntls_key = "/dev/null"\ntls_cert = "/dev/null"',
      /^server\.tls_cert and server\.tls_key: expected a PEM certificate and its private key/,
    ],
    [
      '[server]\ntls_key = "/nowhere"\ntls_cert = "/nowhere"',
      /^server\.tls_cert = "\/nowhere": expected a readable file/,
    ],
    [
      'http.read_cache = "public"\nhttp.client_token = "x"',
      /^http\.read_cache = "public" with http\.client_token: .*"private"$/,
    ],
    ['http.read_cache = "shared"', /http\.read_cache/],
    ['[server', /millrace\.toml:1:\d+: not valid TOML: /],
    ['[raft]\nnode_id = 99999999999999999999', /not valid TOML: integer value/],
  ];
  for (const [toml, expected] of cases) assert.match(refusal(['--config', file(t, toml)]), expected, toml);
});

test('secrets come from the key or a file, never both', (t) => {
  const secretPath = join(folder(t), 'secret');
  const secret = '8f14e45fceea167a5a36dedd4bea2543';
  writeFileSync(secretPath, `${secret}\n`);
  const fromFile = loadConfig([
    '--config',
    file(t, `[cluster]\nsecret_file = "${secretPath}"\n[http]\nclient_token = "abc"`),
  ]);
  assert.equal(fromFile.cluster.secret, secret);
  assert.equal(fromFile.http.clientToken, 'abc');
  const beyond = `[server]\ncluster_listen = "0.0.0.0:4439"\n[cluster]\nsecret_file = "${secretPath}"`;
  assert.equal(loadConfig(['--config', file(t, beyond)]).cluster.secret, secret);
  const both = `[cluster]\nsecret = "x"\nsecret_file = "${secretPath}"`;
  assert.match(refusal(['--config', file(t, both)]), /^cluster\.secret_file: give either/);
  writeFileSync(secretPath, '\n');
  assert.match(
    refusal(['--config', file(t, `[cluster]\nsecret_file = "${secretPath}"`)]),
    /^cluster\.secret_file = .*: expected a file with one line/,
  );
});

test('a listener beyond loopback needs a token, or a setting that says another layer checks one', (t) => {
  const load = (toml: string): string[] => doorWarnings(loadConfig(['--config', file(t, toml)]));
  const beyond = [
    ['client', 'server.listen', 'listen = "0.0.0.0:4437"', 'http.client_token'],
    ['admin', 'server.admin_listen', 'admin_listen = "node-1.example:4438"', 'http.admin_token'],
    ['admin', 'server.admin_listen', 'admin_listen = "[::]:4438"', 'http.admin_token'],
  ] as const;
  for (const [plane, key, line, token] of beyond) {
    const other = plane === 'client' ? 'admin' : 'client';
    for (const allowed of ['', `\nallow_unauthenticated = ["${other}"]`]) {
      const sentence = refusal(['--config', file(t, `[server]\n${line}${allowed}`)]);
      assert(sentence.startsWith(`${key} = "`), sentence);
      assert(sentence.includes(`set ${token}_file to`), sentence);
      assert(
        sentence.endsWith(`server.allow_unauthenticated = ["${plane}"] (--allow-unauthenticated ${plane})`),
        sentence,
      );
    }
    const secret = '8f14e45fceea167a5a36dedd4bea2543';
    assert.deepEqual(load(`[server]\n${line}\n[http]\n${token.slice(5)} = "${secret}"`), []);
    assert.match(
      load(`[server]\n${line}\n[http]\n${token.slice(5)} = "short"`).join(),
      /which has \d+ bits of entropy/,
    );
    assert.match(load(`[server]\n${line}\nallow_unauthenticated = ["${plane}"]`).join(), /only a proxy may reach/);
  }
  const flags = ['--listen', '0.0.0.0:0', '--admin-listen', '0.0.0.0:0'];
  assert.match(refusal(flags), /^server\.listen/);
  assert.match(refusal([...flags, '--allow-unauthenticated', 'client']), /^server\.admin_listen/);
  const { server } = loadConfig([...flags, '--allow-unauthenticated', 'client,admin']);
  assert.deepEqual(server.allowUnauthenticated, ['client', 'admin']);
  assert.match(refusal([...flags, '--allow-unauthenticated', 'all']), /expected a list of "client", "admin", or both/);
});

test('a cluster secret that can be guessed is refused wherever the node listens, and not shown', (t) => {
  for (const secret of ['x', 'of-the-tests', 'changeme-changeme-changeme-changeme']) {
    const sentence = refusal(['--config', file(t, `[cluster]\nsecret = "${secret}"`)]);
    assert.match(sentence, /^cluster\.secret \(not shown\) .*"openssl rand -hex 32", the same for all nodes$/);
    assert(!sentence.includes(`"${secret}"`));
  }
});

test('pages of this host may use a client plane without token, all pages one with a token', (t) => {
  const origins = (toml: string): readonly string[] => loadConfig(['--config', file(t, toml)]).http.corsOrigins;
  assert.deepEqual(origins(''), ['loopback']);
  assert.deepEqual(origins('[http]\nclient_token = "t"'), ['*']);
  assert.deepEqual(origins('[http]\nclient_token = "t"\ncors_origins = []'), []);
  assert.deepEqual(origins('[http]\ncors_origins = ["loopback", "null"]'), ['loopback', 'null']);
  const { server } = loadConfig(['--config', file(t, '[server]\nhosts = ["A.example", "[::2]"]\nadmin_hosts = ["b"]')]);
  assert.deepEqual([server.hosts, server.adminHosts], [['a.example', '::2'], ['b']]);
  for (const name of ['a:80', 'http://a', 'a b', '']) {
    assert.match(
      refusal(['--config', file(t, `[server]\nhosts = ["${name}"]`)]),
      /host names or addresses without ports/,
    );
  }
});

test('--help names every flag and fits a terminal; --version is one line', () => {
  const help = helpOrVersion(['--help']) ?? '';
  for (const flag of [
    '--config FILE',
    '--data DIR',
    '--listen HOST:PORT',
    '--admin-listen HOST:PORT',
    '--cores N',
    '--groups N',
    'MILLRACE_LOG',
  ]) {
    assert.ok(help.includes(flag), flag);
  }
  for (const line of help.split('\n')) assert.ok(line.length <= 100, line);
  assert.match(helpOrVersion(['--version']) ?? '', /^\d+\.\d+\.\d+\n$/);
  assert.equal(helpOrVersion(['--cores', '2']), undefined);
});

test('the table of the document has one row for every key', () => {
  const rows = describeOptions().split('\n');
  for (const key of OPTION_KEYS) assert.equal(rows.filter((row) => row.startsWith(`| \`${key}\``)).length, 1, key);
});

test('an address with credentials is refused, and the message does not show them', (t) => {
  for (const endpoint of [
    'http://minio:hunter2@127.0.0.1:9000',
    'minio:hunter2@host',
    'http://m:hunter2/@host',
    'hunter2@',
  ]) {
    const path = file(t, `[storage.cold]\ns3.endpoint = "${endpoint}"\n`);
    assert.equal(
      refusal(['--config', path]),
      'storage.cold.s3.endpoint (not shown) holds an @: expected an address without credentials; they have keys of their own',
    );
  }
});
