// A bootstrap holds its snapshot until the first read has been answered: counted with what waits for slow clients, and
// given back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PATIENCE_MS, until } from '../support/until.ts';
import { startPlanes } from './planes.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

const MIB = 1024 * 1024;
/** Bound of what may wait in a process (unsent.ts). */
const BOUND = 128;

test('snapshots that wait for the first read are bounded together, and leave with their readers', async (t) => {
  const { gateway, client, planes } = await startPlanes(t);
  let tail = 10;
  gateway.script = (asked, reply) => {
    if (asked.op !== QUERIES.snapshot.number) return false;
    QUERIES.snapshot.result.write(reply, {
      offset: 0,
      incarnation: 1,
      size: MIB,
      digest: 'digest',
      bytes: new Uint8Array(MIB),
    });
    reply.contentType = 'text/plain';
    reply.nextOffset = tail;
    return true;
  };
  const leaving = new AbortController();
  const url = `${client}/b/s/bootstrap`;
  const waiting = Array.from({ length: BOUND }, () => fetch(url, { signal: leaving.signal }).catch(() => undefined));
  await until('all reads are under way', () => Promise.resolve(gateway.heldCount === BOUND));
  const refused = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1'], await refused.text());
  leaving.abort();
  await Promise.all(waiting);
  await until('they are forgotten', () => Promise.resolve(planes.openRequests() === 0));
  tail = 0;
  const answer = await fetch(url);
  assert.equal(answer.status, 200);
  assert.ok((await answer.text()).length > MIB);
});
