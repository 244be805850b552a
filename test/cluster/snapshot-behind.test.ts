// A node that takes its snapshot more slowly than the group is written: what the leader keeps for it is bounded, and it
// is told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TOO_FAR_BEHIND } from '../../src/shard/outgoing-group-snapshots.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const TEXT = { 'Content-Type': 'text/plain' } as const;
/** Far more than the 4 MiB of log that slow followers are left. */
const STATE_BYTES = 16 * MIB;
const THIN_BYTES_PER_SECOND = 100_000;
/**
 * A node may be so far behind while it gets a snapshot (log-pins.ts), and one turn may add so much before that is seen.
 */
const KEPT_BYTES_MAX = 64 * MIB + 16 * MIB;
const MEMORY_BYTES_MAX = 8 * MIB;
/** Rounds of 8 MiB each, under one leader: twice what may be kept. */
const ROUNDS_MAX = 20;

async function write(cluster: TestCluster, id: number, name: string, bytes: number): Promise<void> {
  const path = `/behind/${name}`;
  await cluster.client(id).create(path, TEXT);
  for (let left = bytes; left > 0; left -= MIB) {
    await cluster.client(id).append(path, TEXT, Buffer.alloc(MIB, name));
  }
}

interface Seen {
  readonly keptBytes: number;
  readonly memoryBytes: number;
  readonly tooFarBehind: number;
}

async function look(cluster: TestCluster, id: number): Promise<Seen> {
  const metrics = await cluster.metrics(id);
  const [group] = metrics['raft_groups'] as readonly { readonly log_bytes: number }[];
  return {
    keptBytes: group?.log_bytes ?? NaN,
    memoryBytes: metrics['log_memory_bytes'] as number,
    tooFarBehind: metrics['group_snapshots_too_far_behind'] as number,
  };
}

test('a transfer that falls too far behind ends with a reason, and succeeds when the node takes more', async () => {
  await withCluster({ groups: 1, network: true }, async (cluster) => {
    await cluster.end(3);
    await cluster.ready([1, 2]);
    const leader = await cluster.leaderOf(0);
    await write(cluster, leader, 'before', STATE_BYTES);
    for (const id of [1, 2]) cluster.network.limit(id, 3, THIN_BYTES_PER_SECOND);
    await cluster.restart(3);
    await until('a snapshot is on its way', async () => /receiving a snapshot/.test(cluster.node(3).log()));
    let kept = 0;
    let ender: number | undefined;
    let sinceChange = 0;
    let terms = '';
    let rounds = 0;
    for (; ender === undefined; sinceChange++) {
      await write(cluster, leader, `during${rounds++}`, 8 * MIB);
      for (const id of [1, 2]) {
        const seen = await look(cluster, id);
        kept = Math.max(kept, seen.keptBytes);
        assert(seen.keptBytes <= KEPT_BYTES_MAX, `${seen.keptBytes} bytes of log are kept`);
        assert(seen.memoryBytes <= MEMORY_BYTES_MAX, `${seen.memoryBytes} bytes of log are in memory`);
        if (seen.tooFarBehind > 0) ender = id;
      }
      // Each leader begins a transfer of its own.
      const termsNow = String(await cluster.terms());
      if (termsNow !== terms) sinceChange = 0;
      terms = termsNow;
      assert(sinceChange < ROUNDS_MAX && rounds < 10 * ROUNDS_MAX, 'the transfer ends');
    }
    assert(kept > MEMORY_BYTES_MAX, 'the log was kept for the node');
    await until('the reason is told', () => cluster.node(ender).log().includes(TOO_FAR_BEHIND));
    // The state that has to come after that is the one from before.
    for (let n = 0; n < rounds; n++) await cluster.client(leader).delete(`/behind/during${n}`);
    cluster.network.heal();
    await until('the node hears that it is over', async () =>
      /ended before all of it was here/.test(cluster.node(3).log()),
    );
    await cluster.ready(cluster.ids);
    await cluster.settled(cluster.ids);
    await until('the log is let go of', async () =>
      (await Promise.all([1, 2].map((id) => look(cluster, id)))).every(
        ({ keptBytes }) => keptBytes <= MEMORY_BYTES_MAX,
      ),
    );
  });
});
