// Any node serves: writes through every node on all routes, reads of the same node at once, reads of the others soon.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { fnv1a64mod } from '../../src/base/hash.ts';
import type { HeaderList, RawResponse } from '../support/raw-client.ts';
import { TestCluster } from '../support/cluster.ts';
import { type PatientClient, patiently, untilDecided } from '../support/patient.ts';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { until } from '../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' } as const;
const JSON_TYPE = { 'Content-Type': 'application/json' } as const;
const STREAMS = 6;

describe('three nodes act as one', () => {
  let cluster: TestCluster;
  let traces: OtlpReceiver;
  let hasFailed = false;
  let tests = 0;

  before(async () => {
    traces = await OtlpReceiver.start();
    const toml = `[tracing]\notlp_endpoint = "${traces.url}"\nsample_ratio = 0`;
    cluster = await TestCluster.create({ groups: 4, longPollTimeout: '5s', toml });
    await cluster.startAll();
  });
  after(async () => {
    if (hasFailed) process.stderr.write(cluster.logs());
    await cluster.dispose();
    await traces.close();
  });

  /** In a bucket of its own. */
  const test = (name: string, body: (bucket: string) => Promise<void>): void => {
    it(name, async () => {
      const own = `any${++tests}`;
      try {
        await untilDecided((attempt) => body(`${own}-${attempt}`));
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
  };

  async function ask(
    id: number,
    method: string,
    path: string,
    headers: HeaderList = {},
    body: string | Buffer = '',
  ): Promise<RawResponse> {
    return await cluster.client(id).decided(method, path, headers, body);
  }

  async function expect(
    status: number,
    id: number,
    method: string,
    path: string,
    headers: HeaderList = {},
    body: string | Buffer = '',
  ): Promise<RawResponse> {
    const response = await ask(id, method, path, headers, body);
    const text = response.body.toString('utf8').slice(0, 300);
    assert.equal(response.status, status, `${method} ${path} on node ${id}: ${response.status} ${text}`);
    return response;
  }

  const content = async (id: number, path: string): Promise<string> =>
    (await expect(200, id, 'GET', `${path}?offset=-1`)).body.toString('utf8');

  /** The first node that does not lead the group of a stream. */
  async function followerOf(path: string): Promise<number> {
    const [bucket, stream] = path.slice(1).split('/') as [string, string];
    return (await cluster.leaderOf(fnv1a64mod(bucket, stream, cluster.groupIds.length))) === 1 ? 2 : 1;
  }

  /** All nodes show it, the others after a moment. */
  async function everywhere(path: string, text: string): Promise<void> {
    for (const id of cluster.ids) {
      await until(`node ${id} shows ${path}`, async () => {
        const response = await ask(id, 'GET', `${path}?offset=-1`);
        return response.status === 200 && response.body.toString('utf8') === text;
      });
    }
  }

  test('conditional writes work through every node, leader or not', async (bucket) => {
    for (const id of cluster.ids) {
      // A young cluster refuses them until each group has recorded its identity.
      for (let i = 0; i < 4; i++) {
        await until('conditional writes are open', async () => {
          const answer = await ask(id, 'DELETE', `/${bucket}/${id}-${i}`, { 'If-Match': '*' });
          return answer.headers.get('millrace-error') !== 'UPGRADE_UNFINISHED';
        });
      }
      for (let i = 0; i < 4; i++) {
        const path = `/${bucket}/${id}-${i}`;
        await expect(201, id, 'PUT', path, { ...TEXT, 'If-None-Match': '*' }, 'x');
        await expect(412, id, 'PUT', path, { ...TEXT, 'If-None-Match': '*' }, 'x');
        await expect(204, id, 'POST', path, { ...TEXT, 'If-Match': '*' }, 'y');
        await expect(412, id, 'DELETE', path, { 'If-None-Match': '*' });
        await expect(204, id, 'DELETE', path, { 'If-Match': '*' });
      }
    }
  });

  test('of many writers on all nodes exactly one takes each offset', async (bucket) => {
    const path = `/${bucket}/s`;
    await expect(201, 1, 'PUT', path, TEXT);
    const writers = 9;
    const lines = 15;
    let conflicts = 0;
    const write = async (writer: number): Promise<void> => {
      let tail = 0;
      for (let line = 0; line < lines;) {
        const headers = { ...TEXT, 'Stream-Expected-Offset': String(tail) };
        const answer = await ask(1 + (writer % 3), 'POST', path, headers, `${writer},${tail}\n`);
        tail = Number(answer.headers.get('stream-next-offset'));
        line++;
        if (answer.status === 204) continue;
        assert.deepEqual([answer.status, answer.headers.get('millrace-error')], [409, 'EXPECTED_OFFSET_CONFLICT']);
        conflicts++;
      }
    };
    await Promise.all(Array.from({ length: writers }, (_, i) => write(i)));
    assert(conflicts > 0);
    let text = '';
    await until('node 2 shows what was acknowledged through all nodes', async () => {
      text = await content(2, path);
      return text.split('\n').length > writers * lines - conflicts;
    });
    // Each line says where it was to begin.
    let at = 0;
    for (const line of text.split('\n').slice(0, -1)) {
      assert.equal(line.split(',')[1], String(at));
      at += line.length + 1;
    }
    assert.equal(text.split('\n').length - 1, writers * lines - conflicts);
  });

  test('what a node acknowledged the same node shows at once, on both route families', async (bucket) => {
    for (let i = 0; i < STREAMS; i++) {
      const id = 1 + (i % 3);
      const name = `own-${i}`;
      await expect(201, id, 'PUT', `/${bucket}/${name}`, TEXT);
      let whole = '';
      for (let n = 0; n < 4; n++) {
        const path = n % 2 === 0 ? `/${bucket}/${name}` : `/v1/stream/${bucket}/${name}`;
        const answer = await expect(204, id, 'POST', path, TEXT, `${n};`);
        whole += `${n};`;
        assert.equal(Number(answer.headers.get('stream-next-offset')), whole.length, name);
        assert.equal(await content(id, path), whole, `${name} on node ${id}, read straight after the answer`);
      }
      await everywhere(`/${bucket}/${name}`, whole);
    }
  });

  test('the trace of a write through a follower says what the leader did', async (bucket) => {
    const path = `/${bucket}/traced`;
    await expect(201, 1, 'PUT', path, TEXT);
    // A leadership may move just then, so several are asked for.
    for (let attempt = 1; ; attempt++) {
      const follower = await followerOf(path);
      const traceId = randomBytes(16).toString('hex');
      const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;
      await expect(204, follower, 'POST', path, { ...TEXT, traceparent }, 'x');
      const spans = await traces.trace(traceId, 4);
      const named = (name: string): ReceivedSpan | undefined => spans.find((span) => span.name === name);
      const [whole, shard] = [named('POST /{bucket}/{stream}'), named('shard')];
      const [leader, apply, log, commit] = [named('leader'), named('apply'), named('log'), named('commit')];
      if (spans.length !== 6 || leader === undefined) {
        assert(attempt < 5, JSON.stringify(spans));
        continue;
      }
      assert.equal(whole?.resource['service.instance.id'], String(follower));
      assert.equal(shard?.parentSpanId, whole.spanId);
      for (const part of [leader, apply]) assert.equal(part?.parentSpanId, shard.spanId);
      for (const part of [log, commit]) assert.equal(part?.parentSpanId, leader.spanId);
      const leaderId = Number(leader.attributes['millrace.node']);
      assert.notEqual(leaderId, follower);
      assert.deepEqual(
        [apply, log, commit].map((part) => part?.attributes['millrace.node']),
        [follower, leaderId, leaderId],
      );
      const inside: readonly (readonly [ReceivedSpan, ReceivedSpan | undefined])[] = [
        ...[shard].map((part) => [whole, part] as const),
        ...[leader, apply].map((part) => [shard, part] as const),
        ...[log, commit].map((part) => [leader, part] as const),
      ];
      for (const [outer, inner] of inside) {
        assert(BigInt(inner?.startTimeUnixNano ?? 0) >= BigInt(outer.startTimeUnixNano), JSON.stringify(spans));
        assert(BigInt(inner?.endTimeUnixNano ?? 0) <= BigInt(outer.endTimeUnixNano), JSON.stringify(spans));
      }
      return;
    }
  });

  test('one stream written through all nodes in turn keeps the order of the answers', async (bucket) => {
    await expect(201, 1, 'PUT', `/${bucket}/turns`, TEXT);
    let whole = '';
    for (let n = 0; n < 30; n++) {
      const id = 1 + (n % 3);
      // Another node's create may not have arrived here, but the write goes to the leader anyway.
      const answer = await expect(204, id, 'POST', `/${bucket}/turns`, TEXT, `${n} `);
      whole += `${n} `;
      assert.equal(Number(answer.headers.get('stream-next-offset')), whole.length);
    }
    await everywhere(`/${bucket}/turns`, whole);
  });

  test('a producer is recognised whichever node it talks to', async (bucket) => {
    await expect(201, 1, 'PUT', `/${bucket}/producer`, TEXT);
    const send = (id: number, epoch: number, seq: number): Promise<RawResponse> =>
      ask(
        id,
        'POST',
        `/${bucket}/producer`,
        { ...TEXT, 'Producer-Id': 'p', 'Producer-Epoch': epoch, 'Producer-Seq': seq },
        `${epoch}.${seq} `,
      );
    for (let seq = 0; seq < 9; seq++) {
      const answer = await send(1 + (seq % 3), 0, seq);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('producer-seq'), String(seq));
      for (const id of cluster.ids) {
        const again = await send(id, 0, seq);
        assert.equal(again.status, 204, `a repetition through node ${id}`);
        assert.equal(again.headers.get('stream-next-offset'), answer.headers.get('stream-next-offset'));
      }
    }
    const gap = await send(2, 0, 11);
    assert.equal(gap.status, 409);
    assert.equal(gap.headers.get('producer-expected-seq'), '9');
    assert.equal((await send(3, 1, 0)).status, 200);
    const stale = await send(1, 0, 9);
    assert.equal(stale.status, 409);
    assert.equal(stale.headers.get('producer-epoch'), '1');
    await everywhere(`/${bucket}/producer`, '0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 1.0 ');
  });

  test('JSON records are numbered once; a refusal of a follower is the refusal of the leader', async (bucket) => {
    for (const id of cluster.ids) {
      const path = `/${bucket}/json-${id}`;
      await expect(201, id, 'PUT', path, JSON_TYPE);
      const first = await expect(204, id, 'POST', path, JSON_TYPE, '[{"b":1,"a":2},3.00]');
      assert.equal(first.headers.get('stream-record-start'), '0');
      assert.equal(first.headers.get('stream-record-next'), '2');
      const other = 1 + (id % 3);
      const match = { ...JSON_TYPE, 'Stream-Record-Match': 2 };
      await expect(204, other, 'POST', path, match, '"x"');
      const failed = await expect(412, id, 'POST', path, match, '"y"');
      assert.equal(failed.headers.get('stream-record-next'), '3');
      await expect(400, id, 'POST', path, JSON_TYPE, '{"broken":');
      await expect(400, id, 'POST', path, JSON_TYPE, '[]');
      await expect(400, id, 'POST', path, TEXT, 'text');
      await everywhere(path, '[{"b":1,"a":2},3.00,"x"]');
    }
  });

  test('closes, attributes and deletes through any node', async (bucket) => {
    for (const id of cluster.ids) {
      const other = 1 + (id % 3);
      const path = `/${bucket}/life-${id}`;
      await expect(201, id, 'PUT', path, { ...TEXT, 'Stream-Attrs': '{"title":"one"}' }, 'start ');
      await expect(204, id, 'PUT', `${path}/attrs`, JSON_TYPE, '{"title":"two","metadata":{"n":1}}');
      const attributes = await expect(200, id, 'GET', `${path}/attrs`);
      assert.deepEqual(JSON.parse(attributes.body.toString('utf8')), { title: 'two', metadata: { n: 1 } });
      const closing = await expect(204, other, 'POST', path, { ...TEXT, 'Stream-Closed': 'true' }, 'end');
      assert.equal(closing.headers.get('stream-closed'), 'true');
      const refused = await expect(409, id, 'POST', path, TEXT, 'more');
      assert.equal(refused.headers.get('stream-closed'), 'true');
      await everywhere(path, 'start end');
      await expect(204, other, 'DELETE', path);
      await expect(404, other, 'GET', path);
      await expect(404, id, 'POST', path, TEXT, 'late');
      await until(`node ${id} forgot ${path}`, async () => (await ask(id, 'HEAD', path)).status === 404);
      await expect(201, id, 'PUT', path, TEXT, 'again');
      await everywhere(path, 'again');
    }
  });

  test('bodies of all sizes go through a follower', async (bucket) => {
    for (const [n, size] of [1, 4096, 65_000, 262_143, 262_145, 1_000_003, 3_000_001].entries()) {
      for (const id of cluster.ids) {
        const path = `/${bucket}/large-${n}-${id}`;
        // More pieces than may be under way at once: one follower is enough.
        if (size > 2_000_000 && id !== (await followerOf(path))) continue;
        const body = Buffer.alloc(size, `${n}${id}-`);
        await expect(201, id, 'PUT', path, TEXT);
        const answer = await expect(204, id, 'POST', path, TEXT, body);
        assert.equal(Number(answer.headers.get('stream-next-offset')), size);
        let at = 0;
        while (at < size) {
          const part = await expect(200, id, 'GET', `${path}?offset=${at}`);
          assert(
            part.body.length > 0 && part.body.equals(body.subarray(at, at + part.body.length)),
            `${path} at ${at}`,
          );
          at += part.body.length;
        }
      }
    }
  });

  test('a long-poll on any node wakes for an append through another one', async (bucket) => {
    for (const id of cluster.ids) {
      const other = 1 + (id % 3);
      const path = `/${bucket}/poll-${id}`;
      await expect(201, id, 'PUT', path, TEXT);
      for (let n = 0; n < 5; n++) {
        const waiting = longPoll(cluster.client(id), `${path}?offset=${2 * n}&live=long-poll`);
        await cluster.client(other).append(path, TEXT, `${n};`);
        const response = await waiting;
        assert.equal(response.status, 200);
        assert.equal(response.body.toString('utf8'), `${n};`);
      }
    }
  });

  test('an event stream on every node sees what is appended through all nodes, in order and without gaps', async (bucket) => {
    const path = `/${bucket}/tail`;
    const appends = 90;
    await expect(201, 1, 'PUT', path, TEXT);
    for (const id of cluster.ids) {
      await until(`node ${id} knows ${path}`, async () => (await ask(id, 'HEAD', path)).status === 200);
    }
    const readers = cluster.ids.map((id) => readEvents(cluster.node(id).url + path, appends));
    const writers = cluster.ids.map(async (id) => {
      for (let n = 0; n < appends / 3; n++) await cluster.client(id).append(path, TEXT, `${id}:${n}\n`);
    });
    await Promise.all(writers);
    const seen = await Promise.all(readers);
    const whole = await content(1, path);
    for (const lines of seen) assert.equal(`${lines.join('\n')}\n`, whole);
    for (const id of cluster.ids) {
      const own = (seen[0] as string[]).filter((line) => line.startsWith(`${id}:`));
      assert.deepEqual(
        own,
        Array.from({ length: appends / 3 }, (_, n) => `${id}:${n}`),
      );
    }
  });
});

/** Asks again when the time of one poll was over before anything came. */
async function longPoll(client: PatientClient, target: string): Promise<RawResponse> {
  for (;;) {
    const answer = await client.request('GET', target);
    if (answer.status !== 204) return answer;
  }
}

/** Lines of a text stream as its event stream brings them; the reader comes back where it was when that ends. */
async function readEvents(url: string, count: number): Promise<string[]> {
  const lines: string[] = [];
  let offset = '-1';
  while (lines.length < count) {
    const abort = new AbortController();
    const { answer } = await patiently(`events of ${url}`, () =>
      fetch(`${url}?offset=${offset}&live=sse`, { signal: abort.signal }),
    );
    assert.equal(answer.status, 200);
    assert(answer.body !== null);
    let text = '';
    const shown: string[] = [];
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      const events = (text + chunk).split('\n\n');
      text = events.pop() as string;
      for (const event of events) {
        const data = event.split('\n').filter((line) => line.startsWith('data:'));
        const values = data.map((line) => line.replace(/^data: ?/, ''));
        if (event.includes('event: data')) shown.push(...values.filter((line) => line !== ''));
        if (!event.includes('event: control')) continue;
        offset = (JSON.parse(values.join('\n')) as { streamNextOffset: string }).streamNextOffset;
        lines.push(...shown.splice(0));
      }
      if (lines.length >= count) break;
    }
    abort.abort();
  }
  return lines;
}
