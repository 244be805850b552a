// `millracectl restart` over a real cluster: clients keep writing and reading meanwhile, and notice nothing but 503s
// that they may repeat and connections that end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HostAgent } from '../support/host-agent.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { tried } from '../support/tries.ts';
import { until } from '../support/until.ts';
import { type CtlResult, clusterToml, ctl, scratchFile, spawnCtl } from '../support/ctl.ts';
import { requestOnce } from '../support/raw-client.ts';
import { GROUPS, count, underLoad } from './under-load.ts';

const PACE = ['--poll-interval-secs', '0.2'];

async function shed(cluster: TestCluster, id: number): Promise<string> {
  const answer = await requestOnce(cluster.node(id).adminPort, 'GET', '/__svc/leadership-shed');
  return (JSON.parse(answer.body.toString('utf8')) as { state: string }).state;
}

test('a rolling restart under load loses no acknowledged write, also when the tool is killed half-way', async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const agent = await HostAgent.start(cluster);
    const file = scratchFile('cluster.toml', clusterToml(cluster));
    const command = ['restart', '--config', file, '--restart-cmd', agent.command, ...PACE];
    try {
      await underLoad('rolling restart', cluster, 71, async (load, faults) => {
        // The tool dies while node 2, the first of three, is stopping.
        const killed = spawnCtl([...command, '--only', '2,1,3']);
        agent.onRestart = () => killed.child.kill('SIGKILL');
        assert.equal(await killed.ended, 'SIGKILL', killed.stderr);
        agent.onRestart = () => undefined;
        await agent.idle;
        await until('node 2 answers again', async () => (await shed(cluster, 2)) === 'maintenance-drain');
        agent.restarted.length = 0;
        const again = await ctl(command);
        assert.equal(again.code, 0, again.stderr);
        assert.match(again.stderr, /^node 2: has the mark of an earlier run, so it goes first$/m);
        assert.deepEqual(agent.restarted, [2, 1, 3]);
        const lines = again.stdout.trim().split('\n');
        for (const [at, id] of agent.restarted.entries())
          assert.match(lines[at] as string, new RegExp(`^node ${id}: restarted \\(drained in`));
        assert.equal(lines.at(-1), 'restart complete: 3 node(s)');
        count(faults, 'tool killed');
        for (const id of cluster.ids) count(faults, `restart of node ${id}`);
        for (const id of cluster.ids) assert.equal(await shed(cluster, id), 'none');
        const seen = [...load.statuses.keys()].filter((status) => ![200, 204, 503].includes(status));
        assert.deepEqual(seen, [], 'clients see no error but a 503 that they may repeat');
      });
    } finally {
      await agent.idle;
      agent.close();
    }
  });
});

test('a rollout that cannot go on stops, cleans up and says where it is', async () => {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const agent = await HostAgent.start(cluster);
    const file = scratchFile('cluster.toml', `${clusterToml(cluster)}\n[provider]\nrestart_cmd = '${agent.command}'\n`);
    const run = (...flags: string[]): Promise<CtlResult> => ctl(['restart', '--config', file, ...PACE, ...flags]);
    try {
      const dry = await run('--dry-run', '--only', '3,1');
      assert.equal(dry.code, 0, dry.stderr);
      const planned = dry.stdout.split('\n').filter((line) => line.includes('would run'));
      assert.deepEqual(
        planned,
        [3, 1].map((id) => `node ${id}: would run: ${agent.command.replace('{node_id}', String(id))}`),
      );
      assert.deepEqual(agent.restarted, []);

      await tried(async () => {
        const failing = await run('--restart-cmd', 'echo unit of {host} {node_id} not found >&2; exit 4');
        assert.equal(failing.code, 2);
        assert.match(
          failing.stderr,
          /^node 1: ABORTED \(the restart command ended with 4: unit of 127\.0\.0\.1 1 not found\); its drain mark was lifted; no node was restarted before it; go on with --only 1,2,3$/m,
        );
        assert.equal(failing.stdout, '');
        assert.equal(await shed(cluster, 1), 'none');
      });

      // A command that is content without having restarted anything.
      await tried(async () => {
        const idle = await run('--restart-cmd', 'true {node_id}', '--only', '2', '--stall-timeout-secs', '1');
        assert.equal(idle.code, 2);
        assert.match(
          idle.stderr,
          /no progress for 1 s: node 2 still runs the process from before the restart command\); its drain mark was lifted/,
        );
        assert.equal(await shed(cluster, 2), 'none');
      });

      // Another rollout, or one that was killed, has its mark on another node: never two are down.
      const mark = `${cluster.node(1).adminUrl}/__svc/leadership-shed/maintenance`;
      await fetch(mark, { method: 'POST' });
      await tried(async () => {
        const second = await run('--only', '2');
        assert.equal(second.code, 2);
        assert.match(
          second.stderr,
          /^node 2: ABORTED \(node 1 is marked for maintenance too, by another run or one that was killed: wait for it, or undrain --node 1\); its drain mark was lifted; /m,
        );
      });
      assert.deepEqual([agent.restarted, await shed(cluster, 2)], [[], 'none']);
      await fetch(mark, { method: 'DELETE' });

      // Ctrl-C while the command runs: the node was not touched yet.
      const begun = spawnCtl([
        'restart',
        '--config',
        file,
        ...PACE,
        '--restart-cmd',
        'echo begun; sleep 60 {node_id}',
        '--only',
        '2',
      ]);
      await until('the command runs', async () => /^begun$/m.test(begun.stderr));
      begun.child.kill('SIGHUP');
      assert.equal(await begun.ended, 2);
      assert.match(
        begun.stderr,
        /^node 2: ABORTED \(interrupted while the restart command ran, so the node may be down\); its drain mark was lifted/m,
      );
      assert.equal(await shed(cluster, 2), 'none');

      // One that stops the node and does not start it: the mark is on its disk and cannot be lifted.
      const dead = await run('--restart-cmd', agent.commandToStop, '--only', '3', '--stall-timeout-secs', '1');
      assert.equal(dead.code, 2);
      assert.match(
        dead.stderr,
        /^node 3: ABORTED \(no progress for 1 s: node 3: .* cannot be reached .*\); its drain mark may still be set, because .* run undrain --node 3 when it answers; no node was restarted before it; go on with --only 3$/m,
      );
      await cluster.restart(3);
      assert.equal(await shed(cluster, 3), 'maintenance-drain');

      // The rest of the rollout, with the command from the cluster file.
      const rest = await run('--only', '3');
      assert.equal(rest.code, 0, rest.stderr);
      assert.match(rest.stdout, /^node 3: restarted \(.*\)\nrestart complete: 1 node\(s\)\n$/);
      assert.deepEqual(agent.restarted, [3]);
      assert.equal(await shed(cluster, 3), 'none');

      // With half of the nodes silent nothing is restarted.
      await cluster.end(2);
      const refused = await run('--only', '1', '--ready-timeout-secs', '1');
      assert.equal(refused.code, 2);
      assert.match(
        refused.stderr,
        /^node 1: ABORTED \(the cluster is not ready within 1 s: node 2: .*; nothing was changed\)/m,
      );
      assert.equal(await shed(cluster, 1), 'none');
    } finally {
      await agent.idle;
      agent.close();
    }
  });
});
