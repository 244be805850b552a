// `millracectl exporter` with stand-ins for nodes that answer anything, and as a process in front of three real
// nodes, one of which dies. Debian's promtool reads what is served.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type RequestListener, createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Cluster } from '../../src/nodes/cluster.ts';
import { ExporterServer } from '../../src/exporter/server.ts';
import { Scraper } from '../../src/exporter/scrape.ts';
import { TestCluster } from '../support/cluster.ts';
import { clusterToml, ctl, scratchFile, startCtl } from '../support/ctl.ts';
import { readDocument } from '../support/documents.ts';
import { until } from '../support/until.ts';

/** One node never answers; the others must in this time, on any machine. */
const TIMEOUT_MS = 4000;
const OPENMETRICS = 'application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';

interface Told {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

type Ask = (path: string, headers?: Record<string, string>, method?: string) => Promise<Told>;

interface Started {
  readonly ask: Ask;
  readonly port: number;
  /** Its words about the nodes. */
  readonly said: readonly string[];
}

interface Settings {
  readonly token?: string;
  readonly takingMs?: number;
}

/** An exporter in front of nodes 1, 2, ... */
async function startExporter(
  t: TestContext,
  nodes: readonly RequestListener[],
  { token, ...settings }: Settings = {},
): Promise<Started> {
  const servers = await Promise.all(
    nodes.map(async (node) => {
      const server = createServer(node);
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      return server;
    }),
  );
  const listed = servers.map((server, i) => ({
    ...{ id: i + 1, host: '127.0.0.1', name: `node-${i + 1}`, instanceId: '', httpUrl: undefined },
    adminUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  }));
  const file = { label: 'cluster.toml', nodes: listed, restartCommand: undefined };
  const options = { timeoutMs: TIMEOUT_MS, token: 'admin', ca: undefined, signal: new AbortController().signal };
  const said: string[] = [];
  const scraper = new Scraper(new Cluster(file, options), (line) => said.push(line));
  const exporter = new ExporterServer({ scraper, token, ...settings });
  const { port } = await exporter.listen({ host: '127.0.0.1', port: 0 });
  t.after(async () => {
    await exporter.close();
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
  });
  const ask: Ask = (path, headers = {}, method = 'GET') =>
    new Promise((resolve, reject) => {
      request({ port, host: '127.0.0.1', method, path, headers, agent: false }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        const type = String(answer.headers['content-type']);
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, type, text }));
      })
        .on('error', reject)
        .end();
    });
  return { ask, port, said };
}

const json = (text: string): RequestListener => {
  return (_, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(text);
};
const GOOD = json('{"node_id":1,"raft_groups":[{"raft_group_id":0,"leader":1}],"accepted_appends":7,"uptime_ms":10}');

/** The verdict of Prometheus itself; undefined where it is not installed. */
function promtoolSays(text: string): string | undefined {
  const { error, status, stderr, stdout } = spawnSync('promtool', ['check', 'metrics'], {
    input: text,
    encoding: 'utf8',
  });
  return error === undefined && status !== 0 ? stderr + stdout : undefined;
}

test('a node may answer anything: the others are served, and no series comes of it', async (t) => {
  const endless: RequestListener = (_, response) => {
    response.writeHead(200);
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
      response.once('drain', more);
    };
    more();
  };
  const odd = json(
    `{"node_id":8,"version":"1\\n\\"}","uptime_ms":"long","accepted_appends":-1,"served_reads":1e999,"turns":null,"__proto__":{"disk_full":true},
      "raft_groups":[null,7,{"raft_group_id":0,"leader":8,"__proto__":{"hot_bytes":9}},{"raft_group_id":0,"leader":1},{"raft_group_id":1e9},
      {"raft_group_id":"a"},{"raft_group_id":1.5}],"latency_us":{"__proto__":{"p50":1},"a b":{"p50":1},"read":{"p50":"x","count":3,"sum":9,"buckets":[1,"2"]},"list":{"sum":1,"buckets":[1]},"head":{"sum":3000000,"buckets":[1,0,2]}},
      "latency_buckets_us":[100,2500],
      "responses_by_status":{"__proto__":5,"999":1,"200":4,"404":"many"},"mailbox_depths":{"0":1},"leadership_shed":[],"constructor":{}}`,
  );
  const nested = json('['.repeat(1_000_000));
  const { ask } = await startExporter(t, [
    GOOD,
    json('{"a":'),
    json('[]'),
    endless,
    () => undefined,
    (_, response) => void response.destroy(),
    (_, response) => void response.writeHead(401).end(),
    odd,
    nested,
    json('{"node_id":1,"raft_groups":[]}'),
  ]);
  const before = process.memoryUsage.rss();
  const { status, text } = await ask('/metrics', { accept: OPENMETRICS });
  assert.equal(status, 200);
  const up = [...text.matchAll(/^millrace_up\{node="(\d+)"\} (\d)$/gm)].map(([, node, value]) => `${node}=${value}`);
  assert.deepEqual(up, ['1=1', '2=0', '3=0', '4=0', '5=0', '6=0', '7=0', '8=1', '9=0', '10=0']);
  assert.match(text, /^millrace_appends_total\{node="1"\} 7$/m);
  const ofOdd = text.split('\n').filter((line) => line.includes('node="8"') && !line.startsWith('millrace_scrape'));
  assert.deepEqual(ofOdd, [
    'millrace_up{node="8"} 1',
    'millrace_responses_total{node="8",status="200"} 4',
    'millrace_request_duration_seconds_bucket{node="8",operation="head",le="0.0001"} 1',
    'millrace_request_duration_seconds_bucket{node="8",operation="head",le="0.0025"} 1',
    'millrace_request_duration_seconds_bucket{node="8",operation="head",le="+Inf"} 3',
    'millrace_request_duration_seconds_sum{node="8",operation="head"} 3',
    'millrace_request_duration_seconds_count{node="8",operation="head"} 3',
    'millrace_request_latency_seconds_count{node="8",operation="read"} 3',
    'millrace_group_leads{node="8",group="0"} 1',
    'millrace_group_has_leader{node="8",group="0"} 1',
    'millrace_group_log_lost{node="8",group="0"} 0',
  ]);
  assert(process.memoryUsage.rss() - before < 256 * 1024 * 1024, 'an endless answer is cut off');
});

test('a sum of years in small units stays, bounds that are not in order are dropped, and what a node says is one line', async (t) => {
  const sums = '"latency_us":{"long_poll":{"sum":2e16,"buckets":[1,2]}},"wal_sync_ns":4e16,"accepted_appends":2e16';
  const { ask, said } = await startExporter(t, [
    json(`{"node_id":1,"raft_groups":[],"latency_buckets_us":[100],${sums}}`),
    json('{"node_id":2,"raft_groups":[],"latency_buckets_us":[1,1],"latency_us":{"read":{"sum":1,"buckets":[1,1,1]}}}'),
    (_, response) => void response.writeHead(500).end('{"reason":"red\\u001b[31m\\nnode 1: answers again"}'),
  ]);
  const { text } = await ask('/metrics');
  const shown = text.split('\n').filter((line) => /^millrace_(log_commit_seconds|request_duration|appends)/.test(line));
  assert.deepEqual(shown, [
    'millrace_request_duration_seconds_bucket{node="1",operation="long_poll",le="0.0001"} 1',
    'millrace_request_duration_seconds_bucket{node="1",operation="long_poll",le="+Inf"} 3',
    'millrace_request_duration_seconds_sum{node="1",operation="long_poll"} 20000000000',
    'millrace_request_duration_seconds_count{node="1",operation="long_poll"} 3',
    'millrace_log_commit_seconds_total{node="1"} 40000000',
  ]);
  assert.deepEqual(said, ['node 3: it answered 500 (red\\u001b[31m\\u000anode 1: answers again)']);
});

test('a client that reads nothing of its answer does not keep its connection', async (t) => {
  const groups = Array.from({ length: 4096 }, (_, id) => ({
    ...{ raft_group_id: id, leader: 1, current_term: 1, committed_index: 1, last_applied: 1, last_log_index: 1 },
    ...{ log_bytes: 1, caught_up: true, stalled: false, voter_ids: [1], hot_bytes: 1, cold_bytes: 1 },
  }));
  // More than the system takes off our hands.
  const nodes = [1, 2, 3, 4].map((id) => json(JSON.stringify({ node_id: id, raft_groups: groups })));
  const { port } = await startExporter(t, nodes, { takingMs: 200 });
  const client = connect(port, '127.0.0.1');
  client.on('error', () => undefined);
  client.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await once(client, 'readable');
  await until('the exporter has given up', () => {
    // Bytes keep the connection busy, and one that the other side has ended is reset.
    client.write('\r');
    return client.destroyed;
  });
});

test('both formats, by what the scraper prefers; scrapers at the same time share one look', async (t) => {
  let asked = 0;
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const { ask } = await startExporter(t, [
    (incoming, response) => {
      asked++;
      void held.then(() => GOOD(incoming, response as Parameters<RequestListener>[1]));
    },
  ]);
  const waiting = [OPENMETRICS, 'text/plain', '*/*', 'application/openmetrics-text; version=0.0.1, text/plain'].map(
    (accept) => ask('/metrics', { accept }),
  );
  await until('the node is asked', () => asked > 0);
  assert.equal((await ask('/healthz', { host: '10.0.0.7' })).text, 'ok\n');
  release();
  const answers = await Promise.all(waiting);
  assert.deepEqual(
    answers.map(({ type }) => type.split(';')[0]),
    ['application/openmetrics-text', 'text/plain', 'text/plain', 'text/plain'],
  );
  assert.equal(asked, 1);
  assert(answers[0]?.text.endsWith('\n# EOF\n') && !answers[1]?.text.includes('# EOF'));
  assert.equal(promtoolSays(answers[1]?.text ?? ''), undefined);
});

test('who may ask: with a token its bearer, without one no foreign name', async (t) => {
  const { ask: open } = await startExporter(t, [GOOD]);
  assert.equal((await open('/metrics', { host: 'evil.example' })).status, 421);
  assert.equal((await open('/metrics', { host: 'localhost:1' })).status, 200);
  assert.equal((await open('/metrics', {}, 'POST')).status, 405);
  assert.equal((await open('/elsewhere')).status, 404);
  const { ask: closed } = await startExporter(t, [GOOD], { token: 'scrape' });
  assert.equal((await closed('/metrics')).status, 401);
  assert.equal((await closed('/metrics', { authorization: 'Bearer admin' })).status, 401);
  assert.equal((await closed('/metrics', { authorization: 'Bearer scrape', host: 'exporter:4490' })).status, 200);
});

test('the verb serves a real cluster under the names of the document, also with a node dead', async (t) => {
  const cluster = await TestCluster.create({ process: true, groups: 4 });
  t.after(() => cluster.dispose());
  await cluster.startAll();
  const config = scratchFile('cluster.toml', clusterToml(cluster));
  const beyond = await ctl(['exporter', '--config', config, '--listen', '0.0.0.0:4490']);
  assert.deepEqual([beyond.code, /--scrape-token-file/.test(beyond.stderr)], [2, true], beyond.stderr);
  const run = startCtl(['exporter', '--config', config, '--listen', '127.0.0.1:0']);
  t.after(() => run.interrupt());
  await until(
    () => `the address of the exporter; now ${run.stdout} ${run.stderr}`,
    () => run.stdout.endsWith('\n'),
  );
  const url = /^exporter of 3 nodes: (http:\/\/127\.0\.0\.1:\d+\/metrics)$/m.exec(run.stdout)?.[1] ?? '';
  const read = async (): Promise<string> => await (await fetch(url)).text();
  await cluster.node(await cluster.leaderOf(0)).admin.expect(200, 'GET', '/__svc/backup/group/0');
  const text = await read();
  assert.match(text, /^millrace_group_exported_timestamp_seconds\{node="\d",group="0"\} 1?\d{9,10}(\.\d+)?(e\+09)?$/m);
  assert.equal(promtoolSays(text), undefined);
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => `${name} ${kind}`);
  const table = [...readDocument('src/exporter/README.md').matchAll(/^\| `(millrace_\w+)` \| (\w+) \|/gm)];
  assert.deepEqual(
    types,
    table.map(([, name, kind]) => `${name} ${kind}`),
  );
  // Names of the JSON are right: all have data but those of a cold store and of a certificate, which this cluster lacks.
  const silent = table.flatMap(([, name = '']) => (new RegExp(`^${name}(_count)?\\{`, 'm').test(text) ? [] : [name]));
  assert.deepEqual(
    silent.filter((name) => !/^millrace_((group_)?cold|(cluster_)?certificate)_/.test(name)),
    [],
  );
  await cluster.kill(2);
  await until('node 2 is down and the others are served', async () => {
    const now = await read();
    const up = [...now.matchAll(/^millrace_up\{node="\d"\} (\d)$/gm)].map(([, value]) => value);
    assert(now.includes('millrace_uptime_seconds{node="1"}') || up[0] === '0');
    return up.join('') === '101';
  });
  // Another pipe than that of the answer.
  await until('stderr says why', () => /^node 2: /m.test(run.stderr));
  run.interrupt();
  assert.equal(await run.ended, 0, run.stderr);
});
