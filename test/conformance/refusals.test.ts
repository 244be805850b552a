// Refusals name both sides of a mismatch, for people, and carry a code, for programs: Millrace-Error. That every
// refusal has a code is asserted by the suite's own `ask`, for all files that use it.
import assert from 'node:assert/strict';
import { JSON_TYPE, TEXT, producer, serverSuite, type Ask } from '../support/suite.ts';

interface Refusal {
  readonly code: string;
  readonly bucketed: number;
  readonly flat: number;
  readonly target: string;
  readonly ask: Ask;
  /** The request's side and the stream's. */
  readonly says: RegExp;
}

const CLOSE = { 'Stream-Closed': 'true' } as const;

/** Against streams that `prepare` makes: `text`, `json`, `untyped`, `closed`. */
const REFUSALS: readonly Refusal[] = [
  {
    code: 'CONTENT_TYPE_MISMATCH',
    bucketed: 400,
    flat: 409,
    target: 'POST json',
    ask: { headers: TEXT, body: 'x' },
    says: /: text\/plain, the stream is application\/json$/m,
  },
  {
    code: 'SEQ_CONFLICT',
    bucketed: 409,
    flat: 409,
    target: 'POST text',
    ask: { headers: { ...TEXT, 'Stream-Seq': '04' }, body: 'x' },
    says: /^Sequence conflict: .*: "04" does not come after "05"$/m,
  },
  {
    code: 'CREATE_CONFLICT',
    bucketed: 409,
    flat: 409,
    target: 'PUT text',
    ask: { headers: { ...JSON_TYPE, 'Stream-TTL': '60', ...CLOSE, 'Stream-Attrs': '{"title":"x"}' } },
    says: /: Content-Type is application\/json, the stream is text\/plain; the stream is open, the request closes it; Stream-TTL is 60 s, the stream has none; Stream-Attrs differ$/m,
  },
  {
    code: 'CREATE_CONFLICT',
    bucketed: 409,
    flat: 409,
    target: 'PUT untyped',
    ask: { headers: { 'Stream-TTL': '60' } },
    says: /: Stream-TTL is 60 s, the stream has none$/m,
  },
  {
    code: 'PRODUCER_EPOCH_STALE',
    bucketed: 409,
    flat: 403,
    target: 'POST text',
    ask: { headers: { ...TEXT, ...producer('p', 2, 0) }, body: 'x' },
    says: /: received 2, the last accepted is 3$/m,
  },
  {
    code: 'PRODUCER_EPOCH_START',
    bucketed: 400,
    flat: 400,
    target: 'POST text',
    ask: { headers: { ...TEXT, ...producer('p', 4, 7) }, body: 'x' },
    says: /: epoch 4 began with 7$/m,
  },
  {
    code: 'PRODUCER_SEQ_CONFLICT',
    bucketed: 409,
    flat: 409,
    target: 'POST text',
    ask: { headers: { ...TEXT, ...producer('p', 3, 9) }, body: 'x' },
    says: /: received 9, expected 1$/m,
  },
  {
    code: 'RECORD_PRECONDITION_FAILED',
    bucketed: 412,
    flat: 412,
    target: 'POST json',
    ask: { headers: { ...JSON_TYPE, 'Stream-Record-Match': '5' }, body: '{}' },
    says: /: Stream-Record-Match is 5, the record tail is 2$/m,
  },
  {
    code: 'OFFSET_OUT_OF_RANGE',
    bucketed: 416,
    flat: 416,
    target: 'GET text?offset=00000000000000000100',
    ask: {},
    says: /: the tail is 5$/m,
  },
  { code: 'STREAM_NOT_FOUND', bucketed: 404, flat: 404, target: 'GET none', ask: {}, says: /not found/ },
  { code: 'INVALID_QUERY', bucketed: 400, flat: 400, target: 'GET text?offset=abc', ask: {}, says: /offset/ },
];

serverSuite('refusals', { cores: 1 }, ({ test, expect, freshBucket }) => {
  const prepare = async (): Promise<string> => {
    const bucket = freshBucket();
    const writer = { ...TEXT, ...producer('p', 3, 0), 'Stream-Seq': '05' };
    await expect(201, `PUT /${bucket}/text`, { headers: TEXT });
    await expect(200, `POST /${bucket}/text`, { headers: writer, body: 'hello' });
    await expect(201, `PUT /${bucket}/json`, { headers: JSON_TYPE, body: '[1,2]' });
    await expect(201, `PUT /${bucket}/untyped`);
    await expect(201, `PUT /${bucket}/closed`, { headers: { ...TEXT, ...CLOSE } });
    return bucket;
  };

  for (const { code, bucketed, flat, target, ask, says } of REFUSALS) {
    test(`${code}: ${target}`, async () => {
      const bucket = await prepare();
      const [method, path] = target.split(' ');
      for (const [status, prefix] of [
        [bucketed, ''],
        [flat, '/v1/stream'],
      ] as const) {
        const answer = await expect(status, `${method} ${prefix}/${bucket}/${path}`, ask);
        assert.equal(answer.headers.get('millrace-error'), code);
        assert.match(answer.text, says);
      }
    });
  }

  test('a second producer that closes a closed stream learns that another one closed it, on both families', async () => {
    const bucket = await prepare();
    for (const prefix of ['', '/v1/stream']) {
      const path = `${prefix}/${bucket}/${prefix === '' ? 'one' : 'two'}`;
      await expect(201, `PUT ${path}`, { headers: TEXT });
      const closes = (id: string): Ask => ({ headers: { ...CLOSE, ...producer(id, 0, 0) } });
      await expect(prefix === '' ? 200 : 204, `POST ${path}`, closes('first'));
      const again = await expect(204, `POST ${path}`, closes('first'));
      assert.equal(again.headers.get('stream-closed'), 'true', 'the duplicate of the closing request');
      const second = await expect(409, `POST ${path}`, closes('second'));
      assert.equal(second.headers.get('stream-closed'), 'true');
      assert.equal(second.headers.get('millrace-error'), 'STREAM_CLOSED');
    }
    // Without a producer: an error here, done already there.
    await expect(409, `POST /${bucket}/closed`, { headers: CLOSE });
    await expect(204, `POST /v1/stream/${bucket}/closed`, { headers: CLOSE });
  });

  test('a long value is cut where it is shown, and stays out of the headers', async () => {
    const bucket = await prepare();
    const headers = { ...TEXT, 'Stream-Seq': `0${'1'.repeat(3000)}` };
    const answer = await expect(409, `POST /${bucket}/text`, { headers, body: 'x' });
    assert(answer.text.length < 400, answer.text);
  });
});
