// A fourth node joins a running cluster, becomes a voter, and another one leaves: through the admin routes, under load.
// The first three learn of it only by these calls: it is not in their configuration files.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { readAll } from '../crash/look.ts';
import { requestOnce, type RawResponse } from '../support/raw-client.ts';
import { withCluster } from '../support/cluster.ts';
import { assertDocumented } from '../support/documented.ts';
import { tried } from '../support/tries.ts';
import { until } from '../support/until.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { follow } from './follow.ts';
import { checkStream, newStream, newTally } from './history.ts';
import { newLoad, write } from './load.ts';
import { changeMembership, expectVoters } from './voters.ts';

const GROUPS = 2;
const WRITERS = 3;
const TEXT = { 'Content-Type': 'text/plain' } as const;

test('a fourth node joins, becomes a voter, and the first one leaves, while clients write', async () => {
  await withCluster({ groups: GROUPS, spares: 1 }, async (cluster) => {
    const streams = Array.from({ length: 12 }, (_, i) => newStream('members', `s${i}`));
    for (const { path } of streams) await cluster.client(1).create(path, TEXT);
    await cluster.settled();
    const load = newLoad(cluster, 'members');
    const work = Promise.all([
      ...Array.from({ length: WRITERS }, (_, id) => write(load, id, streams, id % 2 === 0, id)),
      follow(load, streams[0] as (typeof streams)[number], 99),
    ]);
    const change = async (): Promise<void> => {
      // 1. The new node knows the others. That alone makes it no voter.
      cluster.configure(4, false, [1, 2, 3, 4]);
      await cluster.node(4).start('health');
      await expectVoters(cluster, cluster.ids, [1, 2, 3]);
      // 2. It gets the data; half of the groups have no log from the beginning any more.
      for (const group of cluster.groupIds.filter((id) => id % 2 === 0)) {
        await changeMembership(cluster, group, 'snapshot');
        await changeMembership(cluster, group, 'purge');
      }
      const address = `127.0.0.1:${cluster.clusterPort(4)}`;
      for (const group of cluster.groupIds) await changeMembership(cluster, group, `learners/4?addr=${address}`);
      // A follower knows it when it has the entry.
      await until('node 2 knows the learner and its address', async () =>
        (await cluster.groups(2)).every(
          ({ learner_ids: learners, member_addresses: addresses }) =>
            learners.join() === '4' && addresses?.[4] === address,
        ),
      );
      // 3. It votes, and the first node does not.
      for (const group of cluster.groupIds) await changeMembership(cluster, group, 'membership?voters=1,2,3,4');
      await expectVoters(cluster, [1, 2, 3, 4], [1, 2, 3, 4]);
      for (const group of cluster.groupIds) await changeMembership(cluster, group, 'membership?voters=2,3,4');
      await expectVoters(cluster, [2, 3, 4], [2, 3, 4]);
      for (const group of cluster.groupIds) {
        // One that was taken out while it led does so until the others have heard of it.
        await until(`group ${group} has another leader`, async () => (await cluster.leaderOf(group)) !== 1);
      }
    };
    try {
      await Promise.race([change(), work]);
    } finally {
      load.stop();
      await Promise.allSettled([work]);
    }
    await work;
    await cluster.end(1);
    await cluster.settled([2, 3, 4]);
    // The new node carries its part: with it and one other there is a majority.
    await cluster.end(2);
    await cluster.ready([3, 4]);
    // The node's knowledge of the new one is on its disk.
    await cluster.end(3);
    await cluster.restart(3);
    await cluster.ready([3, 4]);
    const tally = newTally();
    const reader = cluster.client(4);
    for (const stream of streams) {
      const found = await readAll(reader, stream.path, false);
      assert(found !== undefined, `node 4 has ${stream.name}`);
      checkStream(stream, Buffer.from(found.content), tally);
      await reader.append(stream.path, TEXT, 'end\n');
    }
    process.stdout.write(
      `membership: ${tally.acknowledged} appends acknowledged meanwhile, none lost; ${tally.refused} refused, ` +
        `${tally.unknownPresent + tally.unknownAbsent} without an answer\n`,
    );
  });
});

test('a node that was away while another one joined finds it when it leads, also after the loss of its disk', async () => {
  await withCluster({ groups: 1, spares: 1 }, async (cluster) => {
    const write = async (id: number, path: string): Promise<void> => {
      await cluster.client(id).create(path, TEXT, 'x');
    };
    await write(1, '/away/before');
    await cluster.end(3);
    cluster.configure(4, false, [1, 2, 3, 4]);
    await cluster.node(4).start('health');
    await changeMembership(cluster, 0, `learners/4?addr=127.0.0.1:${cluster.clusterPort(4)}`);
    await changeMembership(cluster, 0, 'membership?voters=1,2,3,4');
    await cluster.moveLeader(0, 4);
    await write(4, '/away/meanwhile');
    // Neither its file nor its log has node 4.
    await cluster.restart(3);
    await cluster.ready([3]);
    await cluster.settled();
    await expectVoters(cluster, [3], [1, 2, 3, 4]);
    await cluster.end(3);
    cluster.wipe(3);
    cluster.configure(3, false);
    await cluster.restart(3);
    await cluster.moveLeader(0, 4);
    await changeMembership(cluster, 0, 'nodes/3/allow-next-revert');
    await cluster.ready([3]);
    await write(3, '/away/after');
    await cluster.settled();
    // It leaves while it leads: the others' answers still have to reach it, although it is in no configuration any
    // more.
    await cluster.moveLeader(0, 4);
    await changeMembership(cluster, 0, 'membership?voters=1,2,3');
    await expectVoters(cluster, [1, 2, 3], [1, 2, 3]);
    await until('nothing is known of its address', async () => {
      return (await cluster.group(2, 0)).member_addresses === undefined;
    });
    await cluster.end(4);
    await cluster.ready([1, 2, 3]);
    await write(2, '/away/gone');
  });
});

test('a node that was taken out while it was down says that it is not ready, and so does the tool; it may come back', async () => {
  await withCluster({ groups: 1 }, async (cluster) => {
    await cluster.moveLeader(0, 1);
    const file = scratchFile('c.toml', clusterToml(cluster));
    await cluster.client(3).create('/out/before', TEXT, 'x');
    await cluster.settled();
    // In the log that it starts with and not in its checkpoint, so it dies under load: how much of it counts only a
    // leader could tell it.
    let acknowledged = 0;
    const writers = Promise.allSettled(
      Array.from({ length: 8 }, async () => {
        for (;;) {
          await requestOnce(cluster.node(3).port, 'POST', '/out/before', TEXT, 'y');
          acknowledged++;
        }
      }),
    );
    await until('writes are acknowledged', async () => acknowledged > 50);
    await cluster.end(3);
    await writers;
    await changeMembership(cluster, 0, 'membership?voters=1,2');
    await expectVoters(cluster, [1, 2], [1, 2]);
    // A leader that removed a node still sends to it for up to an election timeout. The next leader never did.
    await cluster.moveLeader(0, (await cluster.leaderOf(0)) === 1 ? 2 : 1);
    await cluster.restart(3);
    // It is not told, and still believes that it votes.
    assert.deepEqual((await cluster.group(3, 0)).voter_ids, [1, 2, 3]);
    assert.equal((await cluster.readiness(3)).status, 503);
    const refused = await requestOnce(cluster.node(3).port, 'POST', '/out/before', TEXT, 'z');
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1']);
    await tried(async () => {
      const status = await ctl(['status', '--config', file]);
      assert.match(status.stdout, /\nnode 3 \(127\.0\.0\.1\): no member of group 0, takes no writes there/);
      const pace = ['--stall-timeout-secs', '0.2', '--poll-interval-secs', '0.1'];
      const wait = await ctl(['wait', '--config', file, '--node', '3', ...pace]);
      assert.equal(wait.code, 2);
      assert.match(wait.stderr, /^node 3: NOT READY \(no progress for 0\.2 s: node 3 is not a voter of group 0\)$/m);
    });
    await changeMembership(cluster, 0, 'learners/3');
    await changeMembership(cluster, 0, 'membership?voters=1,2,3');
    await cluster.ready([3]);
    await cluster.client(3).append('/out/before', TEXT, 'z');
  });
});

test('calls that mean nothing are refused with a sentence', async () => {
  await withCluster({ groups: 1 }, async (cluster) => {
    const post = async (id: number, path: string): Promise<RawResponse> => {
      const answer = await cluster.node(id).admin.request('POST', `/__svc/raft/${path}`);
      assertDocumented('POST', `/__svc/raft/${path}`, answer, answer.body.toString());
      return answer;
    };
    const followerOf = (leader: number): number => cluster.ids.find((id) => id !== leader) as number;
    type Call = readonly [path: (leader: number, follower: number) => string, status: number];
    const toLeader: readonly Call[] = [
      [() => '0/membership?voters=1,2,9', 400],
      [() => '0/membership', 400],
      [() => '0/membership?voters=', 400],
      [() => '0/membership?voters=1,x', 400],
      [() => '0/learners/9', 400],
      [() => '0/learners/9?addr=nowhere', 400],
      [(leader) => `0/learners/${leader}`, 400],
      [() => '0/learners/x', 400],
      [() => '0/leader/transfer/9', 400],
      [() => '0/nodes/9/allow-next-revert', 400],
    ];
    const toFollower: readonly Call[] = [
      [() => '0/membership?voters=1,2,3', 409],
      [(_, follower) => `0/leader/transfer/${follower}`, 409],
      [(leader) => `0/nodes/${leader}/allow-next-revert`, 409],
      [() => '0/learners/3', 409],
    ];
    for (const [calls, isLeader] of [[toLeader, true] as const, [toFollower, false] as const]) {
      for (const [pathOf, status] of calls) {
        await cluster.underOneLeader(0, async (leader) => {
          const path = pathOf(leader, followerOf(leader));
          const answer = await post(isLeader ? leader : followerOf(leader), path);
          const text = answer.body.toString('utf8');
          const asked = `${path} on ${isLeader ? 'the leader' : 'a follower'}`;
          assert.equal(answer.status, status, `${asked}: ${answer.status} ${text}`);
          assert.match(text, /\w+ \w+|\{/, `${path}: ${status} needs a sentence or JSON`);
        });
      }
    }
    assert.equal((await post(1, '7/snapshot')).status >= 400, true);
    // A wrong address is a mistake that shows only when no node answers there; the learner can be removed again.
    const forget = async (id: number, node: number): Promise<[number, unknown]> => {
      const url = `/__svc/raft/0/learners/${node}`;
      const answer = await requestOnce(cluster.node(id).adminPort, 'DELETE', url);
      assertDocumented('DELETE', url, answer, answer.body.toString());
      const body = answer.body.toString('utf8');
      return [answer.status, body.startsWith('{') ? (JSON.parse(body) as { changed: boolean }).changed : undefined];
    };
    await cluster.underOneLeader(0, async (leader) => {
      await forget(leader, 9);
      const added = requestOnce(cluster.node(leader).adminPort, 'POST', '/__svc/raft/0/learners/9?addr=127.0.0.1:1');
      let isOver = false;
      const over = (): boolean => (isOver = true);
      added.then(over, over);
      await until('node 9 is a learner, or refused', async () => {
        return isOver || (await cluster.group(leader, 0)).learner_ids.includes(9);
      });
      const follower = followerOf(leader);
      assert.deepEqual(await forget(follower, 9), [409, false]);
      assert.deepEqual(await forget(leader, follower), [400, undefined]);
      assert.deepEqual(await forget(leader, 9), [200, true]);
      assert.equal((await added).status, 409);
      assert.deepEqual(await forget(leader, 9), [200, false]);
      const { learner_ids: learners, member_addresses: addresses } = await cluster.group(leader, 0);
      assert.deepEqual([learners, addresses], [[], undefined]);
    });
  });
});
