// A token of a narrow scope over every row of the client plane, against a real node: what is out of its scope is answered
// as what is not there, with status, code, headers and body, and no answer names it.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { SCOPED_OPERATIONS } from '../../src/base/scopes.ts';
import { CLIENT_ROWS, type RouteRow } from '../../src/http/routes/table.ts';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { bearer, listed } from '../support/scoped-tokens.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { APPEND, ATTRIBUTES, CREATE, DELETE, HEAD, READ, SUBSCRIBE, SessionClient, TEXT } from '../session/client.ts';

const folder = temporaryFolder('hidden');
const [tokensFile = '', limitsFile = ''] = ['tokens.toml', 'limits.toml'].map((name) => join(folder, name));
const ROOT = 'root-0123456789abcdef0123456789abcdef';
const server = new TestServer({
  ...{ cores: 1, groups: 4 },
  http: `client_token = "${ROOT}"\ntokens_file = "${tokensFile}"\nlimits_file = "${limitsFile}"`,
});

/** Every name of what is hidden has it. */
const MARK = 'secret';
interface Place {
  readonly bucket: string;
  readonly stream: string;
}
const HIDDEN: Place = { bucket: `${MARK}-shop`, stream: `${MARK}-orders` };
/** In a bucket of which the token covers something, so a bucket as a whole is not hidden. */
const NEIGHBOR: Place = { bucket: 'mine', stream: `${MARK}-notes` };
/** Names of the same lengths of what was never there. */
const absent = ({ bucket, stream }: Place): Place => ({
  bucket: bucket.replace(MARK, 'absent'),
  stream: stream.replace(MARK, 'absent'),
});

before(async () => {
  const operations = JSON.stringify(SCOPED_OPERATIONS);
  const entry = (id: string, bucket: string, streams: string): string =>
    `[[tokens]]\nid = "${id}"\nsha256 = "${listed(id, []).sha256}"\n` +
    `[[tokens.scopes]]\nbucket = "${bucket}"\nstreams = "${streams}"\noperations = ${operations}\n`;
  const tokens = [entry('narrow', 'mine', 'a-*'), entry('whole', 'mine', '*'), entry(MARK, HIDDEN.bucket, '*')];
  writeFileSync(tokensFile, tokens.join(''), { mode: 0o600 });
  const plenty = 'requests_per_second = 1_000_000\n';
  writeFileSync(limitsFile, `[token]\n${plenty}[bucket]\n${plenty}`, { mode: 0o600 });
  await server.start();
  for (const { bucket, stream } of [HIDDEN, NEIGHBOR, { bucket: 'mine', stream: 'a-1' }]) {
    const path = `/${bucket}/${stream}`;
    assert.equal((await ask('root', 'PUT', path, 'x')).status, 201);
    assert.equal((await ask('root', 'PUT', `${path}/snapshot/1`, 'x')).status, 204);
  }
  const following = { type: 'pull-wake', streams: [`${HIDDEN.bucket}/${HIDDEN.stream}`], wake_stream: 'mine/a-1' };
  assert.equal((await ask('root', 'PUT', `${SUBSCRIPTIONS}/${MARK}`, JSON.stringify(following))).status, 201);
  // The meters of its token and of its bucket are there.
  assert.equal((await ask(MARK, 'HEAD', `/${HIDDEN.bucket}/${HIDDEN.stream}`)).status, 200);
});
after(async () => {
  await server.dispose();
  removeFolder(folder);
});

const SUBSCRIPTIONS = '/v1/stream/__ds/subscriptions';

async function ask(token: string, method: string, path: string, body?: string | Buffer): Promise<RawResponse> {
  const authorization = token === 'root' ? { Authorization: `Bearer ${ROOT}` } : bearer(token);
  const type = path.includes('/attrs') || path.includes('/__') ? 'application/json' : 'text/plain';
  return await requestOnce(server.port, method, path, { ...authorization, 'Content-Type': type }, body);
}

interface Request {
  readonly row: RouteRow;
  readonly method: string;
  path(place: Place): string;
  readonly body: string | Buffer | undefined;
}

function bodyOf({ pattern, operation }: RouteRow, method: string): Request['body'] {
  if (method === 'GET' || method === 'HEAD' || method === 'DELETE') return undefined;
  if (operation === 'batch') return Buffer.from(joinFrames([Buffer.from('x')]));
  return pattern.endsWith('/attrs') ? '{}' : 'x';
}

/** Streams by both of their paths. */
const REQUESTS: readonly Request[] = CLIENT_ROWS.filter(({ pattern }) => pattern.includes('{bucket}')).flatMap((row) =>
  row.methods.flatMap((method) => {
    const path = ({ bucket, stream }: Place): string => {
      const filled = row.pattern.replace('{bucket}', bucket).replace('{stream}', stream).replace('{offset}', '0');
      return /\/(snapshot|retention)$/.test(row.pattern) ? `${filled}?record=0` : filled;
    };
    const asked = { row, method, path, body: bodyOf(row, method) };
    const flat = { ...asked, path: ({ bucket, stream }: Place): string => `/v1/stream/${bucket}/${stream}` };
    return row.pattern === '/{bucket}/{stream}' ? [asked, flat] : [asked];
  }),
);

const VARYING: ReadonlySet<string> = new Set(['x-request-id', 'date']);

/** All that the sender sees of an answer, with names of what is not there in place of those that are. */
function seen({ status, headers, body }: RawResponse): object {
  const plain = (text: string): string => text.replaceAll(MARK, 'absent');
  const lines = [...headers].filter(([name]) => !VARYING.has(name)).map(([name, value]) => [name, plain(value)]);
  return { status, headers: Object.fromEntries(lines), body: plain(body.toString()) };
}

test('each request about what is out of scope is answered as if it were not there', async () => {
  let asIfAbsent = 0;
  for (const { row, method, path, body } of REQUESTS) {
    for (const place of [HIDDEN, NEIGHBOR]) {
      const what = `${method} ${path(place)}`;
      const hidden = seen(await ask('narrow', method, path(place), body));
      assert.deepEqual(hidden, seen(await ask('narrow', method, path(absent(place)), body)), what);
      // It is told that it may not do this with the bucket as a whole, of which it knows.
      if (place === NEIGHBOR && !row.pattern.includes('{stream}')) continue;
      // Requests that make something are answered otherwise to other senders.
      if (method === 'PUT' && (row.operation === 'create' || row.operation === 'bucket')) {
        assert.equal((await ask('narrow', method, path(place), body)).status, 404, what);
        continue;
      }
      const missing = seen(await ask('root', method, path(absent(place)), body));
      assert.deepEqual(hidden, missing, `${what}: as to who may do everything`);
      asIfAbsent++;
    }
  }
  assert(asIfAbsent > 40, `${asIfAbsent} requests`);
  for (const { bucket, stream } of [HIDDEN, NEIGHBOR]) {
    assert.equal((await ask('root', 'GET', `/${bucket}/${stream}`)).body.toString(), 'x', 'it is as it was');
    assert.equal((await ask('root', 'GET', `/${bucket}/${stream}/snapshot`)).status, 307);
  }
});

test('live reads and forks of it are, too', async () => {
  const path = ({ bucket, stream }: Place): string => `/${bucket}/${stream}`;
  for (const place of [HIDDEN, NEIGHBOR]) {
    for (const query of [
      'offset=now&live=sse',
      'offset=now&live=long-poll&timeout=1s',
      'offset=-1&wait=create&live=sse',
    ]) {
      const hidden = seen(await ask('narrow', 'GET', `${path(place)}?${query}`));
      assert.deepEqual(hidden, seen(await ask('narrow', 'GET', `${path(absent(place))}?${query}`)), query);
      assert.equal('status' in hidden && hidden.status, 404, query);
    }
    const fork = async (token: string, from: Place): Promise<object> => {
      const authorization = token === 'root' ? { Authorization: `Bearer ${ROOT}` } : bearer(token);
      const headers = { ...authorization, 'Stream-Forked-From': path(from) };
      return seen(await requestOnce(server.port, 'PUT', '/mine/a-fork', headers));
    };
    assert.deepEqual(await fork('narrow', place), await fork('root', absent(place)));
  }
});

test('frames of sessions are, too', async () => {
  const authorization = `Authorization: ${bearer('narrow').Authorization}`;
  const session = await SessionClient.connect(server.port, { headers: [authorization] });
  const frames = [
    ...[[CREATE, null, TEXT], [APPEND, 'x', TEXT], [APPEND, ['x', 'y'], TEXT], [HEAD], [READ, { offset: 0 }]],
    ...[
      [SUBSCRIBE, 100, { offset: 0 }],
      [SUBSCRIBE, 100, { offset: 0, wait: 'create' }],
      [DELETE, {}],
    ],
    ...[
      [ATTRIBUTES, null],
      [ATTRIBUTES, '{}'],
    ],
  ];
  let id = 0;
  for (const [kind, ...rest] of frames) {
    for (const place of [HIDDEN, NEIGHBOR]) {
      const said = async ({ bucket, stream }: Place): Promise<object> => {
        const { id: _, ...told } = await session.ask(Number(kind), ++id, bucket, stream, ...rest);
        return told;
      };
      const hidden = await said(place);
      assert.deepEqual(hidden, await said(absent(place)), JSON.stringify([kind, rest]));
      assert.equal('code' in hidden && hidden.code, 'STREAM_NOT_FOUND', JSON.stringify([kind, rest]));
    }
  }
  session.destroy();
});

test('a subscription to it is, too', async () => {
  const calls = [
    ...[
      ['GET', ''],
      ['POST', '/claim', '{"worker":"w"}'],
      ['POST', '/streams', '{"streams":["mine/a-1"]}'],
    ],
    ...[
      ['DELETE', '/streams/mine/a-1'],
      ['DELETE', ''],
      ['PATCH', ''],
      ['POST', '/other', '{}'],
    ],
    // Their tokens are those of wakes.
    ...[
      ['POST', '/callback', '{}'],
      ['POST', '/ack', '{}'],
      ['POST', '/release', '{}'],
    ],
  ];
  for (const [method = '', path = '', body] of calls) {
    const hidden = seen(await ask('narrow', method, `${SUBSCRIPTIONS}/${MARK}${path}`, body));
    const missing = seen(await ask('narrow', method, `${SUBSCRIPTIONS}/absent${path}`, body));
    assert.deepEqual(hidden, missing, `${method} ${path}`);
  }
  assert.equal((await ask('root', 'GET', `${SUBSCRIPTIONS}/${MARK}`)).status, 200, 'it is as it was');
});

/** Routes about no single stream or bucket. */
const GENERAL = CLIENT_ROWS.filter(({ pattern }) => pattern.startsWith('/__svc/'));

test('usage, metrics and all other routes of the node name nothing of it', async () => {
  for (const { pattern, methods } of GENERAL) {
    for (const method of methods) {
      const { body } = await ask('narrow', method, pattern, method === 'POST' ? '{}' : undefined);
      assert(!body.toString().includes(MARK), `${method} ${pattern}: ${body.toString().slice(0, 300)}`);
    }
  }
  const told = async (token: string, path: string): Promise<unknown> => {
    const answer = await ask(token, 'GET', path);
    assert.equal(answer.status, 200, path);
    return JSON.parse(answer.body.toString());
  };
  const usage = { version: 1, write_unit_bytes: 10_240 };
  // A part of the bucket is in its scope, and meters are about the whole of it.
  assert.deepEqual(await told('narrow', '/__svc/usage'), { ...usage, buckets: {} });
  const counted = (bytes: number, streams: number): object => ({
    ...{ committed_append_bytes: bytes, committed_records: bytes, committed_write_units: streams },
    ...{ retained_bytes: bytes, stream_count: streams },
  });
  assert.deepEqual(await told('whole', '/__svc/usage'), { ...usage, buckets: { mine: counted(2, 2) } });
  assert.equal((await ask('narrow', 'HEAD', '/__svc/usage')).status, 200);

  const metered = async (token: string): Promise<string[]> => {
    const metrics = (await told(token, '/__svc/metrics')) as Record<string, unknown>;
    assert.deepEqual(Object.keys(metrics).toSorted(), ['limit_refusals', 'limited']);
    assert.equal(metrics['limit_refusals'], 0);
    const lines = metrics['limited'] as { readonly kind: string; readonly name: string }[];
    return lines.map(({ kind, name }) => `${kind} ${name}`);
  };
  assert.deepEqual(await metered('narrow'), ['token narrow']);
  assert.deepEqual(await metered('whole'), ['token whole', 'bucket mine']);
  assert.deepEqual(await metered(MARK), [`token ${MARK}`, `bucket ${HIDDEN.bucket}`]);
});
