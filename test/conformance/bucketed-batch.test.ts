// POST .../append-batch: frames, results, producers, limits, usage.
import assert from 'node:assert/strict';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { type Answer, JSON_TYPE, TEXT, assertHeaders, offsetOf, producer, serverSuite } from '../support/suite.ts';

const OCTETS = { 'Content-Type': 'application/octet-stream' } as const;

function frames(...bodies: string[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(joinFrames(bodies.map((body) => new TextEncoder().encode(body))));
}

const results = (answer: Answer): unknown => JSON.parse(answer.text);
const ok = (start: number, next: number): object => ({
  status: 204,
  stream_record_start: start,
  stream_record_next: next,
});

serverSuite('append-batch', { cores: 2 }, ({ server, test, expect, freshBucket }) => {
  test('frames are separate appends: an empty one fails alone', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: OCTETS });
    const body = Uint8Array.from([0, 0, 0, 1, 0x61, 0, 0, 0, 0, 0, 0, 0, 2, 0x62, 0x63]);
    const answer = await expect(200, `POST ${path}/append-batch`, { headers: OCTETS, body });
    assert.equal(answer.text, '[{"status":204},{"status":400},{"status":204}]');
    assertHeaders(answer, { 'content-type': 'application/json', 'stream-extensions': null, 'producer-seq': null });
    assert.equal(offsetOf(answer), 3);
    assert.equal((await expect(200, `GET ${path}?offset=-1`)).text, 'abc');
    // Only the type among these headers means something here.
    const others = { ...OCTETS, 'Stream-Closed': 'true', 'Stream-Seq': 'zzz', 'Stream-Record-Match': 'x' };
    assert.deepEqual(results(await expect(200, `POST ${path}/append-batch`, { headers: others, body: frames('d') })), [
      { status: 204 },
    ]);
    await expect(204, `POST ${path}`, { headers: { ...OCTETS, 'Stream-Seq': 'a' }, body: 'e' });
    assert.equal((await expect(200, `GET ${path}?offset=3`)).text, 'de');
    // A batch without a type is bytes.
    await expect(200, `POST ${path}/append-batch`, { body: frames('f') });
  });

  test('JSON: a range for each frame, and all or nothing where a frame is no JSON', async () => {
    const path = `/${freshBucket()}/s`;
    const batch = `POST ${path}/append-batch`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE, body: '0' });
    const answer = await expect(200, batch, { headers: JSON_TYPE, body: frames('[1, 2]', '{"a": 1.0}', ' [[3]]') });
    assert.deepEqual(results(answer), [ok(1, 3), ok(3, 4), ok(4, 5)]);
    assertHeaders(answer, { 'stream-extensions': 'json-record-coordinates-v1' });
    for (const bad of ['[]', '{', '1 2']) {
      const refused = await expect(400, batch, { headers: JSON_TYPE, body: frames('7', bad) });
      assert.match(refused.text, /frame 1/);
    }
    assert.equal((await expect(200, `GET ${path}?offset=-1`)).text, '[0,1,2,{"a":1.0},[3]]');
    assert.equal((await expect(200, `GET ${path}?record=3`)).text, '[{"a":1.0},[3]]');
    assert.deepEqual(results(await expect(200, batch, { headers: TEXT, body: frames('x', 'y') })), [
      { status: 400 },
      { status: 400 },
    ]);
  });

  test('Prefer: return=minimal needs no body when there is nothing to tell', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT });
    const headers = { ...TEXT, Prefer: 'wait=1, Return=Minimal' };
    assert.equal((await expect(204, `POST /${bucket}/s/append-batch`, { headers, body: frames('a', 'b') })).text, '');
    await expect(200, `POST /${bucket}/s/append-batch`, { headers, body: frames('a', '') });
    await expect(201, `PUT /${bucket}/j`, { headers: JSON_TYPE });
    const json = { ...JSON_TYPE, Prefer: 'return=minimal' };
    assert.deepEqual(
      results(await expect(200, `POST /${bucket}/j/append-batch`, { headers: json, body: frames('1') })),
      [ok(0, 1)],
    );
  });

  test('with producer headers the batch is one sequence, all or nothing, and repeated as it was', async () => {
    const path = `/${freshBucket()}/s`;
    const batch = `POST ${path}/append-batch`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE });
    const send = { headers: { ...JSON_TYPE, ...producer('w', 0, 0) }, body: frames('[1,2]', '3') };
    for (let i = 0; i < 2; i++) {
      const answer = await expect(200, batch, send);
      assert.deepEqual(results(answer), [ok(0, 2), ok(2, 3)], `time ${i}`);
      assertHeaders(answer, { 'producer-epoch': '0', 'producer-seq': '0' });
      assert.equal(offsetOf(answer), 6);
    }
    await expect(400, batch, { headers: { ...JSON_TYPE, ...producer('w', 0, 1) }, body: frames('4', '') });
    const gap = await expect(409, batch, { headers: { ...JSON_TYPE, ...producer('w', 0, 2) }, body: frames('4') });
    assertHeaders(gap, { 'producer-expected-seq': '1', 'producer-received-seq': '2' });
    await expect(200, `POST ${path}`, { headers: { ...JSON_TYPE, ...producer('w', 0, 1) }, body: '[4]' });
    await expect(200, batch, { headers: { ...JSON_TYPE, ...producer('w', 1, 0) }, body: frames('5') });
    const stale = await expect(409, batch, { headers: { ...JSON_TYPE, ...producer('w', 0, 3) }, body: frames('6') });
    assertHeaders(stale, { 'producer-epoch': '1' });
    await expect(400, batch, { headers: { ...JSON_TYPE, ...producer('w', 2, 1) }, body: frames('6') });
    await expect(400, batch, { headers: { ...JSON_TYPE, 'Producer-Id': 'w' }, body: frames('6') });
    await expect(400, batch, { headers: { ...TEXT, ...producer('w', 1, 1) }, body: frames('6') });
    await expect(200, `POST ${path}`, { headers: { 'Stream-Closed': 'true', ...producer('w', 1, 1) } });
    await expect(409, batch, { headers: { ...JSON_TYPE, ...producer('w', 1, 2) }, body: frames('6') });
    assert.deepEqual(results(await expect(200, batch, { headers: JSON_TYPE, body: frames('6', '') })), [
      { status: 409 },
      { status: 400 },
    ]);
    assert.equal((await expect(200, `GET ${path}?offset=-1`)).text, '[1,2,3,4,5]');
  });

  test('limits and malformed batches', async () => {
    const path = `/${freshBucket()}/s`;
    const batch = `POST ${path}/append-batch`;
    await expect(404, batch, { headers: TEXT, body: frames('a') });
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const many = Array.from({ length: 512 }, (_, i) => String(i % 10));
    assert.equal((results(await expect(200, batch, { headers: TEXT, body: frames(...many) })) as []).length, 512);
    await expect(413, batch, { headers: TEXT, body: frames(...many, 'x') });
    const bad = [[], [0], [0, 0, 0], [0, 0, 0, 2, 1], [0, 0, 0, 1, 1, 0], [255, 255, 255, 255, 1]];
    for (const bytes of bad) await expect(400, batch, { headers: TEXT, body: Uint8Array.from(bytes) });
    await expect(413, batch, { headers: TEXT, body: frames('x'.repeat(32 * 1024 * 1024)) });
    await expect(405, `GET ${path}/append-batch`);
    assert.equal(Number((await expect(200, `HEAD ${path}`)).headers.get('stream-next-offset')), 512);
    // Transferred outside the mailbox, and across many rows.
    const large = 'y'.repeat(700_000);
    await expect(200, batch, { headers: TEXT, body: frames(large, 'end') });
    const read = await expect(200, `GET ${path}?offset=700000`);
    assert.equal(read.text, `${'y'.repeat(512)}end`);
  });

  test('usage: each frame is an operation, a producer batch is one', async () => {
    const bucket = freshBucket();
    const usage = async (): Promise<unknown> => {
      const answer = await expect(200, 'GET /__svc/usage', { base: server.adminUrl });
      return (JSON.parse(answer.text) as { buckets: Record<string, unknown> }).buckets[bucket];
    };
    const headers = { ...TEXT, ...producer('p', 0, 0) };
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT });
    await expect(200, `POST /${bucket}/s/append-batch`, { headers: TEXT, body: frames('a', '', 'b'.repeat(10_241)) });
    const first = { committed_append_bytes: 10_242, committed_records: 2, committed_write_units: 4 };
    const gauges = (bytes: number): object => ({ retained_bytes: bytes, stream_count: 1 });
    assert.deepEqual(await usage(), { ...first, ...gauges(10_242) });
    for (let i = 0; i < 2; i++) {
      await expect(200, `POST /${bucket}/s/append-batch`, { headers, body: frames('a', 'b'.repeat(10_239)) });
    }
    const second = { committed_append_bytes: 20_482, committed_records: 4, committed_write_units: 5 };
    assert.deepEqual(await usage(), { ...second, ...gauges(20_482) });
  });

  test('live readers get what a batch brought', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const waiting = expect(200, `GET ${path}?offset=0&live=long-poll&timeout_ms=20000`);
    await expect(200, `POST ${path}/append-batch`, { headers: TEXT, body: frames('a', 'b') });
    assert.equal((await waiting).text, 'ab');
  });
});
