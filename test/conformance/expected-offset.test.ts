// Compare and append: Stream-Expected-Offset on every route that appends.
import assert from 'node:assert/strict';
import { type Answer, JSON_TYPE, TEXT, assertHeaders, offsetOf, producer, serverSuite } from '../support/suite.ts';

const CLOSE = { 'Stream-Closed': 'true' } as const;
const digits = (offset: number): string => String(offset).padStart(20, '0');
const expecting = (offset: number | string): Record<string, string> => ({ 'Stream-Expected-Offset': String(offset) });

/** The refusal names both offsets, and the tail is there for the next attempt. */
function assertConflict(answer: Answer, expected: number, tail: number): void {
  assert.equal(answer.status, 409, answer.text);
  assertHeaders(answer, { 'millrace-error': 'EXPECTED_OFFSET_CONFLICT', 'stream-closed': null });
  assert.equal(offsetOf(answer), tail);
  assert(answer.text.startsWith('Expected offset conflict'), answer.text);
  for (const offset of [expected, tail]) assert(answer.text.includes(digits(offset)), answer.text);
}

function batch(...frames: string[]): string {
  return frames.map((frame) => `\0\0\0${String.fromCharCode(frame.length)}${frame}`).join('');
}

serverSuite('compare and append', { cores: 2, groups: 4 }, ({ test, expect, ask, freshBucket }) => {
  test('an append takes effect only at the tail that it expects, on both families', async () => {
    const bucket = freshBucket();
    for (const path of [`/${bucket}/a`, `/v1/stream/${bucket}/b`]) {
      await expect(201, `PUT ${path}`, { headers: TEXT });
      const post = (offset: number | string, more: Record<string, string> = {}, body = 'abc'): Promise<Answer> =>
        ask(`POST ${path}`, { headers: { ...TEXT, ...expecting(offset), ...more }, body });
      assert.equal((await post(digits(0))).status, 204);
      assertConflict(await post(0), 0, 3);
      assertConflict(await post(4), 4, 3);
      assert.equal((await post('3')).status, 204, 'leading zeros say nothing');
      assert.equal((await expect(200, `GET ${path}`)).text, 'abcabc');

      for (const value of ['-1', 'now', '', 'x', '6.0', '0x6', '9007199254740992', '0'.repeat(21)]) {
        const answer = await post(value);
        assert.deepEqual([answer.status, answer.headers.get('millrace-error')], [400, 'INVALID_HEADER'], value);
        assert(answer.text.includes('Stream-Expected-Offset'), answer.text);
      }
      // It goes together with the other checks; the first that fails is told.
      assertConflict(await post(5, { 'Stream-Seq': 'a' }), 5, 6);
      assert.equal((await post(6, { 'Stream-Seq': 'a' })).status, 204);
      const behind = await post(9, { 'Stream-Seq': 'a' });
      assert.deepEqual([behind.status, behind.headers.get('millrace-error')], [409, 'SEQ_CONFLICT']);
      assert.equal((await post(8, { 'If-Match': '"0123456789abcdef"' })).status, 412);
      const other = await post(8, { 'Content-Type': 'text/html' });
      assert.equal(other.headers.get('millrace-error'), 'CONTENT_TYPE_MISMATCH');
      assert.equal(
        (await ask(`POST ${path}-absent`, { headers: { ...TEXT, ...expecting(0) }, body: 'x' })).status,
        404,
      );

      assertConflict(await ask(`POST ${path}`, { headers: { ...expecting(8), ...CLOSE } }), 8, 9);
      assertConflict(await post(8, CLOSE), 8, 9);
      await expect(204, `POST ${path}`, { headers: { ...expecting(9), ...CLOSE } });
      // Closed wins over a mismatch.
      for (const offset of [0, 9]) {
        const late = await post(offset);
        assert.equal(late.status, 409);
        assertHeaders(late, { 'millrace-error': 'STREAM_CLOSED', 'stream-closed': 'true' });
      }
      // Done already, on the flat routes, only where the stream was closed at this offset.
      for (const offset of [undefined, 9, 0, 8, 10]) {
        const again = await ask(`POST ${path}`, {
          headers: { ...(offset === undefined ? {} : expecting(offset)), ...CLOSE },
        });
        const isDone = path.startsWith('/v1/') && (offset ?? 9) === 9;
        assert.equal(again.status, isDone ? 204 : 409, `${path} ${offset}`);
        assertHeaders(again, { 'stream-closed': 'true', 'millrace-error': isDone ? null : 'STREAM_CLOSED' });
        assert.equal(offsetOf(again), 9);
      }
    }
  });

  test("a producer's duplicate is answered as one, and a conflict uses up no sequence", async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE });
    const post = (seq: number, offset: number, more = {}): Promise<Answer> =>
      ask(`POST ${path}`, {
        headers: { ...JSON_TYPE, ...producer('p', 0, seq), ...expecting(offset), ...more },
        body: '{"n":1}',
      });
    assert.equal((await post(0, 0)).status, 200);
    const repeated = await post(0, 0);
    assert.deepEqual([repeated.status, offsetOf(repeated)], [204, 8]);
    assertConflict(await post(1, 0), 0, 8);
    const gap = await post(2, 8);
    assert.deepEqual([gap.status, gap.headers.get('millrace-error')], [409, 'PRODUCER_SEQ_CONFLICT']);
    assert.equal((await post(1, 8, { 'Stream-Record-Match': '0' })).status, 412);
    assert.equal((await post(1, 8, { ...CLOSE, 'Stream-Record-Match': '1' })).status, 200);
    assert.equal((await post(1, 0)).status, 204, 'a duplicate, also on the closed stream');
    const late = await post(2, 0);
    assertHeaders(late, { 'millrace-error': 'STREAM_CLOSED' });
    assert.equal((await expect(200, `GET ${path}`)).text, '[{"n":1},{"n":1}]');
  });

  test('a batch expects the offset of its first frame, and a conflict writes nothing', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const post = (offset: number, more: Record<string, string> = {}, body = batch('ab', 'c')): Promise<Answer> =>
      ask(`POST ${path}/append-batch`, { headers: { ...TEXT, ...expecting(offset), ...more }, body });
    const taken = await post(0);
    assert.deepEqual([taken.status, taken.text], [200, '[{"status":204},{"status":204}]']);
    assertConflict(await post(0), 0, 3);
    assertConflict(await post(0, { Prefer: 'return=minimal' }), 0, 3);
    const partly = await post(3, {}, batch('d', '', 'e'));
    assert.equal(partly.text, '[{"status":204},{"status":400},{"status":204}]');
    const p = producer('p', 0, 0);
    assertConflict(await post(3, p), 3, 5);
    assert.equal((await post(5, p)).status, 200);
    assert.equal((await post(5, p)).status, 200, 'a duplicate');
    await expect(204, `POST ${path}`, { headers: { ...expecting(8), ...CLOSE } });
    assert.equal((await post(0)).text, '[{"status":409},{"status":409}]', 'closed wins over a mismatch');
    assert.equal((await expect(200, `GET ${path}`)).text, 'abcdeabc');
    await expect(400, `POST ${path}/append-batch`, { headers: { ...TEXT, ...expecting('x') }, body: batch('a') });
  });

  test('no later frame of a batch takes the place of the first at the expected offset', async () => {
    const bucket = freshBucket();
    const path = `/${bucket}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const post = async (offset: number | undefined, body: string, more = {}): Promise<string> => {
      const headers = { ...TEXT, ...(offset === undefined ? {} : expecting(offset)), ...more };
      const answer = await expect(200, `POST ${path}/append-batch`, { headers, body });
      return `${answer.text} ${offsetOf(answer)}`;
    };
    assert.equal(await post(0, batch('', 'a', 'b')), '[{"status":400},{"status":400},{"status":400}] 0');
    assert.equal(await post(undefined, batch('', 'a')), '[{"status":400},{"status":204}] 1');
    // Behind a first frame that came in, each is on its own.
    assert.equal(await post(1, batch('b', '', 'c')), '[{"status":204},{"status":400},{"status":204}] 3');
    assert.equal((await expect(200, `GET ${path}`)).text, 'abc');
  });

  test('a fork compares its own tail', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT, body: 'abcd' });
    const fork = `${path}-fork`;
    await expect(201, `PUT ${fork}`, { headers: { 'Stream-Forked-From': path, 'Stream-Fork-Offset': digits(4) } });
    await expect(204, `POST ${path}`, { headers: { ...TEXT, ...expecting(4) }, body: 'source' });
    assertConflict(await ask(`POST ${fork}`, { headers: { ...TEXT, ...expecting(10) }, body: 'x' }), 10, 4);
    await expect(204, `POST ${fork}`, { headers: { ...TEXT, ...expecting(4) }, body: 'fork' });
    assert.equal((await expect(200, `GET ${fork}`)).text, 'abcdfork');
  });

  test('other writes refuse it, and pages of other origins may send it', async () => {
    const path = `/${freshBucket()}/s`;
    for (const [method, target] of [
      ['PUT', path],
      ['DELETE', path],
      ['PUT', `${path}/attrs`],
      ['PUT', `${path}/snapshot/0`],
    ] as const) {
      const body = method === 'DELETE' ? {} : { body: '{}' };
      const answer = await expect(400, `${method} ${target}`, { headers: { ...JSON_TYPE, ...expecting(0) }, ...body });
      assertHeaders(answer, { 'millrace-error': 'INVALID_HEADER' });
    }
    const preflight = { Origin: 'http://localhost:1', 'Access-Control-Request-Method': 'POST' };
    const answer = await expect(204, `OPTIONS ${path}`, { headers: preflight });
    assert(answer.headers.get('access-control-allow-headers')?.includes('Stream-Expected-Offset'));
  });

  test('a large body that comes too late leaves nothing behind', async () => {
    const path = `/${freshBucket()}/s`;
    await expect(201, `PUT ${path}`, { headers: TEXT });
    const body = new Uint8Array(3 * 1024 * 1024).fill(0x61);
    const post = (): Promise<Answer> => ask(`POST ${path}`, { headers: { ...TEXT, ...expecting(0) }, body });
    const statuses = (await Promise.all([post(), post(), post()])).map(({ status }) => status);
    assert.deepEqual(
      statuses.sort((a, b) => a - b),
      [204, 409, 409],
    );
    assert.equal(offsetOf(await expect(200, `HEAD ${path}`)), body.length);
  });
});
