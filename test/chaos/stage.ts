// Where faults are made: a cluster with proxies between its nodes, clocks that can be set, and one small disk. Whatever
// a fault left behind, `heal` ends it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SmallDisk } from '../crash/small-disk.ts';
import { pause } from '../cluster/load.ts';
import type { TestCluster } from '../support/cluster.ts';
import { type Random } from '../support/random.ts';
import { run } from '../support/server.ts';

const FILLER = 'filler';
/** The node takes some bytes itself meanwhile. */
const FILL_ATTEMPTS = 5;
/** How much of each stay a short run keeps. */
const BRISK = 0.2;

export interface StageOptions {
  readonly cluster: TestCluster;
  readonly random: Random;
  /** A folder with one file for each node: by how many ms its wall clock is wrong. */
  readonly clocks: string;
  readonly disk: SmallDisk | undefined;
  readonly isBrisk: boolean;
}

export class Stage {
  readonly cluster: TestCluster;
  readonly random: Random;
  readonly disk: SmallDisk | undefined;
  readonly #clocks: string;
  readonly #stay: number;
  readonly #paused = new Set<number>();

  constructor({ cluster, random, clocks, disk, isBrisk }: StageOptions) {
    this.cluster = cluster;
    this.random = random;
    this.disk = disk;
    this.#clocks = clocks;
    this.#stay = isBrisk ? BRISK : 1;
  }

  get ids(): readonly number[] {
    return this.cluster.ids;
  }

  /** The node with the small disk. */
  get diskNode(): number {
    return this.ids.at(-1) as number;
  }

  others(id: number): number[] {
    return this.ids.filter((other) => other !== id);
  }

  /** Different nodes. */
  some(count: number): number[] {
    const left = [...this.ids];
    return Array.from({ length: count }, () => left.splice(this.random.int(0, left.length - 1), 1)[0] as number);
  }

  /** So long the fault stays. */
  async hold(lowMs: number, highMs: number): Promise<void> {
    await pause(this.random.int(lowMs, highMs) * this.#stay);
  }

  /** The node that leads some group, if one can be found out at once: another fault may be at work. */
  async leader(): Promise<number> {
    const group = this.random.pick(this.cluster.groupIds);
    const guess = this.random.pick(this.ids);
    const told = await Promise.race([
      this.cluster.group(guess, group).then(
        ({ leader }) => leader,
        () => null,
      ),
      pause(500).then(() => null),
    ]);
    return told !== null && this.ids.includes(told) ? told : guess;
  }

  stop(id: number): void {
    if (!this.cluster.node(id).isRunning) return;
    this.#paused.add(id);
    this.cluster.pause(id);
  }

  setClock(id: number, wrongByMs: number): void {
    writeFileSync(clockFile(this.#clocks, id), String(wrongByMs));
  }

  /** All but so many bytes of the small disk. */
  async fillDisk(leaveBytes: number): Promise<void> {
    const { disk } = this;
    if (disk === undefined) return;
    for (let attempt = 0; attempt < FILL_ATTEMPTS; attempt++) {
      const bytes = Math.max(1, disk.freeBytes() - leaveBytes);
      if ((await run(['fallocate', '-l', String(bytes), join(disk.outside, FILLER)]).exited) === 0) return;
    }
  }

  /** Everything is as it was before the fault; nodes that are gone start again. */
  async heal(): Promise<void> {
    this.cluster.network.heal();
    for (const id of this.#paused) if (this.cluster.node(id).isRunning) this.cluster.resume(id);
    this.#paused.clear();
    this.disk?.remove(FILLER);
    await Promise.all(
      this.ids.map(async (id) => {
        if (!this.cluster.node(id).isRunning) await this.cluster.restart(id);
      }),
    );
  }
}

export function clockFile(folder: string, id: number): string {
  return join(folder, `node-${id}`);
}
