/**
 * Whether a file that is open still has its name. Linux lets a folder be removed, or its volume unmounted lazily, under a
 * process that goes on writing and syncing: what it acknowledges then is gone with the process.
 */
import { type BigIntStats, statSync } from 'node:fs';
import { join } from 'node:path';
import { caughtMessage } from '../base/caught.ts';
import type { StoragePaths } from '../shard/ports.ts';

/** A sentence for the operator. */
export class FileGone extends Error {}

class NamedFile {
  readonly #path: string;
  readonly #known: BigIntStats;

  /** The file is there, and open. Throws FileGone. */
  constructor(path: string) {
    this.#path = path;
    this.#known = this.#look();
  }

  /** Throws FileGone when the name is gone, or leads to another file. */
  check(): void {
    const { dev, ino } = this.#look();
    if (dev !== this.#known.dev || ino !== this.#known.ino) throw this.#gone('another file has its name');
  }

  #look(): BigIntStats {
    try {
      return statSync(this.#path, { bigint: true });
    } catch (error) {
      throw this.#gone(caughtMessage(error));
    }
  }

  #gone(why: string): FileGone {
    const advice =
      'the node stops, because what it acknowledged from now on would be lost; put the data directory back';
    return new FileGone(`${this.#path} was removed, replaced or unmounted under the running node (${why}): ${advice}`);
  }
}

/** The files that a store writes: its state, and the segment of the log that takes records. */
export class StoreFiles {
  readonly #log: string;
  readonly #state: NamedFile;

  /** Both are open. Throws FileGone. */
  constructor({ log, state }: StoragePaths) {
    this.#log = log;
    this.#state = new NamedFile(state);
  }

  /** Throws FileGone. `segment`: the name of the one that takes records; undefined: none does yet. */
  check(segment: string | undefined): void {
    this.#state.check();
    if (segment !== undefined) new NamedFile(join(this.#log, segment)).check();
  }
}
