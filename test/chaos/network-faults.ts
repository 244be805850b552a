// The network between the nodes is cut, slow or thin, in all ways that are known to hurt. The nodes live and clients
// reach all of them; only what they say to each other is lost, late or broken off.
import { pause } from '../cluster/load.ts';
import type { Stage } from './stage.ts';

/** Longer than an election, and than the silence after which a link is given up. */
const CUT_MS_MAX = 7000;
const CUTS_IN_A_ROW = 8;

type Act = (stage: Stage) => Promise<void>;

const cutOff: Act = async (stage) => {
  const { cluster, random } = stage;
  const victim = random.chance(0.6) ? await stage.leader() : random.pick(stage.ids);
  cluster.network.isolate(victim, cluster.ids);
  await stage.hold(500, CUT_MS_MAX);
};

/** Two halves of the nodes do not hear each other; at most one of them has a majority. */
const split: Act = async (stage) => {
  const side = new Set(stage.some(Math.floor(stage.ids.length / 2)));
  for (const a of side) for (const b of stage.ids) if (!side.has(b)) stage.cluster.network.cut(a, b);
  await stage.hold(500, CUT_MS_MAX);
};

const oneWay: Act = async (stage) => {
  const { cluster, random } = stage;
  const leader = await stage.leader();
  const other = random.pick(stage.others(leader));
  if (random.chance(0.5)) cluster.network.cutOneWay(leader, other);
  else cluster.network.cutOneWay(other, leader);
  await stage.hold(1000, CUT_MS_MAX);
};

/** It receives and cannot send. */
const notHeard: Act = async (stage) => {
  const leader = await stage.leader();
  for (const other of stage.others(leader)) stage.cluster.network.cutOneWay(leader, other);
  await stage.hold(1000, CUT_MS_MAX);
};

/** Two nodes do not see each other; the others see both. */
const bridge: Act = async (stage) => {
  const [a, b] = stage.some(2) as [number, number];
  stage.cluster.network.cut(a, b);
  await stage.hold(1000, CUT_MS_MAX);
};

/** Cuts that come and go faster than the cluster can adapt. */
const flapping: Act = async (stage) => {
  const { cluster, random } = stage;
  for (let i = 0; i < CUTS_IN_A_ROW; i++) {
    const victim = random.pick(stage.ids);
    if (random.chance(0.5)) cluster.network.isolate(victim, cluster.ids);
    else cluster.network.cutOneWay(victim, random.pick(stage.others(victim)));
    await stage.hold(50, 800);
    cluster.network.heal();
    await stage.hold(0, 300);
  }
};

function delayAll(stage: Stage, mostMs: number): void {
  for (const from of stage.ids) {
    for (const to of stage.others(from)) stage.cluster.network.delay(from, to, stage.random.int(0, mostMs));
  }
}

/** Connections that break and come back, over ways of different slowness. */
const resets: Act = async (stage) => {
  delayAll(stage, 120);
  for (let i = 0; i < 4; i++) {
    const [a, b] = stage.some(2) as [number, number];
    stage.cluster.network.reset(a, b);
    await pause(stage.random.int(50, 500));
  }
};

const slow: Act = async (stage) => {
  delayAll(stage, 200);
  await stage.hold(2000, 2 * CUT_MS_MAX);
};

/** Little gets through to one node, or to and from it. */
const thin: Act = async (stage) => {
  const { cluster, random } = stage;
  const victim = random.pick(stage.ids);
  const bytesPerSecond = random.int(30_000, 500_000);
  const isBoth = random.chance(0.5);
  for (const other of stage.others(victim)) {
    cluster.network.limit(other, victim, bytesPerSecond);
    if (isBoth) cluster.network.limit(victim, other, bytesPerSecond);
  }
  await stage.hold(2000, 2 * CUT_MS_MAX);
};

export const NETWORK_FAULTS: Readonly<Record<string, Act>> = {
  'one node cut off': cutOff,
  'cluster split': split,
  'one way cut': oneWay,
  'leader not heard': notHeard,
  bridge,
  flapping,
  'connections reset': resets,
  'slow links': slow,
  'thin links': thin,
};
