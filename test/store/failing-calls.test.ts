// Every call of the file system that a store makes, from its start on, fails once and in each way: an append that
// returned is there afterwards, a failed sync is never repeated, and an error says of which file it speaks.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { StorageFullError } from '../../src/shard/ports.ts';
import { Environment } from '../../src/store/environment.ts';
import { DiskFolder } from '../../src/store/log-files.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { CALLS, type Failure, FailingCalls } from '../support/failing-calls.ts';
import { SMALL_SEGMENTS, STORE_OPTIONS } from './temporary.ts';
import { FRESH, batch, checkpoint, entry, logOf, openLogs } from './turns.ts';

/** In memory where there is some: the failures are planted, and syncs of a disk took two fifths of the processor. */
const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const APPENDS = 4;
const text = (index: number): string => `${index};`.padEnd(9000, 'x');
/** The system's own sentences about these name no file; the log adds it where it can tell what is lost. */
const NAMELESS: ReadonlySet<string> = new Set(['readSync', 'writeSync', 'fsyncSync', 'closeSync', 'readdirSync']);

interface Life {
  readonly acknowledged: number;
  readonly error: unknown;
}

class Store {
  readonly directory = mkdtempSync(join(PLACE, 'millrace-failing-'));

  async use(work: (store: ShardStore) => void): Promise<void> {
    const environment = new Environment(this.directory);
    let store: ShardStore | undefined;
    try {
      const folder = new DiskFolder(join(this.directory, 'log'));
      store = new ShardStore(this.directory, {
        ...STORE_OPTIONS,
        disk: { environment, folder, sizes: SMALL_SEGMENTS },
      });
      work(store);
    } finally {
      // It closes the environment behind the log, if it comes so far.
      await (store?.close() ?? environment.close()).catch(() => environment.close());
    }
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** As a shard does it: what finds no room comes again, and any other error is the end. */
async function live(place: Store): Promise<Life> {
  let acknowledged = 0;
  try {
    await place.use((store) => {
      openLogs(store, FRESH);
      for (let index = 1; index <= APPENDS; index++) {
        const turn = [batch(1, [entry(index, 1, text(index))])];
        try {
          store.append(turn);
        } catch (error) {
          if (!(error instanceof StorageFullError)) throw error;
          store.append(turn);
        }
        acknowledged = index;
        if (index === 2) checkpoint(store);
      }
    });
  } catch (error) {
    return { acknowledged, error };
  }
  return { acknowledged, error: undefined };
}

async function sweep(t: TestContext, failures: readonly Failure[], names: readonly string[]): Promise<number> {
  const calls = await FailingCalls.in(t);
  let trials = 0;
  for (const call of names) {
    for (const failure of failures) {
      for (let skipped = 0; ; skipped++) {
        const place = new Store();
        t.after(() => place.remove());
        calls.plan(call, skipped, failure);
        const { acknowledged, error } = await live(place);
        calls.end();
        if (!calls.hasFailed) break;
        trials++;
        const where = `${failure} of ${call} ${skipped}`;
        // A folder is, for the names that came later.
        const again = calls.syncedAgain.filter((path) => /segment-\d+$/.test(path));
        assert.deepEqual(again, [], `${where}: no file is synced again after a failed sync`);
        if (error !== undefined && !(error instanceof StorageFullError)) {
          assert(error instanceof Error, where);
          const names = error.message.includes(place.directory) || /segment-\d/.test(error.message);
          assert(names || NAMELESS.has(call), `${where}: "${error.message}" names its file`);
        }
        await place.use((store) => {
          const log = logOf(openLogs(store, FRESH), 1);
          assert(
            log.lastIndex() >= acknowledged,
            `${where}: ${acknowledged} was acknowledged, ${log.lastIndex()} is there`,
          );
          for (let index = 1; index <= log.lastIndex(); index++) {
            const [stored] = log.entries(index, index + 1, Infinity);
            assert.equal(Buffer.from(stored?.data ?? []).toString(), text(index), where);
          }
        });
        place.remove();
      }
    }
  }
  return trials;
}

test('an input or output error of any call loses nothing acknowledged', async (t) => {
  const trials = await sweep(t, ['EIO'], CALLS);
  assert(trials > 30, `${trials} trials`);
});

test('a full disk, an interruption and a short write or read at any call lose nothing either', async (t) => {
  const trials = await sweep(t, ['ENOSPC', 'EINTR', 'short'], ['writeSync', 'readSync']);
  assert(trials > 10, `${trials} trials`);
  assert((await sweep(t, ['ENOSPC'], ['openSync', 'fsyncSync', 'fdatasyncSync', 'renameSync'])) > 10);
});
