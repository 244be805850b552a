// Nodes die, stand still, run out of disk, lose it, have the wrong time, are restarted in turn and replaced.
import assert from 'node:assert/strict';
import { changeMembership, expectVoters } from '../cluster/voters.ts';
import { pause } from '../cluster/load.ts';
import { until } from '../support/until.ts';
import type { Stage } from './stage.ts';

/** Below the reserve that a node keeps for deletes, above nothing: it refuses, but still can write. */
const ALMOST_FULL_BYTES = 2 * 1024 * 1024;
const HOUR_MS = 3_600_000;

type Act = (stage: Stage) => Promise<void>;

async function killed(stage: Stage, victims: readonly number[]): Promise<void> {
  await Promise.all(victims.map((id) => stage.cluster.kill(id)));
  await stage.hold(0, 5000);
}

const killOne: Act = async (stage) => {
  const victim = stage.random.chance(0.6) ? await stage.leader() : stage.random.pick(stage.ids);
  await killed(stage, [victim]);
};

/** One dies, and once more while it starts. */
const killTwice: Act = async (stage) => {
  const victim = stage.random.pick(stage.ids);
  await killed(stage, [victim]);
  for (let i = 0; i < 2; i++) await stage.cluster.node(victim).startInterrupted(stage.random.int(100, 1500));
};

/** No majority is left. */
const killMost: Act = (stage) => killed(stage, stage.some(Math.floor(stage.ids.length / 2) + 1));

const killAll: Act = (stage) => killed(stage, stage.ids);

/** A follower falls behind, then the leader dies: the follower's log must not win. */
const killBehindCut: Act = async (stage) => {
  const { cluster, random } = stage;
  const leader = await stage.leader();
  cluster.network.isolate(random.pick(stage.others(leader)), cluster.ids);
  await pause(random.int(100, 1000));
  await cluster.kill(leader);
  await stage.hold(500, 3000);
  if (random.chance(0.5)) cluster.network.heal();
};

const stopOne: Act = async (stage) => {
  stage.stop(await stage.leader());
  // Some longer than the silence after which links are given up.
  await (stage.random.chance(0.2) ? stage.hold(10_000, 20_000) : stage.hold(200, 8000));
};

const stopMost: Act = async (stage) => {
  for (const id of stage.some(Math.floor(stage.ids.length / 2) + 1)) stage.stop(id);
  await stage.hold(200, 6000);
};

const rollingRestart: Act = async ({ cluster, ids }) => {
  for (const id of ids) {
    const code = await cluster.node(id).stop();
    assert.equal(code, 0, `exit code of node ${id} after SIGTERM`);
    await cluster.restart(id);
    await cluster.ready(cluster.ids);
  }
};

const diskFull: Act = async (stage) => {
  await stage.fillDisk(stage.random.chance(0.5) ? ALMOST_FULL_BYTES : 0);
  await stage.hold(2000, 10_000);
};

/** It dies, and starts on the full disk. */
const diskFullAndKill: Act = async (stage) => {
  await stage.fillDisk(0);
  await stage.hold(1000, 4000);
  await stage.cluster.kill(stage.diskNode);
  await stage.cluster.restart(stage.diskNode);
  await stage.hold(1000, 4000);
};

/** One node, or all of them in different ways. Some stay wrong until the next time. */
const clockSteps: Act = async (stage) => {
  const { random } = stage;
  const step = (): number => random.int(1000, random.chance(0.5) ? HOUR_MS : 10_000) * (random.chance(0.5) ? -1 : 1);
  const victims = random.chance(0.5) ? [await stage.leader()] : stage.ids;
  for (let i = 0; i < 3; i++) {
    for (const id of victims) stage.setClock(id, step());
    await stage.hold(500, 4000);
  }
  if (random.chance(0.5)) for (const id of victims) stage.setClock(id, 0);
};

/** A disk is replaced by an empty one, and the operator allows the node to be filled again. */
const lostDisk: Act = async (stage) => {
  const { cluster, random } = stage;
  // The small disk cannot be wiped from outside.
  const id = random.pick(stage.others(stage.diskNode));
  await cluster.kill(id);
  cluster.wipe(id);
  cluster.configure(id, false);
  await cluster.restart(id);
  for (const group of cluster.groupIds) await changeMembership(cluster, group, `nodes/${id}/allow-next-revert`);
  await cluster.ready(cluster.ids);
  cluster.configure(id);
};

/** A spare node joins and votes, another one leaves and comes back, and the spare goes. */
const membership: Act = async (stage) => {
  const { cluster, ids, random } = stage;
  const spare = ids.length + 1;
  const all = [...ids, spare];
  const voters = async (present: readonly number[], expected: readonly number[]): Promise<void> => {
    for (const group of cluster.groupIds)
      await changeMembership(cluster, group, `membership?voters=${expected.join()}`);
    await expectVoters(cluster, present, expected);
  };
  cluster.configure(spare, false, all);
  await cluster.node(spare).start('health');
  const address = `127.0.0.1:${cluster.clusterPort(spare)}`;
  for (const group of cluster.groupIds) await changeMembership(cluster, group, `learners/${spare}?addr=${address}`);
  await voters(all, all);
  await stage.hold(500, 4000);
  const leaving = random.pick(ids);
  const staying = all.filter((id) => id !== leaving);
  await voters(staying, staying);
  if (random.chance(0.5)) await cluster.kill(leaving);
  await stage.hold(500, 4000);
  if (!cluster.node(leaving).isRunning) await cluster.restart(leaving);
  for (const group of cluster.groupIds) await changeMembership(cluster, group, `learners/${leaving}`);
  await voters(ids, ids);
  await until('no group is led by the node that leaves', async () => {
    const groups = await Promise.all(ids.map((id) => cluster.groups(id)));
    return groups.flat().every(({ leader }) => leader !== null && leader !== spare);
  });
  await cluster.kill(spare);
};

export const NODE_FAULTS: Readonly<Record<string, Act>> = {
  'SIGKILL of one': killOne,
  'SIGKILL, and again during starts': killTwice,
  'SIGKILL of a majority': killMost,
  'SIGKILL of all': killAll,
  'follower cut off, leader killed': killBehindCut,
  'SIGSTOP of a leader': stopOne,
  'SIGSTOP of a majority': stopMost,
  'clock steps': clockSteps,
  'disk full': diskFull,
  'disk full, then SIGKILL': diskFullAndKill,
};

/** They have steps that wait for the cluster, so no other fault is at work meanwhile. */
export const LONG_FAULTS: Readonly<Record<string, Act>> = {
  'rolling restart': rollingRestart,
  'lost disk': lostDisk,
  'membership change': membership,
};
