// Bytes that wait for a majority are bounded: while both followers are silent, the leader accepts what the bound allows
// and refuses the rest immediately. It recovers when they answer again.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient } from '../support/raw-client.ts';

const WRITERS = 8;
const BODY = Buffer.alloc(512 * 1024, 'x');
const BOUND_BODIES = 2;
const TYPE = { 'Content-Type': 'text/plain' } as const;
const REFUSAL = /wait for a majority/;

interface Outcome {
  readonly statuses: readonly number[];
  readonly refused: number;
  /** As the leader counts. */
  readonly counted: number;
}

/** Undefined: the leader noticed that it is alone, or had lost its office, before the writes came to it. */
async function writeAlone(cluster: TestCluster, leader: number): Promise<Outcome | undefined> {
  const { port } = cluster.node(leader);
  const refusals = async (): Promise<number> => (await cluster.metrics(leader))['raft_uncommitted_refusals'] as number;
  const clients = await Promise.all(Array.from({ length: WRITERS }, () => RawClient.connect(port)));
  const before = await refusals();
  const others = cluster.ids.filter((id) => id !== leader);
  for (const id of others) cluster.pause(id);
  let refused = 0;
  let answered = 0;
  const writes = clients.map(async (client) => {
    const answer = await client.request('POST', '/b/s', TYPE, BODY);
    answered++;
    if (REFUSAL.test(answer.body.toString())) {
      assert.deepEqual([answer.status, answer.headers.get('retry-after')], [503, '1']);
      refused++;
    }
    return answer.status;
  });
  try {
    await until('refusals, or no leader', async () => refused >= WRITERS - BOUND_BODIES || answered === WRITERS);
    const isBounded = refused >= WRITERS - BOUND_BODIES;
    const counted = (await refusals()) - before;
    const seen = refused;
    for (const id of others) cluster.resume(id);
    const statuses = await Promise.all(writes);
    return isBounded ? { statuses, refused: seen, counted } : undefined;
  } finally {
    for (const id of others) cluster.resume(id);
    for (const client of clients) client.destroy();
  }
}

test('writes beyond the bound of uncommitted bytes are refused at once while no majority answers', async () => {
  const raft = `max_uncommitted_size_per_group = "1 MiB"`;
  await withCluster({ process: true, groups: 1, raft }, async (cluster) => {
    await cluster.client(1).create('/b/s', TYPE);
    let outcome: Outcome | undefined;
    await until('writes that come to a leader without a majority', async () => {
      await cluster.ready();
      outcome = await writeAlone(cluster, await cluster.leaderOf(0));
      return outcome !== undefined;
    });
    assert(outcome !== undefined);
    assert.equal(outcome.counted, outcome.refused);
    for (const status of outcome.statuses) assert(status === 204 || status === 503);
    await cluster.client(1).append('/b/s', TYPE, BODY);
  });
});
