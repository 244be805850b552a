// Verbs before a node that answers as no healthy one does.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { measure } from '../../src/operator/verbs/bench.ts';
import { linesOf } from '../../src/operator/streams/pipes.ts';
import { StreamClient } from '../../src/operator/streams/stream-client.ts';
import { streamName } from '../../src/operator/streams/stream-name.ts';
import { scratchFile } from '../support/ctl.ts';
import { type VerbResult, runVerb } from '../support/verbs.ts';

interface Says {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
}

let server: Server;
let config = '';
let url = '';
let says: (request: IncomingMessage) => Says = () => ({});

before(async () => {
  server = createServer((request, response) => {
    request.resume().on('end', () => {
      const { status = 200, headers = {}, json } = says(request);
      response.writeHead(status, headers).end(json === undefined ? undefined : JSON.stringify(json));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  config = scratchFile('odd.toml', `[[nodes]]\nid = 1\nhost = "h"\nadmin_url = "${url}"\nhttp_url = "${url}"\n`);
});
beforeEach(() => (says = () => ({})));
after(() => {
  server.closeAllConnections();
  server.close();
});

const GROUP = { raft_group_id: 0, leader: 1, voter_ids: [1] };
const verb = (line: string): Promise<VerbResult> =>
  runVerb(line, { MILLRACE_CLUSTER: config, MILLRACE_URL: '', MILLRACE_CONTEXT: '' });

test('a node is not healthy while reads wait, nor when its disk changed what it holds', async () => {
  const metrics = { node_id: 1, raft_groups: [GROUP] };
  says = () => ({ json: metrics });
  assert.equal((await verb('health')).code, 0);
  says = () => ({ json: { ...metrics, raft_groups: [{ ...GROUP, caught_up: false }] } });
  const behind = await verb('health');
  assert.deepEqual([behind.code, /not healthy: .*group 0, reads wait$/.test(behind.sentence)], [1, true]);
  says = () => ({ json: { ...metrics, damaged_rows: 2 } });
  assert.match((await verb('health')).sentence, /its disk changed rows of the state \(2\), what needs them is refused/);
  says = () => ({ json: { ...metrics, damaged_rows: 1, damaged_groups: 3 } });
  assert.match((await verb('health')).sentence, /\(1\) and stopped 3 of its groups, what needs them is refused/);
  assert.match((await verb('status')).stdout, /^1 +h +damaged /m);
});

test('a token that may not mark a node changes nothing, so nothing is lifted', async () => {
  for (const status of [401, 403]) {
    const changes: string[] = [];
    says = ({ method = '' }) => {
      if (method === 'GET') return { json: { node_id: 1, raft_groups: [GROUP] } };
      changes.push(method);
      return { status, json: { reason: 'this takes the role operate' } };
    };
    const drained = await verb('drain --node 1 --poll-interval-secs 50ms');
    assert.match(
      drained.sentence,
      /^node 1: it (answered 403 \(this takes .*\)|wants a bearer .*); nothing was changed$/,
    );
    assert.deepEqual([drained.code, changes], [1, ['POST']]);
    const restarted = await verb('restart --restart-cmd true --poll-interval-secs 50ms');
    assert.match(restarted.sentence, /^node 1: ABORTED \(it [^;]*; nothing was changed\); .* --only 1$/);
    assert.deepEqual([restarted.code, changes], [2, ['POST', 'POST']]);
  }
});

test('a flush ends though the stream grows while it runs', async () => {
  let flushed = 0;
  says = () => ({ json: { hot_start_offset: ++flushed } });
  const { code, stdout } = await verb('flush-cold --bucket b --stream s');
  assert.deepEqual([code, stdout, flushed], [0, 'b/s: {"hot_start_offset":3}\n', 3]);
});

test('a tail ends when another stream has the name, and believes a node that does not tell', async () => {
  const told: readonly Record<string, string>[] = [
    {},
    { 'stream-incarnation': 'a' },
    {},
    { 'stream-incarnation': 'a' },
    { 'stream-incarnation': 'b' },
    { 'stream-closed': 'true' },
  ];
  let asked = 0;
  says = () => ({
    headers: { 'content-type': 'text/plain', 'stream-next-offset': String(asked), ...told[asked] },
    json: asked++,
  });
  const { code, stdout, sentence } = await verb('stream tail --follow b/s');
  assert.deepEqual([code, stdout], [3, '123']);
  assert.match(sentence, /b\/s: it is gone, and another one of its name was made$/);
});

test('texts of a node drive no terminal', async () => {
  const away = { reachable: false, last_error: 'no\u001b[2J\u202efine' };
  says = () => ({ json: { node_id: 1, raft_groups: [GROUP], cluster_id: '\u001b]0;x\u0007', cold_store: away } });
  for (const line of ['health', 'status']) {
    const { stdout } = await verb(line);
    assert.match(stdout, /no\\u001b\[2J\\u202efine/, line);
    assert.doesNotMatch(stdout, /[\u001b\u0007\u202e]/, line);
  }
  says = () => ({ status: 500, json: 'broken\u001b[2J' });
  assert.doesNotMatch((await verb('status')).stdout, /\u001b/);
});

test('subscriptions come in the order of bytes, which for some names is not that of UTF-16', async () => {
  const [first, second] = ['\uff5e', '\u{1f600}'];
  const pages: Readonly<Record<string, Says>> = {
    '': { json: { subscriptions: [{ id: first }], next_cursor: first } },
    [first]: { json: { subscriptions: [{ id: second }], next_cursor: second } },
    [second]: { json: { subscriptions: [], next_cursor: null } },
  };
  says = ({ url: path }) => pages[new URL(path ?? '', url).searchParams.get('after') ?? ''] ?? { status: 404 };
  const { stdout, sentence } = await verb('subscription ls --json');
  assert.deepEqual(stdout === '' ? sentence : JSON.parse(stdout), [{ id: first }, { id: second }]);
});

test('a listing whose cursor goes back ends', async () => {
  let asked = 0;
  says = () => ({ json: { streams: [], has_more: ++asked < 10, next_cursor: asked % 2 === 0 ? 'a' : 'b' } });
  assert.match((await verb('stream ls demo')).sentence, /a page of its streams ends where it begins$/);
  assert.equal(asked, 2);
});

test('bench takes a repeated creation for one, and says what failed, not that removing failed as well', async () => {
  const OFFSETS = { 'stream-next-offset': '1', 'content-type': 'application/octet-stream' };
  const bench = 'bench --phase-secs 50ms --writers 1 --streams 1 --size 1B --retry-secs 0';
  let removing = 204;
  let appending = 204;
  says = ({ method }) => {
    if (method === 'DELETE') return { status: removing };
    return { status: method === 'POST' ? appending : 200, headers: OFFSETS };
  };
  assert.equal((await verb(bench)).code, 0);
  removing = 500;
  assert.equal((await verb(bench)).code, 0, 'what was measured is told');
  appending = 413;
  assert.match((await verb(bench)).sentence, /it answered 413$/);
});

test('each part of bench that writes ends at half a gibibyte, whatever is under way', async () => {
  const SIZE = 1024 * 1024;
  const { signal } = new AbortController();
  const patience = { timeoutMs: 1, patienceMs: 0, refusedPatienceMs: 0 };
  const client = new StreamClient([], {
    ...patience,
    token: undefined,
    ca: undefined,
    signal,
    waiting: () => undefined,
  });
  const load = { client, names: [streamName('b', 's')], writers: 300, ms: Infinity, body: Buffer.alloc(SIZE) };
  let calls = 0;
  const phase = async (): Promise<number> => {
    assert(++calls <= 512, 'no more than that is begun');
    return await new Promise((resolve) => setImmediate(resolve, SIZE));
  };
  const { bytes } = await measure(phase, load);
  assert.equal(bytes, 1024 ** 3 / 2);
});

test('a piece of tiny lines comes out in bounded parts', async () => {
  const sizes: number[] = [];
  for await (const lines of linesOf([Buffer.from(`${'1\n'.repeat(25_000)}2`), Buffer.from('3\n')]))
    sizes.push(lines.length);
  assert.deepEqual(sizes, [10_000, 10_000, 5_000, 1]);
});
