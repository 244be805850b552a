// A store in its own folder, removed after the test.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ShardStore } from '../../src/store/shard-store.ts';

export class TemporaryStore {
  readonly directory: string;
  store: ShardStore;

  constructor(t: TestContext) {
    this.directory = mkdtempSync(join(tmpdir(), 'millrace-store-'));
    this.store = new ShardStore(this.directory);
    t.after(async () => {
      await this.store.close();
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  /** Closes and opens again, as the next process would. */
  async reopen(): Promise<ShardStore> {
    await this.store.close();
    this.store = new ShardStore(this.directory);
    return this.store;
  }
}
