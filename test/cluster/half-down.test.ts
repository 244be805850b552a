// Half of the nodes are gone, so no group has a majority: every verb says so in a sentence, with the right exit code.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { tried } from '../support/tries.ts';
import { until } from '../support/until.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const GROUPS = 3;
const PACE = ['--poll-interval-secs', '0.1'];

/** Verb and flags, exit code, what is on stdout, the last line on stderr. */
type Case = readonly [string, number, RegExp, RegExp];

const NOTHING = /^$/;
const RESTART = ['--restart-cmd', 'exit 9; {node_id}'];

async function killHalf(cluster: TestCluster): Promise<void> {
  const [alive, dead] = [cluster.ids.slice(0, cluster.ids.length / 2), cluster.ids.slice(cluster.ids.length / 2)];
  for (const id of dead) await cluster.end(id);
  await until('the others know that no node leads', async () => {
    const groups = await Promise.all(alive.map((id) => cluster.groups(id)));
    return groups.flat().every(({ leader }) => leader === null);
  });
}

async function expectOne(file: string, [line, code, stdout, stderr]: Case): Promise<void> {
  const [verb, ...flags] = line.split(' ');
  const more = line.startsWith('restart') ? RESTART : [];
  const run = await ctl([verb as string, '--config', file, ...flags, ...more]);
  const last = run.stderr.trimEnd().split('\n').at(-1) ?? '';
  assert.match(last, stderr, `${line}: ${run.stderr}`);
  assert.match(run.stdout, stdout, line);
  assert.equal(run.code, code, `${line}: ${run.stderr}`);
}

async function expectAll(file: string, cases: readonly Case[]): Promise<void> {
  await Promise.all(cases.map((one) => tried(() => expectOne(file, one))));
}

const ready = `--ready-timeout-secs 0.5 ${PACE.join(' ')}`;

test('two of four', async () => {
  const folder = temporaryFolder('half-down');
  const backup = join(folder, 'backup');
  await withCluster({ nodes: 4, groups: GROUPS }, async (cluster) => {
    const file = scratchFile('c.toml', clusterToml(cluster));
    const location = ['--location', backup];
    await killHalf(cluster);
    const created = await ctl(['backup-create', '--config', file, ...location]);
    assert.match(created.stdout, /^backup created: 3 groups, /, created.stderr);
    assert.match(
      created.stderr,
      /^node 3 was left out \(http:\S+ cannot be reached \(connection refused\)\): what only it .*\nnode 4 was left out /m,
    );
    const refused = 'http:\\S+ cannot be reached \\(connection refused\\)';
    const gone = `2 of 4 nodes do not answer, so groups have no majority \\(node 3: ${refused}; node 4: ${refused}\\)`;
    const leaderless = 'node 1 knows no leader of groups 0, 1 and 2 \\(nodes 3 and 4 do not answer\\)';
    const says = (text: string): RegExp => new RegExp(`^${text}$`);
    const mine = 'millracectl: ';
    await expectAll(file, [
      ['status', 0, /\n2 of 4 nodes answer; .*groups 0, 1 and 2 have no leader: writes wait\n.*most voters/s, NOTHING],
      [
        `wait-ready --expected-groups 3 --timeout-secs 0.5 ${PACE.join(' ')}`,
        1,
        NOTHING,
        says(`${mine}not ready within 0.5 s: ${gone}`),
      ],
      [
        `verify-cluster --timeout-secs 0.5 ${PACE.join(' ')}`,
        1,
        NOTHING,
        says(`${mine}the cluster is not ready within 0.5 s: ${gone}`),
      ],
      [
        `drain --node 1 ${ready}`,
        1,
        NOTHING,
        says(`${mine}the cluster is not ready within 0.5 s: ${gone}; nothing was changed`),
      ],
      [
        `drain --node 4 ${ready}`,
        1,
        NOTHING,
        says(`${mine}the cluster is not ready within 0.5 s: ${gone}; nothing was changed`),
      ],
      ['drain --node 1 --dry-run', 1, NOTHING, says(`node 3: ${refused}`)],
      ['undrain --node 2', 0, /^node 2: drain mark cleared\n$/, NOTHING],
      ['undrain --node 4', 1, NOTHING, says(`node 4: ${refused}; a mark that is set stays, also over restarts`)],
      [
        `restart ${ready}`,
        2,
        NOTHING,
        says(
          `node 1: ABORTED \\(the cluster is not ready within 0.5 s: ${gone}; nothing was changed\\); ` +
            'no node was restarted before it; go on with --only 1,2,3,4',
        ),
      ],
      ['restart --dry-run', 1, NOTHING, says(`node 3: ${refused}`)],
      [
        `wait --node 1 --stall-timeout-secs 0.5 ${PACE.join(' ')}`,
        2,
        NOTHING,
        says(`node 1: NOT READY \\(no progress for 0.5 s: ${leaderless}\\)`),
      ],
      [
        `wait --node 4 --stall-timeout-secs 0.5 ${PACE.join(' ')}`,
        2,
        NOTHING,
        says(`node 4: NOT READY \\(no progress for 0.5 s: node 4: ${refused}\\)`),
      ],
      [
        'allow-rejoin --node 4 --timeout-secs 2',
        1,
        NOTHING,
        says(
          `${mine}not within 2 s: groups 0, 1 and 2 have no leader \\(nodes 3 and 4 do not answer\\); ` +
            'without a majority no node can refill node 4',
        ),
      ],
      ['prepare-restart --node 4', 0, /^node 4: its log is on disk, a restart needs no preparation\n$/, NOTHING],
      [
        `restore ${location.join(' ')}`,
        1,
        NOTHING,
        says(
          `${mine}nothing was restored, because not every group had a leader within 10 s: ` +
            'groups 0, 1 and 2 have no leader \\(nodes 3 and 4 do not answer\\)',
        ),
      ],
    ]);
    assert.equal(readdirSync(backup).length, GROUPS + 1);
  });
  removeFolder(folder);
});

test('one of two', async () => {
  const folder = temporaryFolder('half-down');
  await withCluster({ nodes: 2, groups: GROUPS }, async (cluster) => {
    const file = scratchFile('c.toml', clusterToml(cluster));
    await killHalf(cluster);
    await expectAll(file, [
      ['status', 0, /\n1 of 2 nodes answer; .*groups 0, 1 and 2 have no leader: writes wait\n.*most voters/s, NOTHING],
      [
        `drain --node 1 ${ready}`,
        1,
        NOTHING,
        /^millracectl: the cluster is not ready within 0.5 s: node 2: \S+ cannot .*; nothing was changed$/,
      ],
      [`restart ${ready}`, 2, NOTHING, /^node 1: ABORTED \(.*; nothing was changed\); .*; go on with --only 1,2$/],
      [`wait --node 1 --stall-timeout-secs 0.5 ${PACE.join(' ')}`, 2, NOTHING, /\(node 2 does not answer\)\)$/],
      [
        `backup-create --location ${join(folder, 'backup')}`,
        0,
        /^backup created: 3 groups/,
        /^node 2 was left out \(.*connection refused\)\): what only it has applied is not in the backup$/,
      ],
    ]);
  });
  removeFolder(folder);
});
