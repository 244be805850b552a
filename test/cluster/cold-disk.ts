// Disk usage of the nodes' databases during a test, compared with what was written and what is hot.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { TestCluster } from '../support/cluster.ts';

const MIB = 1024 * 1024;
const SAMPLE_MS = 1000;
/** Width of the printed curve. */
const COLUMNS = 12;

interface Sample {
  readonly atS: number;
  /** By node. */
  readonly databaseBytes: readonly number[];
  readonly hotBytes: number;
  readonly coldBytes: number;
}

export class DiskCurve {
  readonly #cluster: TestCluster;
  readonly #samples: Sample[] = [];
  readonly #sinceMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  #busy = false;

  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
    this.#timer = setInterval(() => void this.#sample(), SAMPLE_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  get maxBytes(): number {
    return Math.max(0, ...this.#samples.flatMap(({ databaseBytes }) => databaseBytes));
  }

  /** One line per figure, from the start to the end. */
  lines(): string {
    const step = Math.max(1, this.#samples.length / COLUMNS);
    const some = this.#samples.filter((_, i) => Math.floor(i / step) !== Math.floor((i - 1) / step));
    const line = (name: string, value: (sample: Sample) => number): string =>
      `  ${name.padEnd(20)}${some.map((sample) => value(sample).toFixed(0).padStart(6)).join('')}\n`;
    return (
      line('second', ({ atS }) => atS) +
      this.#cluster.ids
        .map((id, i) => line(`LMDB of node ${id}, MiB`, ({ databaseBytes }) => (databaseBytes[i] as number) / MIB))
        .join('') +
      line('hot, MiB', ({ hotBytes }) => hotBytes / MIB) +
      line('cold, MiB', ({ coldBytes }) => coldBytes / MIB)
    );
  }

  async #sample(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    const counts = await Promise.all(this.#cluster.runningIds.map((id) => this.#counts(id)));
    this.#busy = false;
    this.#samples.push({
      atS: (performance.now() - this.#sinceMs) / 1000,
      databaseBytes: this.#cluster.ids.map((id) => databaseBytes(this.#cluster.node(id).dataDir)),
      hotBytes: Math.max(0, ...counts.map(([hot]) => hot)),
      coldBytes: Math.max(0, ...counts.map(([, cold]) => cold)),
    });
  }

  async #counts(id: number): Promise<[hot: number, cold: number]> {
    try {
      const metrics = await this.#cluster.metrics(id);
      return [metrics['cold_hot_bytes'] as number, metrics['cold_bytes'] as number];
    } catch {
      // It was killed meanwhile.
      return [0, 0];
    }
  }
}

export function databaseBytes(dataDir: string): number {
  return readdirSync(dataDir)
    .filter((name) => name.startsWith('shard-'))
    .reduce((sum, name) => sum + statSync(join(dataDir, name, 'data.mdb')).size, 0);
}
