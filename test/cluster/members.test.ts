// A voter is replaced by two commands of the tool, with writes going on and a dead node as well; of two drains one is
// refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { type CtlResult, clusterToml, ctl, scratchFile } from '../support/ctl.ts';

const GROUPS = 4;
const TEXT = { 'Content-Type': 'text/plain' } as const;

function toolFor(cluster: TestCluster, ids: readonly number[]): (...args: string[]) => Promise<CtlResult> {
  const file = scratchFile('cluster.toml', clusterToml(cluster, ids));
  return (...args) => ctl([...args, '--config', file]);
}

function done(result: CtlResult, stdout: RegExp): void {
  assert.equal(result.code, 0, result.stderr);
  assert.match(result.stdout, stdout);
}

function refused(result: CtlResult, stderr: RegExp): void {
  assert.equal(result.code, 1, result.stdout);
  // The output before it is progress.
  assert.match(result.stderr.trimEnd().split('\n').at(-1) ?? '', stderr);
}

test('a voter is replaced by two commands, and a dead one as well', async () => {
  await withCluster({ groups: GROUPS, spares: 2 }, async (cluster) => {
    await cluster.client(2).create('/demo/log', TEXT, 'before\n');
    cluster.configure(4, false, [1, 2, 3, 4]);
    await cluster.node(4).start('health');
    const ctlOf = toolFor(cluster, [1, 2, 3, 4]);
    done(await ctlOf('members'), /^node 1: voter of all 4 groups\nnode 2: .*\nnode 3: voter of all 4 groups\n$/);

    const address = `127.0.0.1:${cluster.clusterPort(4)}`;
    done(await ctlOf('add-member', '--node', '4', '--addr', address), /^node 4: voter of all 4 groups\n$/);
    done(await ctlOf('add-member', '--node', '4', '--addr', address), /^node 4: voter of all 4 groups\n$/);
    done(await ctlOf('remove-member', '--node', '1'), /^node 1: no member of any of 4 groups; stop it/);
    await cluster.client(2).append('/demo/log', TEXT, 'meanwhile\n');
    await cluster.end(1);
    await cluster.settled([2, 3, 4]);
    done(await ctlOf('members'), /^node 2: voter of all 4 groups\nnode 3: .*\nnode 4: voter of all 4 groups\n$/);

    // One that died is replaced in the same way: out first, so that the rest is a majority of what is left.
    await cluster.end(3);
    await cluster.ready([2, 4]);
    done(await ctlOf('remove-member', '--node', '3'), /^node 3: no member of any of 4 groups/);
    const json = await ctlOf('members', '--json');
    assert.deepEqual(JSON.parse(json.stdout), {
      members: [2, 4].map((id) => ({ node_id: id, voter_of: [0, 1, 2, 3], learner_of: [] })),
    });
    // With one more gone nothing could be decided any more.
    await cluster.end(4);
    refused(
      await ctlOf('remove-member', '--node', '2', '--timeout-secs', '10'),
      /^millracectl: without node 2 the voters of group \d are 4, and most of them do not answer: the group would stop$/,
    );
    await cluster.restart(4);
    await cluster.ready([2, 4]);
    await until('both lines are there', async () => {
      const read = await cluster.client(2).request('GET', '/demo/log?offset=-1');
      return read.status === 200 && read.body.toString() === 'before\nmeanwhile\n';
    });
  });
});

test('a second node is not drained while another one is marked, unless forced; status tells drained from draining', async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const ctlOf = toolFor(cluster, cluster.ids);
    const quick = ['--poll-interval-secs', '0.2'];
    done(await ctlOf('drain', '--node', '1', ...quick), /^node 1: drained/);
    // One that an election gives it is handed over too.
    await until('status shows the node as drained', async () => {
      return /\n1 +127\.0\.0\.1 +drained +0 /.test((await ctlOf('status')).stdout);
    });
    refused(
      await ctlOf('drain', '--node', '2', ...quick),
      /node 1 is marked for maintenance already, .* undrain --node 1 first, or give --force; nothing was changed$/,
    );
    done(await ctlOf('drain', '--node', '2', '--force', ...quick), /^node 2: drained/);
    done(await ctlOf('undrain', '--node', '1'), /cleared/);
    done(await ctlOf('undrain', '--node', '2'), /cleared/);
  });
});
