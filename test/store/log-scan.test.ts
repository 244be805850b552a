// A start judges the records it finds: the torn end of a log is cut off, anything else that is missing is damage.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { LOG_PAGE_BYTES, RECORD_HEAD, pagesFor } from '../../src/store/log-record.ts';
import { type Covered, LogDamage, type Scanned, scanLog } from '../../src/store/log-scan.ts';
import { RECORD_START, Segments } from '../../src/store/segments.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { MemoryFolder } from './memory-folder.ts';

const LOG = 0x0102_0304_0506_0708n;
const ALL: Covered = { log: LOG, oldest: 1, last: 0 };
const SECTOR_BYTES = 512;
/** Three pages a segment. */
const SIZES = { bytesMin: 3 * LOG_PAGE_BYTES, bytesMax: 3 * LOG_PAGE_BYTES };

/** Text without a zero byte, so that none can be missing unnoticed. */
function textOf(sequence: number, bytes = 60): Buffer {
  return Buffer.alloc(bytes, `record ${sequence};`);
}

function appendTo(segments: Segments, data: Uint8Array): void {
  const record = new Uint8Array(pagesFor(data.length));
  record.set(data, RECORD_START);
  segments.append(record, data.length);
}

/** A log with records of these lengths. */
function written(lengths: readonly number[], log = LOG): MemoryFolder {
  const folder = new MemoryFolder();
  const segments = new Segments(folder, log, SIZES);
  lengths.forEach((bytes, i) => appendTo(segments, textOf(i + 1, bytes)));
  return folder;
}

function segmentsOf({ files }: MemoryFolder): Scanned[] {
  return [...files].map(([name, content]) => ({
    ...{ name, bytes: content.length },
    read: (at, bytes) => content.subarray(at, at + bytes),
  }));
}

const found = (folder: MemoryFolder, covered = ALL): number[] =>
  scanLog(segmentsOf(folder), covered).map(({ sequence }) => sequence);

/** The sentence of the damage. */
function damageOf(folder: MemoryFolder, covered = ALL): string {
  try {
    return `no damage, records ${found(folder, covered).join(' ')}`;
  } catch (error) {
    assert(error instanceof LogDamage, String(error));
    return error.message;
  }
}

/** Does something to the file of one record while `look` runs. */
function withChange(content: Uint8Array, change: (content: Uint8Array) => void, look: () => void): void {
  const before = content.slice();
  change(content);
  look();
  content.set(before);
}

/** The name between is that of a segment that is being made meanwhile. */
const SEGMENT_2 = 'segment-3';

function fileOf(folder: MemoryFolder, name: string): Uint8Array {
  const content = folder.files.get(name);
  assert(content !== undefined, `${name} is there`);
  return content;
}

test('a last record that ends anywhere is cut off, whatever lies behind its end', () => {
  const folder = written([60, 60, 60, 60]);
  const content = fileOf(folder, SEGMENT_2);
  const end = RECORD_START + 60;
  for (const fill of [0, 0x5a]) {
    for (let at = 0; at <= end; at++) {
      const expected = at < end ? [1, 2, 3] : [1, 2, 3, 4];
      withChange(
        content,
        (bytes) => bytes.fill(fill, at),
        () => assert.deepEqual(found(folder), expected, `from byte ${at} on ${fill}`),
      );
    }
  }
});

test('a last record of which some sectors are missing is cut off', () => {
  const random = createRandom(seedFromEnvironment());
  const lengths = [60, 60, 60, 9000];
  const folder = written(lengths);
  const content = fileOf(folder, SEGMENT_2);
  for (let round = 0; round < 300; round++) {
    const missing = Array.from({ length: Math.ceil((RECORD_START + 9000) / SECTOR_BYTES) }, (_, i) => i).filter(() =>
      random.chance(random.next()),
    );
    withChange(
      content,
      (bytes) => missing.forEach((sector) => bytes.fill(0, sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)),
      () =>
        assert.deepEqual(found(folder), missing.length > 0 ? [1, 2, 3] : [1, 2, 3, 4], `SEED=${random.seed} ${round}`),
    );
  }
});

test('a bit that is flipped anywhere in an earlier record is damage, and the sentence says where', () => {
  const folder = written([60, 60, 60, 5000, 60]);
  const places = [
    { name: 'segment-1', at: 0, said: /^record 1 is not readable .* record 2 at byte 4096 of segment-1 is whole/ },
    {
      name: 'segment-1',
      at: 4096,
      said: /record 2 .* behind record 1, from segment-1 at byte 4096 on, and record 3 at/,
    },
    {
      name: 'segment-1',
      at: 8192,
      said: /record 3 .* from segment-1 at byte 8192 on, and record 4 at byte 0 of segment-3/,
    },
    {
      name: SEGMENT_2,
      at: 0,
      said: /record 4 .* from segment-1 at byte 12288 on, and record 5 at byte 8192 of segment-3/,
    },
  ] as const;
  for (const { name, at, said } of places) {
    const content = fileOf(folder, name);
    for (let byte = 0; byte < RECORD_START + 60; byte++) {
      for (let bit = 0; bit < 8; bit++) {
        withChange(
          content,
          (bytes) => (bytes[at + byte] = (bytes[at + byte] ?? 0) ^ (1 << bit)),
          () => assert.match(damageOf(folder), said, `bit ${bit} of byte ${byte} of the record at ${at} of ${name}`),
        );
      }
    }
  }
  // The rest of the last page says nothing.
  const content = fileOf(folder, 'segment-1');
  withChange(
    content,
    (bytes) => bytes.fill(1, RECORD_START + 60, LOG_PAGE_BYTES),
    () => assert.deepEqual(found(folder), [1, 2, 3, 4, 5]),
  );
});

test('a last record that a checkpoint covers is no torn one', () => {
  const folder = written([60, 60, 60, 60]);
  fileOf(folder, SEGMENT_2)[40] = 0;
  assert.deepEqual(found(folder, { ...ALL, last: 3 }), [1, 2, 3]);
  assert.match(damageOf(folder, { ...ALL, last: 4 }), /^record 4 is not .* checkpoint covers the log up to record 4$/);
});

test('older records behind the newest are those of an earlier use of the segment', () => {
  const folder = written([60, 60, 60]);
  const segments = new Segments(folder, LOG, SIZES);
  const files = folder.names().map((name) => folder.open(name));
  segments.adopt(files, scanLog(files, ALL), 4);
  appendTo(segments, textOf(4));
  segments.release(4);
  for (const sequence of [5, 6]) appendTo(segments, textOf(sequence));
  const before = folder.files.size;
  appendTo(segments, textOf(7));
  assert.equal(folder.files.size, before, 'the first segment is used again');
  assert.deepEqual(found(folder, { log: LOG, oldest: 4, last: 4 }), [4, 5, 6, 7]);
  // Only the row can tell: 2 and 3 are whole, and 1 is gone.
  assert.match(damageOf(folder), /^record 1 is not readable/);
  // A torn record 7 leaves what it was to replace, which is older and means nothing.
  fileOf(folder, 'segment-1').fill(0, 100, RECORD_START + 60);
  fileOf(folder, 'segment-1').fill(0, 33, 100);
  assert.deepEqual(found(folder, { log: LOG, oldest: 4, last: 4 }), [4, 5, 6]);
});

test('records of another log are none', () => {
  const folder = written([60, 60], LOG + 1n);
  assert.deepEqual(found(folder), []);
  assert.match(damageOf(folder, { ...ALL, last: 2 }), /^record 1 is not readable .* up to record 2$/);
});

test('a missing segment is damage unless nothing of it is needed', () => {
  const lengths = Array.from({ length: 9 }, () => 60);
  const without = (name: string, covered = ALL): string => {
    const folder = written(lengths);
    folder.remove(name);
    return damageOf(folder, covered);
  };
  assert.match(without('segment-1'), /^record 1 is not readable .* record 4 at byte 0 of segment-3 is whole\)$/);
  assert.match(without(SEGMENT_2), /^record 4 .* segment-1 at byte 12288 on, and record 7 at byte 0 of segment-4 is/);
  assert.match(without('segment-4', { ...ALL, last: 8 }), /^record 7 is not .* covers the log up to record 8$/);
  assert.equal(without('segment-1', { log: LOG, oldest: 4, last: 8 }), 'no damage, records 4 5 6 7 8 9');
  assert.equal(damageOf(new MemoryFolder()), 'the log has no segment files');
});

test('a file that was cut short is damage unless only the end of the log is missing', () => {
  for (let size = 0; size <= SIZES.bytesMin; size += SECTOR_BYTES) {
    const folder = written([60, 60, 60, 60, 60]);
    const whole = Math.floor((size + SECTOR_BYTES) / LOG_PAGE_BYTES);
    const cut = (name: string): void => void folder.files.set(name, fileOf(folder, name).slice(0, size));
    cut('segment-1');
    if (size > 2 * LOG_PAGE_BYTES) assert.deepEqual(found(folder), [1, 2, 3, 4, 5], `${size} bytes`);
    else assert.match(damageOf(folder), /^record \d is not readable .* of segment-3 is whole\)$/, `${size} bytes`);
    const other = written([60, 60, 60, 60, 60]);
    other.files.set(SEGMENT_2, fileOf(other, SEGMENT_2).slice(0, size));
    const left = size === 0 ? 0 : size > LOG_PAGE_BYTES ? 2 : 1;
    assert.deepEqual(found(other), [1, 2, 3, 4, 5].slice(0, 3 + left), `${size} bytes, ${whole}`);
  }
});

test('a record twice is damage', () => {
  const folder = written([60, 60, 60, 60]);
  const content = fileOf(folder, SEGMENT_2);
  content.set(content.slice(0, LOG_PAGE_BYTES), 2 * LOG_PAGE_BYTES);
  assert.match(damageOf(folder), /^segment-3 holds record 4 a second time$/);
});

test('a head that says more than there is, or less than it may, is no record', () => {
  const { fields } = RECORD_HEAD;
  const folder = written([60, 60]);
  const content = fileOf(folder, 'segment-1');
  const view = new DataView(content.buffer);
  for (const sequence of [0, -1, 0.5, Number.NaN, Infinity, 2 ** 53]) {
    withChange(
      content,
      () => fields.sequence.set(view, LOG_PAGE_BYTES, sequence),
      () => assert.deepEqual(found(folder), [1], `sequence ${sequence}`),
    );
  }
  for (const bytes of [3 * LOG_PAGE_BYTES, 0xffff_ffff]) {
    withChange(
      content,
      () => fields.dataBytes.set(view, LOG_PAGE_BYTES, bytes),
      () => assert.deepEqual(found(folder), [1], `${bytes} bytes`),
    );
  }
});
