// Trials of one node of three: the other two hold everything, so nothing acknowledged is lost, and what the node lost
// comes back from them.
import { cpSync } from 'node:fs';
import { TestCluster } from '../support/cluster.ts';
import { clusterToml, ctl, scratchFile } from '../support/ctl.ts';
import { createRandom } from '../support/random.ts';
import { within } from '../support/server.ts';
import { until } from '../support/until.ts';
import { type Look, append, look, wantedOf } from './content.ts';
import { type Verdict, ofEnd, ofLooks } from './ending.ts';
import { damage } from './faults.ts';
import { FlippingLinks } from './flipping-links.ts';
import { filesOf } from './places.ts';
import { CLUSTER, type ClusterKind, HOT, NODES, type Prepared } from './prepared.ts';
import type { Place, Trial } from './trial.ts';

/** Two nodes of which one lacks acknowledged entries are asked so often to do something wrong. */
const PAIR_TRIES = 3;
const THIN_BYTES_PER_SECOND = 200_000;
const ENDS_MS = 30_000;
/** The page that a node met is gone with the first start. */
const STARTS_MAX = 2;
const FAILED = /a shard failed/;
/** The log or rows of the state, from the other nodes. */
const RESTORED = /the log is damaged|could not be read|replaced by that of its leader/;

export interface ClusterTrial {
  readonly trial: Trial;
  readonly prepared: Prepared;
  readonly note: (did: string) => void;
}

export async function minority({ trial, prepared, note }: ClusterTrial, place: Place): Promise<Verdict> {
  const random = createRandom(trial.seed ^ 0xa3);
  const how = random.pick(['level', 'lagging'] as const);
  // One of the two that have everything, where the third is behind.
  const victim = how === 'level' ? random.int(1, 3) : random.int(1, 2);
  return await withRun({ how, prepared }, async (run) => {
    const { cluster } = run;
    const others = filesOf(place, prepared.node(how, (victim % 3) + 1));
    const did = damage(filesOf(place, cluster.node(victim).dataDir), others, trial.fault, random);
    note(`${how}, node ${victim}: ${did}`);
    const away = how === 'level' ? undefined : 3 - victim;
    await run.start(NODES.filter((id) => id !== away));
    if (away !== undefined) {
      await run.tempt(3);
      await run.start([away]);
    }
    return await run.heal(victim);
  });
}

export async function leader({ trial, prepared, note }: ClusterTrial, place: Place): Promise<Verdict> {
  const random = createRandom(trial.seed ^ 0x1e);
  return await withRun({ how: 'level', prepared }, async (run) => {
    const { cluster } = run;
    await run.start(NODES);
    const victim = await cluster.leaderOf(random.int(0, 1));
    note(`node ${victim}: ${damage(filesOf(place, cluster.node(victim).dataDir), [], trial.fault, random)}`);
    await run.look(victim);
    await run.append(victim);
    if (cluster.node(victim).isRunning) await cluster.node(victim).stop();
    await run.start([victim]);
    return await run.heal(victim);
  });
}

/** Frames to a node that is filled by group snapshots. */
export async function wire({ trial, prepared, note }: ClusterTrial): Promise<Verdict> {
  const links = new FlippingLinks(createRandom(trial.seed ^ 0x77));
  try {
    await links.open([1, 2], 3);
    const via = (from: number, to: number, port: number): number => links.via(from, to, port);
    return await withRun({ how: 'behind', prepared, options: { via } }, async (run) => {
      await run.start(NODES);
      const verdict = await run.heal(3);
      note(`${links.flipped} bits to node 3`);
      return verdict;
    });
  } finally {
    links.close();
  }
}

/** The part of a group snapshot that a node had received when it went away. */
export async function staged({ trial, prepared, note }: ClusterTrial): Promise<Verdict> {
  const random = createRandom(trial.seed ^ 0x5a);
  return await withRun({ how: 'behind', prepared, options: { network: true } }, async (run) => {
    const { cluster } = run;
    for (const id of [1, 2]) cluster.network.limit(id, 3, THIN_BYTES_PER_SECOND);
    await run.start(NODES);
    const node = cluster.node(3);
    await until('node 3 receives a snapshot', () => /receiving a snapshot/.test(node.log()) || !node.isRunning);
    await cluster.end(3);
    const others = filesOf('state', prepared.node('level', 3));
    note(damage(filesOf('state', node.dataDir), others, trial.fault, random));
    cluster.network.heal();
    await run.start([3]);
    return await run.heal(3);
  });
}

interface RunOptions {
  readonly how: ClusterKind;
  readonly prepared: Prepared;
  readonly options?: Parameters<typeof TestCluster.create>[0];
}

async function withRun(
  { how, prepared, options = {} }: RunOptions,
  body: (run: ClusterRun) => Promise<Verdict>,
): Promise<Verdict> {
  await prepared.make(how);
  const cluster = await TestCluster.create({ ...CLUSTER, ...options });
  try {
    for (const id of NODES) cpSync(prepared.node(how, id), cluster.node(id).dataDir, { recursive: true });
    return await body(new ClusterRun(cluster));
  } catch (error) {
    const ended = NODES.map((id) => cluster.node(id)).filter((node) => !node.isRunning);
    const ends = await Promise.all(ended.map(async (node) => ofEnd(await node.exited, node.log()).why));
    throw new Error([String(error), ...ends].join('; '), { cause: error });
  } finally {
    await cluster.dispose();
  }
}

class ClusterRun {
  readonly cluster: TestCluster;
  readonly #wanted = wantedOf(HOT);
  readonly #looks: Look[] = [];
  /** How nodes ended. */
  readonly #ends: Verdict[] = [];
  #hasNewDisk = false;

  constructor(cluster: TestCluster) {
    this.cluster = cluster;
  }

  async start(ids: readonly number[]): Promise<void> {
    await Promise.all(
      ids.map(async (id) => {
        const node = this.cluster.node(id);
        await node.start('health').catch(async (error: unknown) => {
          if (node.isRunning) throw error;
          this.#ends.push(ofEnd(await node.exited, node.log()));
        });
      }),
    );
  }

  async look(id: number): Promise<void> {
    await this.#asking(id, async (port) => void this.#looks.push(await look(port, this.#wanted)));
  }

  async append(id: number): Promise<void> {
    await this.#asking(id, async (port) => void this.#looks.push(await append(port, this.#wanted)));
  }

  /** Whatever a pair accepts has to be there in the end, beside all that was there before. */
  async tempt(id: number): Promise<void> {
    await this.#asking(id, async (port) => void (await append(port, { ...this.#wanted, tries: PAIR_TRIES })));
  }

  /** Brings the node back, as an operator would; then all nodes have everything. */
  async heal(victim: number): Promise<Verdict> {
    const { cluster } = this;
    const others = NODES.filter((id) => id !== victim);
    await this.#ready(others);
    const node = cluster.node(victim);
    if (!node.isRunning && FAILED.test(node.log())) await this.start([victim]);
    if (!node.isRunning) await this.#takeDisk(victim);
    await this.#supervised(victim, async () => {
      await this.#ready(NODES);
      await cluster.settled(NODES);
      for (const id of NODES) await this.look(id);
      await this.append(others[0] ?? 1);
      await cluster.settled(NODES);
      for (const id of NODES) await this.look(id);
    });
    const isRestored = this.#hasNewDisk || RESTORED.test(node.log());
    const bad = this.#ends.find(({ ending }) => ending === 'BAD');
    const [said] = this.#ends;
    const verdict = bad ?? ofLooks(this.#looks, isRestored ? 'restored' : 'served');
    return verdict.ending === 'restored' && said !== undefined ? { ...verdict, why: said.why } : verdict;
  }

  /** A node refused its disk: an operator takes another one. */
  async #takeDisk(victim: number): Promise<void> {
    const { cluster } = this;
    this.#hasNewDisk = true;
    cluster.wipe(victim);
    await this.start([victim]);
    const file = scratchFile('c.toml', clusterToml(cluster));
    await ctl(['allow-rejoin', '--config', file, '--node', String(victim)]);
  }

  /**
   * As its supervisor does: starts the node again when it met a page, by its scrub or a read, that a start can do without.
   * No start mends an altered identity, which its groups tell it.
   */
  async #supervised(victim: number, body: () => Promise<void>): Promise<void> {
    const node = this.cluster.node(victim);
    for (let starts = 0; starts <= STARTS_MAX; starts++) {
      if (!node.isRunning) await (starts < STARTS_MAX ? this.start([victim]) : this.#takeDisk(victim));
      try {
        await body();
        if (node.isRunning) return;
      } catch (error) {
        // The connection ends before the node has.
        await within(node.exited, ENDS_MS, `node ${victim} ends after ${String(error)}`);
        this.#ends.push(ofEnd(await node.exited, node.log()));
      }
    }
    throw new Error(`node ${victim} ended ${STARTS_MAX} times, and on a new disk`);
  }

  async #ready(ids: readonly number[]): Promise<void> {
    await this.cluster.ready(ids);
  }

  async #asking(id: number, body: (port: number) => Promise<void>): Promise<void> {
    const node = this.cluster.node(id);
    try {
      if (node.isRunning) await body(node.port);
    } catch (error) {
      // The connection ends before the node has.
      await within(node.exited, ENDS_MS, `node ${id} ends after ${String(error)}`);
    }
    if (!node.isRunning) this.#ends.push(ofEnd(await node.exited, node.log()));
  }
}
