// Quotas are one number for the cluster, whichever node a client asks and wherever the streams lie.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { patiently } from '../support/patient.ts';
import { until } from '../support/until.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';

const TEXT = { 'content-type': 'text/plain' } as const;
const STREAMS = 32;
const BYTES = 100;

class Rig {
  readonly cluster: TestCluster;
  #asked = 0;
  /** Requests with an attempt that may have taken effect. */
  unknown = 0;

  constructor(cluster: TestCluster) {
    this.cluster = cluster;
  }

  /** Through one node after the other; 201 also when an attempt without an answer made the stream. */
  async call(method: string, path: string, headers: Record<string, string> = {}, body = ''): Promise<RawResponse> {
    const { answer, mayHaveActed } = await patiently(`${method} ${path}`, () => {
      const ids = this.cluster.ids;
      const id = ids[this.#asked++ % ids.length] as number;
      return requestOnce(this.cluster.node(id).port, method, path, headers, body);
    });
    if (mayHaveActed) this.unknown++;
    const isMade = mayHaveActed && method === 'PUT' && answer.status === 200;
    const isGone = mayHaveActed && method === 'DELETE' && answer.status === 404;
    return { ...answer, status: isMade ? 201 : isGone ? 204 : answer.status };
  }

  async quota(bucket: string, bounds: object): Promise<void> {
    const json = { 'content-type': 'application/json' };
    const { admin } = this.cluster.node(1);
    await admin.expect(204, 'PUT', `/__svc/quota/${bucket}`, json, JSON.stringify(bounds));
  }

  async used(bucket: string): Promise<{ used_streams: number; used_retained_bytes: number }> {
    const answer = await this.cluster.node(2).admin.expect(200, 'GET', `/__svc/quota/${bucket}`);
    return JSON.parse(answer.body.toString()) as { used_streams: number; used_retained_bytes: number };
  }
}

/** Buckets without a quota cost no question, on any node. */
async function unbounded(rig: Rig): Promise<void> {
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => rig.call('PUT', `/free${i}/s`, TEXT)));
  assert(answers.every(({ status }) => status === 201));
  for (const id of rig.cluster.ids) assert.equal((await rig.cluster.metrics(id))['quota_questions'], 0);
}

async function streams(rig: Rig): Promise<void> {
  await rig.quota('q', { max_streams: 2 });
  const made: string[] = [];
  for (let i = 0; i < STREAMS; i++) {
    const answer = await rig.call('PUT', `/q/s${i}`, TEXT);
    if (answer.status === 201) made.push(`/q/s${i}`);
    else assert.equal(answer.status, 429);
    if (i === STREAMS - 1) assert.match(answer.body.toString(), /max_streams is 2, it has 2/);
  }
  assert.deepEqual(made, ['/q/s0', '/q/s1'], 'exactly two');
  assert.equal((await rig.used('q')).used_streams, 2);
  for (const path of made)
    assert.equal(
      (await rig.cluster.client(1).request('PUT', path, TEXT)).status,
      200,
      'what is there is no new stream',
    );
  assert.equal((await rig.call('PUT', '/q/s0', { 'content-type': 'text/html' })).status, 409);
  assert.equal((await rig.call('PUT', '/q/fork', { 'stream-forked-from': '/q/s0' })).status, 429);
  assert.equal((await rig.call('DELETE', '/q/s1')).status, 204);
  assert.equal((await rig.call('PUT', '/q/s9', TEXT)).status, 201);
  // Many at once through one node are as exact as one after the other.
  assert.equal((await rig.call('DELETE', '/q/s9')).status, 204);
  const client = rig.cluster.client(3);
  const answers = await Promise.all(
    Array.from({ length: 16 }, (_, i) => client.request('PUT', `/q/at-once-${i}`, TEXT)),
  );
  // 200: it was made by an attempt without an answer.
  assert.equal(answers.filter(({ status }) => status === 201 || status === 200).length, 1);
}

async function bytes(rig: Rig): Promise<void> {
  await rig.quota('b', { max_retained_bytes: 10 * BYTES });
  for (const path of ['/b/s0', '/b/s1', '/b/s2']) assert.equal((await rig.call('PUT', path, TEXT)).status, 201);
  const body = 'x'.repeat(BYTES);
  let taken = 0;
  const unknownBefore = rig.unknown;
  for (let i = 0; i < 20; i++) {
    const answer = await rig.call('POST', `/b/s${i % 3}`, TEXT, body);
    if (answer.status === 204) taken++;
    else assert.match(answer.body.toString(), /max_retained_bytes is 1000, it has 1000/);
  }
  const unknown = rig.unknown - unknownBefore;
  assert(taken <= 10 && taken + unknown >= 10, `${taken} taken, ${unknown} without an answer at first`);
  // A write that adds nothing is answered as usual.
  assert.equal((await rig.call('POST', '/b/none', TEXT, body)).status, 404);
  assert.equal((await rig.call('POST', '/b/s0', { 'content-type': 'text/html' }, body)).status, 400);
  assert.equal((await rig.call('POST', '/b/s0', { 'stream-closed': 'true' })).status, 204);
  assert.equal((await rig.call('POST', '/b/s0', TEXT, body)).status, 409);
}

async function others(rig: Rig): Promise<void> {
  await rig.quota('o', { max_retained_bytes: 2000 });
  assert.equal((await rig.call('PUT', '/o/s', TEXT, 'x'.repeat(BYTES))).status, 201);
  const tail = String(BYTES).padStart(20, '0');
  const put = await rig.call('PUT', `/o/s/snapshot/${tail}`, TEXT, 's'.repeat(1500));
  assert.equal(put.status < 300, true, put.body.toString());
  assert.equal((await rig.used('o')).used_retained_bytes, BYTES + 1500);
  assert.equal((await rig.call('POST', '/o/s', TEXT, 'x'.repeat(500))).status, 429);
  const fork = await rig.call('PUT', '/other/f', { 'stream-forked-from': '/o/s' });
  assert.equal(fork.status, 201, 'another bucket, no quota');
  await rig.quota('o', { max_retained_bytes: BYTES + 1500 + 4 * BYTES });
  for (let i = 0; i < 3; i++) {
    const headers = { ...TEXT, 'producer-id': `p${i}`, 'producer-epoch': '0', 'producer-seq': '0' };
    assert((await rig.call('POST', '/o/s', headers, 'x')).status < 300);
  }
  await until('what is known of producers counts', async () => {
    return (await rig.used('o')).used_retained_bytes > BYTES + 1500 + 3 * 20;
  });
}

async function forks(rig: Rig): Promise<void> {
  assert.equal((await rig.call('PUT', '/source/s', TEXT, 'x'.repeat(1000))).status, 201);
  await rig.quota('f', { max_retained_bytes: 2500 });
  const statuses: number[] = [];
  for (let i = 0; i < 8; i++) {
    const answer = await rig.call('PUT', `/f/f${i}`, { 'stream-forked-from': '/source/s' });
    statuses.push(answer.status);
    if (answer.status !== 201) assert.match(answer.body.toString(), /max_retained_bytes is 2500, it has 2000/);
  }
  assert.deepEqual(statuses, [201, 201, 429, 429, 429, 429, 429, 429], 'charged before the first byte is copied');
  await until('nothing is left of those refused', async () => (await rig.used('f')).used_streams === 2);
  assert.equal((await rig.used('f')).used_retained_bytes, 2000);
}

test('quotas count what all groups hold: streams, bytes, snapshots, producers, forks', async () => {
  await withCluster({ groups: 4 }, async (cluster) => {
    const rig = new Rig(cluster);
    await unbounded(rig);
    await streams(rig);
    await bytes(rig);
    await others(rig);
    await forks(rig);
  });
});
