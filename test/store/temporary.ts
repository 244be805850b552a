// A store in its own folder, removed after the test.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { InlineWriter } from '../../src/store/checkpoint-writer.ts';
import { Environment, LmdbTx } from '../../src/store/environment.ts';
import { DiskFolder } from '../../src/store/log-files.ts';
import type { SegmentSizes } from '../../src/store/segments.ts';
import { ShardStore, type StoreOptions } from '../../src/store/shard-store.ts';

export const STORE_OPTIONS: StoreOptions = { runtime: PROCESS_RUNTIME };

const KIB = 1024;
/** A few records fill a segment, so that logs of tests rotate, are recycled and copied. */
export const SMALL_SEGMENTS: SegmentSizes = { bytesMin: 16 * KIB, bytesMax: 64 * KIB };

interface TemporaryOptions {
  readonly sizes?: SegmentSizes;
  /** Asked before each checkpoint: what the system says of it, if it fails. Needs `sizes`. */
  readonly failure?: () => Error | undefined;
  readonly salvages?: boolean;
}

export class TemporaryStore {
  readonly directory: string;
  readonly #options: TemporaryOptions;
  store: ShardStore;

  constructor(t: TestContext, options: TemporaryOptions = {}) {
    this.directory = mkdtempSync(join(tmpdir(), 'millrace-store-'));
    this.#options = options;
    this.store = this.#open();
    t.after(async () => {
      await this.store.close();
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  /** The folder of the segment files. */
  get logFolder(): string {
    return join(this.directory, 'log');
  }

  /** Closes and opens again, as the next process would; `between` may do something to the files. */
  async reopen(between?: () => Promise<void> | void): Promise<ShardStore> {
    await this.store.close();
    await between?.();
    this.store = this.#open();
    return this.store;
  }

  #open(): ShardStore {
    const { sizes, failure = () => undefined, ...others } = this.#options;
    const options = { ...STORE_OPTIONS, ...others };
    if (sizes === undefined) return new ShardStore(this.directory, options);
    const environment = new Environment(this.directory);
    const commit = (write: () => void): void => {
      const error = failure();
      if (error !== undefined) throw error;
      environment.commit(write);
    };
    return new ShardStore(this.directory, {
      ...options,
      writer: () => new InlineWriter(commit, new LmdbTx(environment.state)),
      disk: { environment, folder: new DiskFolder(this.logFolder), sizes },
    });
  }
}
