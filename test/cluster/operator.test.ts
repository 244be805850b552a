// millracectl against three real nodes: looking, draining, giving up, and being killed at any moment.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { AdminProxy, type Call, type Verdict } from '../support/admin-proxy.ts';
import { TestCluster } from '../support/cluster.ts';
import { tried } from '../support/tries.ts';
import { until } from '../support/until.ts';
import { type CtlResult, type CtlProcess, clusterToml, ctl, scratchFile, spawnCtl, startCtl } from '../support/ctl.ts';
import { requestOnce } from '../support/raw-client.ts';

const GROUPS = 6;
/** Quick looks; the bounds are long because the machine may be busy. */
const PACE = ['--poll-interval-secs', '0.1'];
/** One of them is slower than the balancer, which moves one leadership a second. */
const DRAINS_MAX = 10;

describe('the operator looks and drains', () => {
  let cluster: TestCluster;
  let file = '';
  /** The same with a proxy in front of node 3. */
  let proxied = '';
  let proxy: AdminProxy;
  let hasFailed = false;

  before(async () => {
    cluster = await TestCluster.create({ groups: GROUPS });
    await cluster.startAll();
    file = scratchFile('cluster.toml', clusterToml(cluster));
    ({ proxy, file: proxied } = await behindProxy(3));
  });
  after(async () => {
    proxy.close();
    if (hasFailed) process.stderr.write(cluster.logs());
    await cluster.dispose();
  });

  /** A cluster file with a proxy in front of the node. */
  async function behindProxy(id: number): Promise<{ readonly file: string; readonly proxy: AdminProxy }> {
    const { adminUrl, adminPort } = cluster.node(id);
    const own = await AdminProxy.start(adminUrl);
    const text = clusterToml(cluster).replace(`admin_port = ${adminPort}`, `admin_url = "${own.url}"`);
    return { proxy: own, file: scratchFile('cluster.toml', text) };
  }

  /** All nodes run, hold their logs and lead again. */
  async function asAtFirst(): Promise<void> {
    proxy.reset();
    for (const id of cluster.ids) {
      if (!cluster.node(id).isRunning) await cluster.restart(id);
    }
    await run('allow-rejoin', '--node', '2');
    for (const id of cluster.ids) await run('undrain', '--node', String(id));
    await cluster.ready();
  }

  const test = (name: string, body: () => Promise<void>): void => {
    it(name, async () => {
      try {
        await tried(body, asAtFirst);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
  };

  const run = (verb: string, ...flags: string[]): Promise<CtlResult> => ctl([verb, '--config', file, ...flags]);

  async function shed(id: number): Promise<string> {
    const answer = await requestOnce(cluster.node(id).adminPort, 'GET', '/__svc/leadership-shed');
    return (JSON.parse(answer.body.toString('utf8')) as { state: string }).state;
  }

  async function ledBy(id: number): Promise<number> {
    return (await cluster.groups(id)).filter(({ leader }) => leader === id).length;
  }

  /** Two leaderships on each node. The balancer would do it too, in its own time. */
  async function spread(): Promise<void> {
    const wanted = (group: number): number => 1 + (group % cluster.ids.length);
    await until('every node leads two groups', async () => {
      const groups = await cluster.groups(1);
      const wrong = groups.filter(({ raft_group_id: id, leader }) => leader !== wanted(id));
      for (const { raft_group_id: id, leader } of wrong) {
        if (leader === null) continue;
        const path = `/__svc/raft/${id}/leader/transfer/${wanted(id)}`;
        await requestOnce(cluster.node(leader).adminPort, 'POST', path);
      }
      return wrong.length === 0;
    });
  }

  async function drainSpread(drain: readonly string[], verdict: Verdict): Promise<CtlResult> {
    await run('undrain', '--node', '3');
    await spread();
    proxy.before = ({ path }) => (path.includes('transfer') ? verdict : 'pass');
    return await ctl(drain);
  }

  async function expectUndrained(id: number): Promise<void> {
    assert.deepEqual(await run('undrain', '--node', String(id)), {
      code: 0,
      stdout: `node ${id}: drain mark cleared\n`,
      stderr: '',
    });
    assert.equal(await shed(id), 'none');
  }

  /** How a drain of node 3 ends that is killed before or after its nth call that changes something. */
  async function drainKilledAt(nth: number, moment: string): Promise<number | string> {
    let calls = 0;
    const killed: { run: CtlProcess | undefined } = { run: undefined };
    const cut = ({ method }: Call, when: string): void => {
      if (method === 'POST' && when === moment && ++calls === nth) killed.run?.child.kill('SIGKILL');
    };
    proxy.before = (call) => {
      cut(call, 'before');
      return killed.run?.child.killed === true ? 'lost' : 'pass';
    };
    proxy.after = (call) => cut(call, 'after');
    killed.run = spawnCtl(['drain', '--config', proxied, '--node', '3', ...PACE]);
    const ended = await killed.run.ended;
    assert(ended === 'SIGKILL' || ended === 0, `${moment} call ${nth}: ${ended} ${killed.run.stderr}`);
    proxy.reset();
    return ended;
  }

  test('wait-ready and verify-cluster say when all is well, and what is missing when it is not', async () => {
    const ready = await run('wait-ready', '--expected-groups', String(GROUPS), ...PACE);
    assert.equal(ready.stdout, `ready: 3 node(s), ${GROUPS} groups each\n`);
    assert.equal(ready.code, 0);
    const verified = await run('verify-cluster', ...PACE);
    assert.equal(verified.stdout, 'cluster verified: 3 node(s) fully ready\n');
    const never = await run('wait-ready', '--expected-groups', '7', '--timeout-secs', '0.3', ...PACE);
    assert.equal(never.code, 1);
    assert.match(never.stderr, /millracectl: not ready within 0\.3 s: node 1 reports 6 groups instead of 7\n$/);
    assert.equal(never.stdout, '');
  });

  test('status is a table, or JSON, with what people and programs need', async () => {
    await spread();
    const table = await run('status');
    assert.equal(table.code, 0, table.stderr);
    const lines = table.stdout.split('\n');
    assert.match(lines.shift() as string, /^cluster_id [0-9a-f]{32}$/);
    assert.match(lines[0] as string, /^node +host +state +leads +groups +lag +term +hot +cold +backlog +mailbox/);
    for (const id of cluster.ids)
      assert.match(lines[id] as string, new RegExp(`^${id} +127\\.0\\.0\\.1 +ok +\\d +6 +\\d+ `));
    assert.match(table.stdout, /\n3 of 3 nodes answer; 6 groups, leaders=\{1: \d, 2: \d, 3: \d\}\n/);
    const { stdout } = await run('status', '--json');
    const found = JSON.parse(stdout) as {
      cluster_id: string;
      nodes: { id: number; reachable: boolean; groups_led: number[]; draining: boolean; lag: number }[];
      groups: { leader: number; voter_ids: number[]; last_applied: Record<string, number> }[];
    };
    assert.deepEqual(
      found.nodes.map(({ id }) => id),
      [1, 2, 3],
    );
    assert.match(found.cluster_id, /^[0-9a-f]{32}$/);
    assert.equal(found.nodes.flatMap((node) => node.groups_led).length, GROUPS);
    assert(found.nodes.every((node) => node.reachable && !node.draining));
    for (const group of found.groups) {
      assert.deepEqual(group.voter_ids, [1, 2, 3]);
      assert.deepEqual(Object.keys(group.last_applied), ['1', '2', '3']);
    }
  });

  test('status --watch runs until Ctrl-C and then exits cleanly', async () => {
    const watch = startCtl(['status', '--config', file, '--watch', '--interval-secs', '0.1']);
    await until('three tables', async () => watch.stdout.split('nodes answer').length > 3);
    watch.interrupt();
    assert.equal(await watch.ended, 0, watch.stderr);
  });

  test('drain --dry-run says what it would do and does nothing', async () => {
    await spread();
    const dry = await run('drain', '--node', '2', '--dry-run');
    assert.equal(dry.code, 0, dry.stderr);
    assert.match(dry.stdout, /^(group \d: transfer to node [13]\n)+$/);
    assert.equal(await shed(2), 'none');
  });

  test('drain hands everything over, may be repeated, and undrain ends it', async () => {
    await spread();
    const drained = await run('drain', '--node', '2', ...PACE);
    assert.equal(drained.code, 0, drained.stderr);
    assert.match(drained.stdout, /^node 2: drained \(\d leaderships? handed over; marked until undrain\)\n$/);
    assert.equal(await ledBy(2), 0);
    assert.equal(await shed(2), 'maintenance-drain');
    const again = await run('drain', '--node', '2', ...PACE);
    assert.equal(again.stdout, 'node 2: drained (it led nothing; marked until undrain)\n');
    assert.match((await run('status')).stdout, /\n2 +127\.0\.0\.1 +drained +0 /);
    assert.equal(
      (await run('drain', '--node', '2', '--dry-run')).stdout,
      'node 2: leads no groups, nothing to transfer\n',
    );
    await expectUndrained(2);
  });

  test('a drain that is killed at any step is finished by another one', async () => {
    // The calls that change something are the mark and two transfers: none to all of them have taken effect.
    for (const [nth, moment] of [
      [1, 'before'],
      [2, 'before'],
      [3, 'before'],
      [3, 'after'],
    ] as const) {
      let ended: number | string = 0;
      // The node's own balancer gives leaderships away as well: when it is faster, the drain ends before the call that
      // is meant.
      for (let attempt = 1; ended !== 'SIGKILL'; attempt++) {
        assert(attempt <= DRAINS_MAX, `${DRAINS_MAX} drains ended before call ${nth}`);
        await spread();
        ended = await drainKilledAt(nth, moment);
        if (ended !== 'SIGKILL') await expectUndrained(3);
      }
      const finished = await run('drain', '--node', '3', ...PACE);
      assert.equal(finished.code, 0, finished.stderr);
      assert.match(finished.stdout, /^node 3: drained/);
      assert.equal(await ledBy(3), 0);
      await expectUndrained(3);
    }
  });

  test('Ctrl-C during a drain: exit 2, and the mark is lifted', async () => {
    await spread();
    const drain = spawnCtl(['drain', '--config', proxied, '--node', '3', ...PACE]);
    let sent = 0;
    proxy.after = ({ path }) => {
      // Twice in the same moment, as under npm.
      while (path.includes('transfer') && sent++ < 2) drain.interrupt();
    };
    assert.equal(await drain.ended, 2, drain.stderr);
    assert.match(drain.stderr, /^node 3: ABORTED \(interrupted\); its drain mark was lifted$/m);
    assert.equal(await shed(3), 'none');
  });

  test('a drain that gets nowhere, or loses its node, is given up: exit 2 and the mark lifted', async () => {
    const lagging = { status: 409, body: '{"transferred":false,"reason":"lagging"}' };
    const cases: readonly (readonly [Verdict, RegExp])[] = [
      [
        lagging,
        /^node 3: ABORTED \(groups? [\d and]+ did not move within 0\.1 s; the last refusal was: group \d to node \d: lagging\); its/m,
      ],
      [
        { status: 400, body: 'no' },
        /^node 3: ABORTED \(group \d: it answered 400 \(no\)\); its drain mark was lifted$/m,
      ],
      ['lost', /^node 3: ABORTED \(http:\S+ cannot be reached \(connection lost\)\); its drain mark was lifted$/m],
    ];
    for (const [verdict, expected] of cases) {
      const drain = ['drain', '--config', proxied, '--node', '3', '--drain-timeout-secs', '0.1', ...PACE];
      let drained = await drainSpread(drain, verdict);
      // Elections on a busy machine took the leaderships from the node, so nothing had to be moved.
      while (drained.code === 0) drained = await drainSpread(drain, verdict);
      assert.equal(drained.code, 2, drained.stderr);
      assert.match(drained.stderr, expected);
      assert.equal(await shed(3), 'none');
    }
    await spread();
    proxy.before = ({ path, method }) => (path.includes('transfer') || method === 'DELETE' ? 'lost' : 'pass');
    const left = await ctl(['drain', '--config', proxied, '--node', '3', ...PACE]);
    assert.equal(left.code, 2, left.stderr);
    assert.match(left.stderr, /; its drain mark may still be set, because .* run undrain --node 3 when it answers$/m);
    proxy.reset();
    await expectUndrained(3);
  });

  test('two drained nodes of three: the last one keeps what no other can take, and says so', async () => {
    for (const [node, ...more] of [['1'], ['2', '--force']] as const) {
      const drained = await run('drain', '--node', node, ...more, ...PACE);
      assert.equal(drained.code, 0, drained.stderr);
    }
    const third = await run('drain', '--node', '3', '--force', ...PACE);
    assert.equal(third.code, 2);
    assert.match(
      third.stderr,
      /^node 3: ABORTED \(no node can take groups .*no other voter takes leaderships \(node 1 is maintenance-drain, node 2 is maintenance-drain\)\); its drain mark was lifted\n$/m,
    );
    assert.equal(await shed(3), 'none');
    await expectUndrained(1);
    await expectUndrained(2);
  });

  test('the file names a node that answers as another one, or one that is not there', async () => {
    const [one, two] = [cluster.node(1).adminPort, cluster.node(2).adminPort];
    const crossed = `{"nodes":[{"id":1,"admin_url":"http://127.0.0.1:${two}"},{"id":2,"admin_url":"http://127.0.0.1:${one}"}]}`;
    const drained = await ctl(['drain', '--config', '-', '--node', '1', '--ready-timeout-secs', '0.2', ...PACE], {
      input: crossed,
    });
    assert.equal(drained.code, 1);
    assert.match(drained.stderr, /answers as node 2; mend the cluster file; nothing was changed\n$/);
    // The metrics come from the right node, the mark would go to the other one.
    const half = `{"nodes":[{"id":1,"admin_url":"http://127.0.0.1:${two}","http_url":"${cluster.node(1).url}"}]}`;
    const swapped = /^node 1: http:\S+ answers as node 2; mend the cluster file; /m;
    // On the port of clients there are metrics, and nothing that changes a node.
    const client = `{"nodes":[{"id":1,"admin_url":"${cluster.node(1).url}"}]}`;
    const wrongPort = /^node 1: http:\S+ is no admin plane; the cluster file wants the port of server\.admin_listen; /m;
    for (const [input, sentence] of [[half, swapped] as const, [client, wrongPort] as const]) {
      for (const verb of ['drain', 'undrain']) {
        const refused = await ctl([verb, '--config', '-', '--node', '1', ...(verb === 'drain' ? PACE : [])], { input });
        assert.match(refused.stderr, sentence, verb);
        if (verb === 'drain') assert.match(refused.stderr, /; nothing was changed\n$/);
        assert.equal(refused.code, 1);
      }
    }
    const unknown = await run('drain', '--node', '9');
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /^millracectl: node 9 is not in \S+cluster\.toml, which has 1, 2, 3\n$/);
  });

  test('with one node down nothing is drained, with two the table still comes', async () => {
    await cluster.end(3);
    // First the others may say that they know no leader, then that node 3 does not answer.
    const refused = await run('drain', '--node', '1', '--ready-timeout-secs', '1', ...PACE);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /the cluster is not ready within 1 s: node \d.*; nothing was changed\n$/);
    assert.equal(await shed(1), 'none');
    const stalled = await run('wait', '--node', '3', '--stall-timeout-secs', '0.5', ...PACE);
    assert.equal(stalled.code, 2);
    assert.match(stalled.stderr, /node 3: NOT READY \(no progress for 0\.5 s: .*connection refused/);
    const { file: hung, proxy: silent } = await behindProxy(2);
    silent.before = () => 'silent';
    const table = await ctl(['status', '--config', hung, '--http-timeout-secs', '1']);
    silent.close();
    assert.equal(table.code, 0);
    assert.match(table.stdout, /\n2 +127\.0\.0\.1 +unreachable /);
    assert.match(table.stdout, /\n1 of 3 nodes answer; /);
    assert.match(table.stdout, /\nnode 2 \(127\.0\.0\.1\): metrics unavailable — \S+ did not answer within 1 s\n/);
    assert.match(table.stdout, /\nnode 3 .*connection refused\)\n/);
    assert.match(table.stdout, /most voters do not answer here\n/);
    await cluster.restart(3);
    assert.deepEqual(
      await run('wait', '--node', '3', '--stall-timeout-secs', '60', ...PACE).then(({ code, stdout }) => ({
        code,
        stdout,
      })),
      {
        code: 0,
        stdout: 'node 3: caught up\n',
      },
    );
    assert.equal((await run('verify-cluster', ...PACE)).code, 0);
  });

  test('a node that loses its disk is refilled after allow-rejoin', async () => {
    const nothing = await run('allow-rejoin', '--node', '2');
    assert.equal(nothing.stdout, 'node 2: has its log in every group, so there is nothing to allow\n');
    await cluster.end(2);
    cluster.wipe(2);
    cluster.configure(2, false);
    await cluster.restart(2);
    const stuck = await run('wait', '--node', '2', '--stall-timeout-secs', '1', ...PACE);
    assert.equal(stuck.code, 2);
    assert.match(stuck.stderr, /it has applied nothing at all: if it lost its disk, run allow-rejoin/);
    // A leader that does not answer is asked again: here it is silent until the tool says that it waits for it.
    const leader = await cluster.leaderOf(0);
    const { file: hung, proxy: silent } = await behindProxy(leader);
    silent.before = () => 'silent';
    const arming = startCtl(['allow-rejoin', '--config', hung, '--node', '2', '--http-timeout-secs', '0.5']);
    await new Promise<void>((resolve) => {
      arming.output.on('data', () => /^waiting: .*\bnode/m.test(arming.stderr) && resolve());
      void arming.ended.then(() => resolve());
    });
    silent.reset();
    const armed = { code: await arming.ended, stdout: arming.stdout, stderr: arming.stderr };
    silent.close();
    assert.match(armed.stderr, new RegExp(`^waiting: .*\\bnodes? .*\\b${leader}\\b`, 'm'));
    assert.equal(armed.stdout, 'node 2: empty-log rejoin armed on every group leader\n', armed.stderr);
    assert.equal((await run('wait', '--node', '2', ...PACE)).stdout, 'node 2: caught up\n');
    assert.equal((await run('verify-cluster', ...PACE)).code, 0);
    assert.equal(
      (await run('prepare-restart', '--node', '2')).stdout,
      'node 2: its log is on disk, a restart needs no preparation\n',
    );
  });

  test('a leader that allows the rejoin and dies before it answers has allowed it', async () => {
    await cluster.end(2);
    cluster.wipe(2);
    await cluster.restart(2);
    const proxies = new Map<number, AdminProxy>();
    for (const id of [1, 3]) proxies.set(id, await AdminProxy.start(cluster.node(id).adminUrl));
    let text = clusterToml(cluster);
    for (const [id, one] of proxies) {
      one.after = ({ path }) => (path.includes('allow-next-revert') ? 'lost' : undefined);
      text = text.replace(`admin_port = ${cluster.node(id).adminPort}`, `admin_url = "${one.url}"`);
    }
    const armed = await ctl(['allow-rejoin', '--config', scratchFile('cluster.toml', text), '--node', '2']);
    for (const one of proxies.values()) one.close();
    assert.equal(armed.stdout, 'node 2: empty-log rejoin armed on every group leader\n', armed.stderr);
    await cluster.ready();
  });
});
