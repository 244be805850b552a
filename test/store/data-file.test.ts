// A data file that LMDB would crash on is refused with a sentence.
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { RowDamage } from '../../src/base/row-damage.ts';
import { checkDataFile, checkTrees, readTable } from '../../src/store/data-file.ts';
import { Environment, LmdbTx, STATE_TABLE } from '../../src/store/environment.ts';
import { storeFailure } from '../../src/store/volume.ts';
import { FailingCalls } from '../support/failing-calls.ts';

function emptyDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'millrace-data-file-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

interface Written {
  readonly directory: string;
  readonly file: string;
  readonly content: Uint8Array;
}

/** A data file that was closed, with these rows in one commit. */
async function written(t: TestContext, put: (tx: LmdbTx) => void): Promise<Written> {
  const directory = emptyDirectory(t);
  const environment = new Environment(directory);
  environment.commit(() => put(new LmdbTx(environment.state)));
  await environment.close();
  const file = join(directory, 'data.mdb');
  return { directory, file, content: new Uint8Array(readFileSync(file)) };
}

test('a data file that is cut short or written over is refused, others are not', async (t) => {
  const directory = emptyDirectory(t);
  const environment = new Environment(directory);
  const tx = new LmdbTx(environment.state);
  for (let turn = 0; turn < 5; turn++) {
    environment.commit(() => {
      for (let i = 0; i < 200; i++) tx.put(Uint8Array.of(turn, i), new Uint8Array(3000));
    });
    checkDataFile(join(directory, 'data.mdb'));
  }
  await environment.close();

  const file = join(directory, 'data.mdb');
  const copy = join(directory, 'copy.mdb');
  checkDataFile(file);
  checkDataFile(join(directory, 'missing'));
  for (const size of [100, 4096, 8192, 40_000]) {
    copyFileSync(file, copy);
    truncateSync(copy, size);
    assert.throws(() => checkDataFile(copy), /copy\.mdb is damaged \(it was cut short/, `${size} bytes`);
  }
  truncateSync(copy, 0);
  checkDataFile(copy);
  writeFileSync(copy, new Uint8Array(40_000).fill(0x5a));
  assert.throws(() => checkDataFile(copy), /no LMDB file/);
});

test('a row that got shorter in the commit that wrote it has more pages than it fills', async (t) => {
  const { directory, content, file } = await written(t, (tx) => {
    for (const bytes of [20_000, 9000]) tx.put(Uint8Array.of(7), new Uint8Array(bytes).fill(bytes % 251));
  });
  const pages = Array.from({ length: content.length / PAGE }, (_, page) => new DataView(content.buffer, page * PAGE));
  const counts = pages.filter((page) => page.getUint16(18, true) === 4).map((page) => page.getUint32(20, true));
  assert.deepEqual(counts, [5]);
  checkTrees(file);
  const environment = new Environment(directory);
  try {
    assert.equal(environment.checkLeaves(Uint8Array.of(0), 'read'), undefined);
  } finally {
    await environment.close();
  }
});

test('a data file that another thread commits to is not taken for one that is cut short', async (t) => {
  const directory = emptyDirectory(t);
  const environment = new Environment(directory);
  t.after(async () => await environment.close());
  const tx = new LmdbTx(environment.state);
  environment.commit(() => tx.put(Uint8Array.of(0), new Uint8Array(1)));
  const checker = new Worker(new URL('./data-file.worker.js', import.meta.url), {
    workerData: join(directory, 'data.mdb'),
  });
  let error: unknown;
  checker.on('error', (thrown) => (error = thrown));
  await once(checker, 'message');
  // The wrong order of its steps is seen after some 20 of these.
  for (let i = 0; i < 250 && error === undefined; i++) {
    environment.commit(() => {
      for (let row = 0; row < 20; row++) tx.put(Uint8Array.of(i, row), new Uint8Array(3000));
    });
    await turn();
  }
  await checker.terminate();
  assert.equal(error, undefined);
});

const PAGE = 4096;
/** The part of a meta page that LMDB reads. */
const META_BYTES = 168;

/** Flips the bit, opens the file where the check lets it pass, and reads all rows: the process must live. */
async function openChanged(
  content: Uint8Array,
  directory: string,
  at: number,
  bit: number,
): Promise<'refused' | 'read'> {
  const changed = content.slice();
  changed[at] = (changed[at] ?? 0) ^ (1 << bit);
  const file = join(directory, 'data.mdb');
  writeFileSync(file, changed);
  try {
    checkTrees(file);
  } catch (error) {
    assert.match(String(error), /data\.mdb is damaged \(.*\); the next start rebuilds it /);
    return 'refused';
  }
  const environment = new Environment(directory);
  let rows = 0;
  try {
    new LmdbTx(environment.state).range(Uint8Array.of(0), Uint8Array.of(255), false, () => ++rows > 0);
  } finally {
    await environment.close();
  }
  assert.equal(rows, ROWS, `byte ${at}, bit ${bit}`);
  return 'read';
}

const ROWS = 600;

test('a bit that flips in a meta page or a branch page is refused in a sentence, or changes nothing that is read', async (t) => {
  const { directory, file, content } = await written(t, (tx) => {
    for (let i = 0; i < ROWS; i++) tx.put(Uint8Array.of(1, i >> 8, i & 0xff), new Uint8Array(100));
  });
  checkTrees(file);
  const copy = join(directory, 'copy');
  mkdirSync(copy);
  let refused = 0;
  let read = 0;
  for (const page of [0, 1]) {
    for (let at = 0; at < META_BYTES; at++) {
      const bit = (5 * at + 3 * page) % 8;
      if ((await openChanged(content, copy, page * PAGE + at, bit)) === 'refused') refused++;
      else read++;
    }
  }
  assert(refused > 150, `${refused} refused, ${read} read`);
  // The pointers of a branch page: its flags are 1.
  const isBranch = (page: number): boolean => content[page * PAGE + 18] === 1 && content[page * PAGE + 19] === 0;
  const branch = Array.from({ length: content.length / PAGE }, (_, page) => page).find(
    (page) => page > 1 && isBranch(page),
  );
  assert(branch !== undefined);
  const view = new DataView(content.buffer);
  const node = branch * PAGE + 24 + view.getUint16(branch * PAGE + 24, true);
  for (const [at, bit] of [
    [node + 2, 4],
    [node + 4, 0],
    [branch * PAGE, 1],
    [branch * PAGE + 18, 1],
    [branch * PAGE + 23, 7],
  ] as const)
    assert.equal(await openChanged(content, copy, at, bit), 'refused', `byte ${at - branch * PAGE} of a branch page`);
});

/** Opens the file, where the check lets it pass, and reads what is there: the process must live. */
async function readChanged(directory: string): Promise<'refused' | 'damaged' | 'read'> {
  const file = join(directory, 'data.mdb');
  if (failureOf(() => checkTrees(file)) !== undefined) return 'refused';
  const environment = new Environment(directory);
  const tx = new LmdbTx(environment.state);
  const met = failureOf(() => tx.range(Uint8Array.of(0), Uint8Array.of(255), false, () => true));
  await environment.close();
  if (met === undefined) return 'read';
  assert(met instanceof RowDamage);
  return 'damaged';
}

test('a bit that flips in what leads to the rows of a leaf is refused, or changes a row whose checksum says so', async (t) => {
  const { directory, file, content } = await written(t, (tx) => {
    // Every fourth value has a page of its own.
    for (let i = 0; i < 40; i++) tx.put(Uint8Array.of(1, i), new Uint8Array(i % 4 === 0 ? 4000 : 200).fill(i));
  });
  const view = new DataView(content.buffer);
  const [kindAt, endAt, headBytes] = [18, 20, 24];
  const leaf = Array.from({ length: content.length / PAGE }, (_, page) => page * PAGE)
    .slice(2)
    .find((at) => view.getUint16(at + kindAt, true) === 2 && view.getUint16(at + endAt, true) > 16);
  assert(leaf !== undefined);
  const places = [8, 9, 10].flatMap((_, i) => [headBytes + 2 * i, headBytes + 2 * i + 1]);
  const nodes = [0, 1, 2, 3].map((i) => headBytes + view.getUint16(leaf + headBytes + 2 * i, true));
  const heads = nodes.flatMap((node) => Array.from({ length: 8 }, (_, i) => node + i));
  const ends = { refused: 0, damaged: 0, read: 0 };
  for (const [i, at] of [0, 1, 16, 17, 18, 19, 20, 21, 22, 23, ...places, ...heads].entries()) {
    for (const bit of [i % 8, (i + 5) % 8]) {
      const changed = content.slice();
      changed[leaf + at] = (changed[leaf + at] ?? 0) ^ (1 << bit);
      writeFileSync(file, changed);
      ends[await readChanged(directory)]++;
    }
  }
  assert(ends.refused > 40 && ends.damaged > 10, JSON.stringify(ends));
});

function failureOf(work: () => void): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

test('a page of rows that is empty or lies in the place of another ends in a sentence, not in words of LMDB', async (t) => {
  const keyOf = (i: number): Uint8Array => Uint8Array.of(1, i >> 8, i & 0xff);
  const { directory, file, content } = await written(t, (tx) => {
    for (let i = 0; i < ROWS; i++) tx.put(keyOf(i), new Uint8Array(100).fill(i));
  });
  const view = new DataView(content.buffer);
  const kindOf = (page: number): number => view.getUint16(page * PAGE + 18, true);
  const nodesOf = (page: number): number => view.getUint16(page * PAGE + 20, true) / 2;
  const pages = Array.from({ length: content.length / PAGE }, (_, page) => page).slice(2);
  const branch = pages.find((page) => kindOf(page) === 1);
  assert(branch !== undefined);
  const assertSentence = (error: unknown): void => {
    const sentence = storeFailure(directory, error) ?? String(error);
    assert.match(
      sentence,
      /^.*data\.mdb is damaged \(.+\); the next start rebuilds it .*, and where it cannot, restore .*$/,
    );
    assert(sentence.startsWith(file), sentence);
  };
  let atStart = 0;
  let later = 0;
  // Those of rows have more than the free list, or the table of tables.
  for (const page of pages.filter((one) => kindOf(one) === 2 && nodesOf(one) > 8)) {
    for (const other of [new Uint8Array(PAGE), content.slice(branch * PAGE, (branch + 1) * PAGE)]) {
      const changed = content.slice();
      changed.set(other, page * PAGE);
      writeFileSync(file, changed);
      const refused = failureOf(() => checkTrees(file));
      // No tree has the page any more.
      if (refused === undefined) continue;
      assertSentence(refused);
      atStart++;
      // As when the disk changes it behind the check. A cursor would end the process.
      const opened = new Environment(directory);
      const rows = new LmdbTx(opened.state);
      const met = failureOf(() => {
        for (let i = 0; i < ROWS; i++) rows.get(keyOf(i));
      });
      if (met !== undefined) later++;
      if (met !== undefined) assertSentence(met);
      await opened.close();
    }
  }
  assert(atStart > 20 && later > 10, `${atStart} were refused at the start, ${later} later`);
});

test('a sector that the disk cannot read is a page that changed: its rows are a gap, and a long row alone is one too', async (t) => {
  const keyOf = (i: number): Uint8Array => Uint8Array.of(1, i);
  const rows = 60;
  const { file } = await written(t, (tx) => {
    for (let i = 0; i < rows; i++) tx.put(keyOf(i), new Uint8Array(i % 10 === 0 ? 9000 : 300).fill(i));
  });
  const calls = await FailingCalls.in(t);
  let [all, wide, single] = [0, 0, 0];
  for (let read = 0; ; read++) {
    const seen = new Set<number>();
    const gaps: { readonly from: Uint8Array; readonly to: Uint8Array | undefined }[] = [];
    calls.plan('readSync', read, 'EIO');
    readTable(file, STATE_TABLE, { row: ([, i]) => seen.add(i ?? 0), gap: (gap) => gaps.push(gap) });
    calls.end();
    if (!calls.hasFailed) break;
    // None: the other meta page is the newer one.
    assert(gaps.length <= 1);
    const [{ from, to } = { from: keyOf(rows), to: undefined }] = gaps;
    const isLost = (i: number): boolean =>
      Buffer.compare(from, keyOf(i)) <= 0 && (to === undefined || Buffer.compare(keyOf(i), to) < 0);
    for (let i = 0; i < rows; i++) assert.equal(seen.has(i), !isLost(i), `read ${read}, row ${i}`);
    if (seen.size === rows - 1) single++;
    else if (seen.size === 0) all++;
    else if (gaps.length > 0) wide++;
  }
  // A meta page, or the table of tables.
  assert(all > 0 && wide > 3 && single === rows / 10, `${all} of all, ${wide} pages, ${single} long rows`);
});
