// Traces of requests with a real receiver: which requests are followed, what their spans say, and that a receiver which
// fails costs spans and nothing else.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { VERSION } from '../../src/config/version.ts';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { RawClient } from '../support/raw-client.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const TOKEN = 't'.repeat(32);
const SPAN = '00f067aa0ba902b7';
const TEXT = { 'Content-Type': 'text/plain' };
const folder = temporaryFolder('tracing');
const receivers: OtlpReceiver[] = [];
after(async () => {
  removeFolder(folder);
  for (const receiver of receivers) await receiver.close();
});

async function newReceiver(): Promise<OtlpReceiver> {
  const receiver = await OtlpReceiver.start();
  receivers.push(receiver);
  return receiver;
}

const traceId = (n: number): string => n.toString(16).padStart(32, '0');
const sampled = (n: number): Record<string, string> => ({ traceparent: `00-${traceId(n)}-${SPAN}-01` });

function toml(url: string, ratio: number): string {
  return `[tracing]\notlp_endpoint = "${url}"\nsample_ratio = ${ratio}\notlp_token = "receiver-token"\n`;
}

/** Makes the process note at its end which of OpenTelemetry's files it has loaded. */
function noting(name: string): { readonly nodeArgs: readonly string[]; loaded(): number } {
  const [script, notes] = [join(folder, `${name}.cjs`), join(folder, `${name}.json`)];
  const paths = `Object.keys(require.cache).filter((path) => path.includes('@opentelemetry'))`;
  writeFileSync(
    script,
    `const worker = !require('worker_threads').isMainThread;
process.on('exit', () => { if (!worker) require('fs').writeFileSync(${JSON.stringify(notes)}, JSON.stringify(${paths})); });`,
  );
  return {
    nodeArgs: ['--require', script],
    loaded: () => (JSON.parse(readFileSync(notes, 'utf8')) as readonly string[]).length,
  };
}

async function counters(server: TestServer): Promise<Readonly<Record<string, number>>> {
  return (await server.metrics()) as Readonly<Record<string, number>>;
}

test('a request that a client follows: its spans join the trace, and say neither queries nor tokens', async () => {
  const receiver = await newReceiver();
  const notes = noting('on');
  const options = {
    process: true,
    toml: toml(receiver.url, 0),
    http: `client_token = "${TOKEN}"`,
    nodeArgs: notes.nodeArgs,
  };
  await withServer(options, async (server) => {
    const client = await RawClient.connect(server.port);
    const ask = async (method: string, path: string, headers: Record<string, string>, body = ''): Promise<number> =>
      (await client.request(method, path, { ...TEXT, Authorization: `Bearer ${TOKEN}`, ...headers }, body)).status;

    // Without a traceparent, with one that says no, and with none that means anything:
    // no client asked, and the ratio is 0.
    assert.equal(await ask('PUT', '/traced/log', {}), 201);
    assert.equal(await ask('POST', '/traced/log', { traceparent: `00-${traceId(99)}-${SPAN}-00` }, 'no'), 204);
    assert.equal(await ask('POST', '/traced/log', { traceparent: `00-${traceId(98)}-x-01` }, 'no'), 204);
    assert.equal(await ask('POST', '/traced/log', { ...sampled(1), 'X-Request-Id': 'mine-1' }, 'one'), 204);
    assert.equal(await ask('GET', '/traced/log?offset=-1&secret=in-the-query', sampled(2)), 200);
    assert.equal(await ask('GET', '/v1/stream/traced/absent', sampled(3)), 404);
    assert.equal(await ask('GET', '/traced/log', { ...sampled(4), Authorization: '' }), 401);
    assert.equal(await ask('PUT', '/traced', sampled(5)), 201);

    const spans = await receiver.trace(traceId(1), 4);
    const named = (name: string): ReceivedSpan | undefined => spans.find((span) => span.name === name);
    const [append, shard] = [named('POST /{bucket}/{stream}'), named('shard')];
    assert.equal(append?.parentSpanId, SPAN);
    assert.deepEqual(append.attributes, {
      'http.request.method': 'POST',
      'url.scheme': 'http',
      'url.path': '/traced/log',
      'server.address': '127.0.0.1',
      'millrace.operation': 'append',
      'millrace.request_id': 'mine-1',
      'http.response.status_code': 204,
      'http.route': '/{bucket}/{stream}',
    });
    const resource = { ...append.resource };
    assert.deepEqual(resource, {
      'service.name': 'millrace',
      'service.namespace': 'millrace',
      'service.version': VERSION,
      'service.instance.id': '1',
    });
    assert.equal(shard?.parentSpanId, append.spanId);
    assert.deepEqual(Object.keys(shard.attributes), ['millrace.group', 'millrace.shard']);
    assert(
      BigInt(shard.startTimeUnixNano) >= BigInt(append.startTimeUnixNano),
      'the shard is asked within the request',
    );
    assert(BigInt(shard.endTimeUnixNano) <= BigInt(append.endTimeUnixNano), 'and answers within it');
    for (const part of [named('log'), named('commit')]) {
      assert.equal(part?.parentSpanId, shard.spanId);
      assert.deepEqual(part.attributes, { 'millrace.node': 1 });
      assert(BigInt(part.startTimeUnixNano) >= BigInt(shard.startTimeUnixNano));
      assert(BigInt(part.endTimeUnixNano) <= BigInt(shard.endTimeUnixNano));
    }

    const reading = await receiver.trace(traceId(2), 3);
    assert.deepEqual(
      reading.map(({ name }) => name),
      ['turn', 'shard', 'GET /{bucket}/{stream}'],
    );
    const [, , read] = reading;
    assert(read !== undefined);
    assert.equal(read.attributes['url.path'], '/traced/log');
    const [, refusing, absent] = await receiver.trace(traceId(3), 3);
    assert.equal(absent?.name, 'GET /v1/stream/{path}');
    assert.equal(absent.attributes['http.response.status_code'], 404);
    assert.equal(refusing?.attributes['millrace.error'], 'STREAM_NOT_FOUND');
    const [stranger] = await receiver.trace(traceId(4), 1);
    assert.equal(stranger?.attributes['http.response.status_code'], 401);
    assert.equal(stranger.name, 'GET');
    const [bucket] = await receiver.trace(traceId(5), 1);
    assert.equal(bucket?.name, 'PUT /{bucket}');

    assert.deepEqual(new Set(receiver.spans.map((span) => span.traceId)), new Set([1, 2, 3, 4, 5].map(traceId)));
    for (const secret of [TOKEN, 'in-the-query', 'receiver-token']) assert(!receiver.raw.includes(secret), secret);
    assert.deepEqual([...receiver.authorizations], ['Bearer receiver-token']);

    // A client that has all of its requests followed: they are answered, and a hundred a second are followed.
    const beganMs = performance.now();
    for (let i = 0; i < 300; i++) assert.equal(await ask('HEAD', '/traced/log', sampled(1000 + i)), 200);
    const { traced_requests: followed = 0, traced_requests_left_out: leftOut = 0 } = await counters(server);
    assert.equal(followed + leftOut, 305);
    assert(followed <= 105 + (performance.now() - beganMs) / 10, `${followed} requests were followed`);
    client.socket.destroy();
    assert.equal(await server.stop(), 0);
    // Waiting spans were sent before the end.
    assert.equal(new Set(receiver.spans.map((span) => span.traceId)).size, followed);
  });
  assert(notes.loaded() > 0);
});

test('a receiver that fails or hangs costs spans, one log line, and no request', async () => {
  const receiver = await newReceiver();
  await withServer({ process: true, toml: toml(receiver.url, 1) }, async (server) => {
    const client = await RawClient.connect(server.port);
    assert.equal((await client.request('PUT', '/traced/log', TEXT)).status, 201);
    await until('a request of the sample', () => receiver.spans.some(({ name }) => name === 'PUT /{bucket}/{stream}'));
    let lost = 0;
    for (const behaviour of ['refuse', 'garbage', 'reset'] as const) {
      receiver.behaviour = behaviour;
      assert.equal((await client.request('POST', '/traced/log', TEXT, behaviour)).status, 204);
      await until(`spans are lost: ${behaviour}`, async () => {
        const { trace_spans_lost: now = 0 } = await counters(server);
        const isLost = now > lost;
        if (isLost) lost = now;
        return isLost;
      });
    }
    assert.equal(server.log().match(/spans are lost/g)?.length, 1, server.log());
    receiver.behaviour = 'hang';
    const before = receiver.batches;
    assert.equal((await client.request('POST', '/traced/log', TEXT, 'hang')).status, 204);
    await until('a batch that hangs', () => receiver.batches > before);
    assert.equal((await client.request('POST', '/traced/log', TEXT, 'hang')).status, 204);
    client.socket.destroy();
    const stoppedMs = performance.now();
    assert.equal(await server.stop(), 0);
    assert(performance.now() - stoppedMs < 30_000, 'the end of the process does not wait for the receiver');
  });
});

test('off: nothing of OpenTelemetry is loaded', async () => {
  const notes = noting('off');
  await withServer({ process: true, nodeArgs: notes.nodeArgs }, async (server) => {
    const client = await RawClient.connect(server.port);
    assert.equal((await client.request('PUT', '/traced/log', { ...TEXT, ...sampled(1) })).status, 201);
    client.socket.destroy();
    assert.equal((await counters(server))['traced_requests'], 0);
    assert.equal(await server.stop(), 0);
  });
  assert.equal(notes.loaded(), 0);
});
