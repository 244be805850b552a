/** Thread entry: waits for syncs of the log of one shard. */
import { isMainThread, workerData } from 'node:worker_threads';
import { assert } from '../src/base/assert.ts';
import { Waker } from '../src/mailbox/wake.ts';
import { PROCESS_RUNTIME } from '../src/server/runtime.ts';
import { serveSyncs } from '../src/store/log-sync.ts';

export interface SyncData {
  readonly words: Int32Array<SharedArrayBuffer>;
  /** The ring whose reader is the shard. */
  readonly ring: SharedArrayBuffer;
}

export function serve({ words, ring }: SyncData): void {
  const shard = new Waker(ring);
  serveSyncs({ words, clockMs: () => PROCESS_RUNTIME.monotonicMs(), wake: () => shard.interrupt() });
}

assert(!isMainThread, 'workers/sync runs in a worker thread');
// As in workers/shard.ts.
if (workerData !== undefined) serve(workerData as SyncData);
