/** How much room the data volume has, for the metrics. */
import { statfs } from 'node:fs/promises';
import type { Runtime } from '../base/runtime.ts';

/** Dashboards and pages ask more often than a volume changes much. */
const INTERVAL_MS = 5_000;

export interface VolumeRoom {
  readonly volume_bytes: number;
  readonly volume_free_bytes: number;
}

/** Asks on a thread of the pool, one question at a time: a file system that hangs must not hold the main thread. */
export class VolumeWatch {
  readonly #runtime: Runtime;
  readonly #path: string;
  #room: VolumeRoom | undefined;

  constructor(runtime: Runtime, path: string) {
    this.#runtime = runtime;
    this.#path = path;
  }

  /** The first answer is there when this resolves. */
  async start(): Promise<void> {
    await this.#look();
    this.#runtime.setTimer(INTERVAL_MS, () => void this.start());
  }

  /** As it was some seconds ago; nothing where the system does not say. */
  metrics(): Partial<VolumeRoom> {
    return { ...this.#room };
  }

  async #look(): Promise<void> {
    try {
      const { bavail, blocks, bsize } = await statfs(this.#path);
      this.#room = { volume_bytes: blocks * bsize, volume_free_bytes: bavail * bsize };
    } catch {
      // The folder is gone, which the shards notice where they write.
      this.#room = undefined;
    }
  }
}
