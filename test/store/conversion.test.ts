// A shard whose log is in LMDB, as versions before kept it, is converted when it is
// opened; one that was interrupted begins again.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { type TestContext, test } from 'node:test';
import { ENTRY_DATA, type Entry } from '../../src/raft/types.ts';
import { PAGE_VALUE_BYTES } from '../../src/base/limits.ts';
import { Environment } from '../../src/store/environment.ts';
import { LMDB_LOG_ENTRY, LMDB_LOG_KEY, LmdbLog } from '../../src/store/lmdb-log.ts';
import { DiskFolder, type SegmentFile, type LogFolder } from '../../src/store/log-files.ts';
import { VOTE_ROW, OWN_TAG, systemKey } from '../../src/store/rows.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { SMALL_SEGMENTS, STORE_OPTIONS } from './temporary.ts';
import { type Applied, batch, checkpoint, entry, logOf, openLogs, show, voteOf } from './turns.ts';

const KIND_CUT = 0xff;
const NOTHING = new Uint8Array(0);

interface OldItem {
  readonly group: number;
  readonly entry: Entry | { readonly cut: number; readonly term: number };
}

const put = (group: number, ...entries: Entry[]): OldItem[] => entries.map((one) => ({ group, entry: one }));
const cut = (group: number, index: number, term: number): OldItem[] => [{ group, entry: { cut: index, term } }];

function oldBytes({ group, entry: one }: OldItem): Uint8Array {
  if ('cut' in one)
    return LMDB_LOG_ENTRY.encode({ group, kind: KIND_CUT, dataBytes: 0, term: one.term, index: one.cut }, NOTHING);
  const { kind, term, index, data } = one;
  return LMDB_LOG_ENTRY.encode({ group, kind, dataBytes: data.length, term, index }, data);
}

/** Writes turns as the version before did: a record each, in values of a page. */
async function writeOld(directory: string, turns: readonly (readonly OldItem[])[]): Promise<void> {
  const environment = new Environment(directory);
  turns.forEach((items, i) => {
    const bytes = Buffer.concat(items.map(oldBytes));
    environment.commit(() => {
      for (let part = 0; part * PAGE_VALUE_BYTES < bytes.length; part++) {
        const value = bytes.subarray(part * PAGE_VALUE_BYTES, (part + 1) * PAGE_VALUE_BYTES);
        environment.log.putSync(LMDB_LOG_KEY.encode({ turn: i + 1, part }), new Uint8Array(value));
      }
      environment.unchecked.putSync(systemKey(OWN_TAG.vote, 1), VOTE_ROW.encode({ term: 8, vote: 2 }));
    });
  });
  await environment.close();
}

const LARGE = 'y'.repeat(20_000);

/** With what was replaced, what only another group keeps, and a log that a snapshot replaced. */
const TURNS: readonly (readonly OldItem[])[] = [
  [...put(1, entry(3, 1), entry(4, 1), entry(5, 1)), ...put(2, entry(1, 1))],
  [...put(1, entry(6, 1)), ...put(2, entry(2, 1, LARGE)), ...put(3, entry(1, 1), entry(2, 1))],
  [...put(1, entry(5, 2), entry(6, 2)), ...put(3, entry(3, 1))],
  cut(3, 70, 4),
  [...put(3, entry(71, 5)), ...put(2, { index: 3, term: 1, kind: ENTRY_DATA, data: NOTHING })],
  put(1, entry(7, 2)),
];
const APPLIED: Applied = new Map([
  [1, [3, 1]],
  [2, [0, 0]],
  [3, [70, 4]],
]);
/** By group. */
const EXPECTED = ['4: 4@1 5@2 6@2 7@2', `1: 1@1 ${LARGE}`, '71: 71@5'];
const ENTRIES = 4 + 3 + 1;

function folderOf(t: TestContext): string {
  const folder = temporaryFolder('conversion');
  t.after(() => removeFolder(folder));
  return folder;
}

function check(store: ShardStore): void {
  const logs = openLogs(store, APPLIED);
  assert.deepEqual([...logs.values()].map(show), EXPECTED);
  assert.deepEqual(voteOf(store, 1), { term: 8, vote: 2 });
}

async function isConverted(directory: string): Promise<boolean> {
  const environment = new Environment(directory);
  const { isEmpty } = new LmdbLog(environment.log);
  await environment.close();
  return isEmpty;
}

test('a log in LMDB becomes one in segment files, once; it goes on from there', async (t) => {
  const directory = folderOf(t);
  await writeOld(directory, TURNS);
  for (const converted of [ENTRIES, undefined, undefined]) {
    const store = new ShardStore(directory, STORE_OPTIONS);
    check(store);
    assert.equal(store.found.converted, converted);
    checkpoint(store);
    await store.close();
    assert(await isConverted(directory));
  }
  const store = new ShardStore(directory, STORE_OPTIONS);
  openLogs(store, APPLIED);
  store.append([batch(1, [entry(8, 3)])]);
  await store.close();
  const again = new ShardStore(directory, STORE_OPTIONS);
  assert.equal(show(logOf(openLogs(again, APPLIED), 1)), `${EXPECTED[0] ?? ''} 8@3`);
  await again.close();
});

/** Its calls that reach the disk fail from the n-th on, as if the process had ended. */
class EndingFolder implements LogFolder {
  readonly #folder: LogFolder;
  left: number;

  constructor(folder: LogFolder, left: number) {
    this.#folder = folder;
    this.left = left;
  }

  step(): void {
    if (this.left-- <= 0) throw new Error('the end');
  }

  names(): string[] {
    return this.#folder.names();
  }

  open(name: string): SegmentFile {
    return this.#wrap(this.#folder.open(name));
  }

  create(name: string, bytes: number, log: bigint): SegmentFile {
    this.step();
    return this.#wrap(this.#folder.create(name, bytes, log));
  }

  async createAhead(): Promise<undefined> {}

  remove(name: string): void {
    this.step();
    this.#folder.remove(name);
  }

  setAside(): string {
    return this.#folder.setAside();
  }

  #wrap(file: SegmentFile): SegmentFile {
    return {
      name: file.name,
      bytes: file.bytes,
      read: (at, bytes) => file.read(at, bytes),
      write: (at, bytes) => {
        this.step();
        file.write(at, bytes);
      },
      sync: () => {
        this.step();
        file.sync();
      },
      close: () => file.close(),
    };
  }
}

/** The same for commits, counted together with the calls of the folder. */
class EndingEnvironment extends Environment {
  readonly #step: () => void;

  constructor(directory: string, step: () => void) {
    super(directory);
    this.#step = step;
  }

  override commit(write: () => void): void {
    this.#step();
    super.commit(write);
  }
}

test('a conversion that was interrupted at any step begins again, also several times', async (t) => {
  const directory = folderOf(t);
  await writeOld(directory, TURNS);
  let steps = 0;
  for (let isDone = false; !isDone; steps++) {
    const folder = new EndingFolder(new DiskFolder(`${directory}/log`), steps);
    const environment = new EndingEnvironment(directory, () => folder.step());
    let store: ShardStore | undefined;
    try {
      store = new ShardStore(directory, { ...STORE_OPTIONS, disk: { environment, folder, sizes: SMALL_SEGMENTS } });
      check(store);
      isDone = true;
    } catch (error) {
      assert.match(String(error), /the end/);
    }
    if (isDone) assert.equal(store?.found.converted, ENTRIES);
    await (store ?? environment).close();
    assert.equal(await isConverted(directory), isDone, `after ${steps} steps`);
  }
  assert(steps > 10, `${steps} steps`);
  const store = new ShardStore(directory, STORE_OPTIONS);
  check(store);
  assert.equal(store.found.converted, undefined);
  await store.close();
});
