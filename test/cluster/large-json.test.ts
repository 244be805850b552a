// Large JSON bodies are checked by a pool of the node that takes them. The answers are those of small bodies, through
// the leader and through a follower, and so are the records.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { JSON_POOLED_BYTES_MIN, RECORDS_PER_REQUEST_MAX } from '../../src/base/limits.ts';
import { withCluster } from '../support/cluster.ts';
import { RawClient } from '../support/raw-client.ts';

const JSON_TYPE = { 'Content-Type': 'application/json' } as const;
const TEXT_TYPE = { 'Content-Type': 'text/plain' } as const;
/** White space behind a body changes neither its records nor the place of its fault. */
const PADDING = ' '.repeat(JSON_POOLED_BYTES_MIN);

/** Requests by name: method, stream, body, more headers. */
const REQUESTS: Readonly<Record<string, readonly [string, string, string, Readonly<Record<string, string>>?]>> = {
  records: ['POST', 'good', '[ {"a": 1.0}, "x\\u00e9" , [1, 2] ]'],
  'one record': ['POST', 'good', '{ "one" : 1e2 }'],
  'bad JSON': ['POST', 'good', '[1, 2,, 3]'],
  'bad UTF-8 in words': ['POST', 'good', '["\\ud800" oops]'],
  'no record': ['POST', 'good', '[ ]'],
  'too many records': ['POST', 'good', `[${'0,'.repeat(RECORDS_PER_REQUEST_MAX)}0]`],
  'a stream that is not there': ['POST', 'missing', '[1]'],
  'bad JSON for a stream that is not there': ['POST', 'missing', '[1;'],
  'a closed stream': ['POST', 'closed', '[1]'],
  'bad JSON for a closed stream': ['POST', 'closed', '{"a" 1}'],
  'another type': ['POST', 'text', '[1]'],
  'bad JSON of another type': ['POST', 'text', '[1;'],
  'a sequence that is too low': ['POST', 'good', '[1]', { 'Stream-Seq': '0' }],
  'a stream that begins with records': ['PUT', 'new', '[1, {"two": 2}]'],
  'a stream that begins without': ['PUT', 'empty', '[ ]'],
};

test('large JSON bodies are taken and refused as small ones are, through any node', async () => {
  await withCluster({ groups: 1 }, async (cluster) => {
    const leader = await cluster.leaderOf(0);
    const follower = cluster.ids.find((id) => id !== leader) as number;
    const said: Record<string, unknown>[] = [];
    for (const [bucket, id, padding] of [
      ['small', leader, ''],
      ['large', leader, PADDING],
      ['forwarded', follower, PADDING],
    ] as const) {
      const client = await RawClient.connect(cluster.node(id).port);
      const ask = async (method: string, stream: string, type: object, body = ''): Promise<unknown> => {
        const {
          status,
          headers,
          body: answer,
        } = await client.request(method, `/${bucket}/${stream}`, { ...type }, Buffer.from(body));
        const text = answer
          .toString()
          .replaceAll(bucket, 'bucket')
          .replace(/"requestId":"[^"]*"/i, '');
        return [status, headers.get('stream-next-offset'), headers.get('millrace-error'), text];
      };
      await ask('PUT', 'good', { ...JSON_TYPE });
      await ask('POST', 'good', { ...JSON_TYPE, 'Stream-Seq': '5' }, '["first"]');
      await ask('PUT', 'closed', { ...JSON_TYPE, 'Stream-Closed': 'true' });
      await ask('PUT', 'text', TEXT_TYPE);
      const answers: Record<string, unknown> = {};
      for (const [what, [method, stream, body, headers]] of Object.entries(REQUESTS)) {
        answers[what] = await ask(method, stream, { ...JSON_TYPE, ...headers }, body + padding);
      }
      for (const stream of ['good', 'new', 'empty']) {
        answers[`records of ${stream}`] = await ask('GET', `${stream}?offset=-1`, {});
      }
      client.destroy();
      said.push(answers);
    }
    const [small, large, forwarded] = said;
    assert.deepEqual(large, small);
    assert.deepEqual(forwarded, small);
    const refused = Object.values(small ?? {}).filter((answer) => Number((answer as [number])[0]) >= 400);
    assert(refused.length >= 8, `${refused.length} refusals`);
  });
});
