import assert from 'node:assert/strict';
import { RawClient } from '../support/raw-client.ts';

export const MIB = 1024 * 1024;
export const LARGE_BODY = Buffer.alloc(MIB, 'Millrace.');

/** `/large/stream` with a multiple of LARGE_BODY. */
export async function writeLargeStream(port: number, mebibytes: number): Promise<void> {
  const client = await RawClient.connect(port);
  const type = { 'content-type': 'text/plain' };
  assert.equal((await client.request('PUT', '/large/stream', type)).status, 201);
  for (let i = 0; i < mebibytes; i++) {
    const answer = await client.request('POST', '/large/stream', type, LARGE_BODY);
    assert.equal(answer.status, 204, answer.body.toString());
  }
  client.destroy();
}
