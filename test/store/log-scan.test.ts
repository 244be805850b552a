// A start judges the records it finds: what was never acknowledged is cut off, anything else that is missing is damage.
// The table of all cases is in the store's README.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import {
  LOG_PAGE_BYTES,
  LogDamage,
  RECORD_HEAD,
  SECTOR_BYTES,
  SECTOR_STAMP,
  freshBytes,
  pagesFor,
  readSpan,
  sealRecord,
} from '../../src/store/log-record.ts';
import { type Covered, type LogScan, type Scanned, scanLog } from '../../src/store/log-scan.ts';
import { Segments } from '../../src/store/segments.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { MemoryFolder } from './memory-folder.ts';

const LOG = 0x0102_0304_0506_0708n;
const RECORD_START = RECORD_HEAD.size;
/** Three records of a page, and the one that says where the log goes on. */
const PAGES = 4;
const SIZES = { bytesMin: PAGES * LOG_PAGE_BYTES, bytesMax: PAGES * LOG_PAGE_BYTES };
/** The one between is that of a segment that is being made meanwhile. */
const SEGMENT_2 = 'segment-3';

/** Text without a zero byte, so that none can be missing unnoticed. */
function textOf(sequence: number, bytes = 60): Buffer {
  return Buffer.alloc(bytes, `record ${sequence};`);
}

class Log {
  readonly folder = new MemoryFolder();
  readonly segments = new Segments(this.folder, LOG, SIZES);
  /** As the first checkpoint has it. */
  readonly covered: Covered;

  /** Records of these lengths. */
  constructor(...lengths: readonly number[]) {
    this.segments.reserve(0);
    this.covered = { log: LOG, oldest: 1, last: 0, place: this.segments.place };
    for (const bytes of lengths) this.append(bytes);
  }

  append(bytes = 60): void {
    const data = textOf(this.segments.lastSequence + 1, bytes);
    const record = new Uint8Array(pagesFor(bytes));
    record.set(data, RECORD_START);
    this.segments.append(record, bytes);
  }

  /** A checkpoint now, of which so many records stay needed. */
  checkpoint(needed: number): Covered {
    const last = this.segments.lastSequence;
    return { log: LOG, oldest: last + 1 - needed, last, place: this.segments.place };
  }

  file(name: string): Uint8Array {
    const content = this.folder.files.get(name);
    assert(content !== undefined, `${name} is there`);
    return content;
  }

  scan(covered = this.covered): LogScan<Scanned> {
    const segments = [...this.folder.files].map(([name, content]) => ({
      ...{ name, bytes: content.length },
      read: (at: number, bytes: number) => content.slice(at, at + bytes),
    }));
    return scanLog(segments, covered);
  }

  found(covered = this.covered): number[] {
    return this.scan(covered).records.map(({ sequence }) => sequence);
  }

  /** The sentence of the damage. */
  damage(covered = this.covered): string {
    try {
      return `no damage, records ${this.found(covered).join(' ')}`;
    } catch (error) {
      assert(error instanceof LogDamage, String(error));
      return error.message;
    }
  }
}

/** Does something to a file while `look` runs. */
function withChange(content: Uint8Array, change: (content: Uint8Array) => void, look: () => void): void {
  const before = content.slice();
  change(content);
  look();
  content.set(before);
}

const flip = (content: Uint8Array, bit: number): void =>
  void (content[bit >> 3] = (content[bit >> 3] ?? 0) ^ (1 << (bit & 7)));

test('data comes back from between the stamps, whatever its size and wherever a part begins', () => {
  const random = createRandom(seedFromEnvironment());
  for (let size = 0; size < 9000; size += random.int(1, 40)) {
    const data = textOf(7, size);
    const record = new Uint8Array(pagesFor(size)).fill(0xee);
    record.set(data, RECORD_START);
    const sealed = sealRecord(record, new DataView(record.buffer), LOG, {
      sequence: 7,
      dataBytes: size,
      next: undefined,
    });
    assert.equal(sealed.length, pagesFor(size));
    const file = { read: (at: number, bytes: number) => sealed.slice(at, at + bytes) };
    const span = { at: 0, version: 2, dataBytes: size };
    assert.deepEqual(readSpan(file, span, RECORD_START, size), new Uint8Array(data), `${size} bytes`);
    const from = random.int(0, size);
    const to = random.int(from, size);
    assert.deepEqual(
      readSpan(file, span, RECORD_START + from, to - from),
      new Uint8Array(data.subarray(from, to)),
      `SEED=${random.seed} ${from} to ${to} of ${size}`,
    );
  }
});

test('a last record of which sectors were not written is cut off, and the report says what it was', () => {
  const random = createRandom(seedFromEnvironment());
  for (const length of [60, 9000]) {
    const log = new Log(60, 60);
    const before = new Map([...log.folder.files].map(([name, content]) => [name, content.slice()]));
    log.append(length);
    const name = length === 60 ? 'segment-1' : SEGMENT_2;
    const at = length === 60 ? 2 * LOG_PAGE_BYTES : 0;
    const sequence = length === 60 ? 3 : 4;
    const content = log.file(name);
    const stale = before.get(name) ?? freshBytes(LOG, content.length);
    const sectors = pagesFor(length) / SECTOR_BYTES;
    for (let round = 0; round < 300; round++) {
      const missing = Array.from({ length: sectors }, (_, i) => i).filter(() => random.chance(random.next()));
      if (round < sectors) missing.splice(0, sectors, ...Array.from({ length: sectors - round }, (_, i) => round + i));
      const where = `SEED=${random.seed} round ${round}: sectors ${missing.join(' ')} of ${length} bytes`;
      const restore = (bytes: Uint8Array): void => {
        for (const sector of missing) {
          const from = at + sector * SECTOR_BYTES;
          bytes.set(stale.subarray(from, from + SECTOR_BYTES), from);
        }
      };
      withChange(content, restore, () => {
        const { nextSequence, cut, end } = log.scan();
        // Sectors behind the data say nothing.
        const isWhole = nextSequence > sequence;
        assert(isWhole || nextSequence === sequence, where);
        if (missing.some((sector) => sector < length / SECTOR_BYTES)) assert(!isWhole, where);
        if (missing.length === sectors) assert.equal(cut, undefined, where);
        else if (!isWhole) assert.deepEqual([cut?.sequence, cut?.segment, cut?.at], [sequence, name, at], where);
        assert.equal(end?.at, isWhole ? at + pagesFor(length) : at, where);
      });
    }
  }
});

test('a write that ends within a sector is cut off', () => {
  const log = new Log(60, 60, 3000);
  const content = log.file('segment-1');
  const stale = freshBytes(LOG, LOG_PAGE_BYTES);
  // Five stamps lie in the data; what they displaced is behind it, and ends in the next sector.
  const displacedEnd = 6 * SECTOR_BYTES + 3 * SECTOR_STAMP.size;
  for (let at = 0; at < LOG_PAGE_BYTES; at += 7) {
    withChange(
      content,
      (bytes) => bytes.set(stale.subarray(at), 2 * LOG_PAGE_BYTES + at),
      () => assert.deepEqual(log.found(), at < displacedEnd ? [1, 2] : [1, 2, 3], `from byte ${at} on`),
    );
  }
});

test('a bit that is flipped anywhere in the last record is damage, unless it says nothing', () => {
  for (const length of [60, 3000]) {
    const log = new Log(60, 60, length);
    const content = log.file('segment-1');
    const at = 2 * LOG_PAGE_BYTES;
    for (let bit = 0; bit < 8 * (RECORD_START + length); bit += length === 60 ? 1 : 5) {
      const inSector = (bit >> 3) % SECTOR_BYTES;
      const isStamp = inSector >= SECTOR_BYTES - SECTOR_STAMP.size;
      withChange(
        content,
        (bytes) => flip(bytes, 8 * at + bit),
        () =>
          assert.match(
            log.damage(),
            isStamp
              ? /^no damage, records 1 2 3$/
              : /^record 3 in segment-1 at byte 8192 was written to its end, and has/,
            `bit ${bit} of ${length} bytes`,
          ),
      );
    }
  }
});

test('a page of the last record that is lost, or cannot be read, is damage', () => {
  const log = new Log(60, 60, 9000);
  const content = log.file(SEGMENT_2);
  for (let page = 0; page < pagesFor(9000) / LOG_PAGE_BYTES; page++) {
    for (const fill of [0, 0x5a]) {
      withChange(
        content,
        (bytes) => bytes.fill(fill, page * LOG_PAGE_BYTES, (page + 1) * LOG_PAGE_BYTES),
        () =>
          assert.match(log.damage(), /^record 4 in segment-3 at byte 0 was written to its end, and has changed since$/),
      );
    }
  }
  const single = new Log(60, 60, 60);
  single.file('segment-1').fill(0, 2 * LOG_PAGE_BYTES, 3 * LOG_PAGE_BYTES);
  assert.match(
    single.damage(),
    /^record 3 in segment-1 at byte 8192 is lost: the page holds nothing that the log wrote$/,
  );
});

test('a record is damaged when anything shows that a later one was written', () => {
  const log = new Log(60, 60, 60, 60, 5000);
  const places = [
    { name: 'segment-1', at: 0, said: /^record 1 is not readable .* record 2 at byte 4096 of segment-1 was written/ },
    {
      name: 'segment-1',
      at: 4096,
      said: /record 2 .* behind record 1, from segment-1 at byte 4096 on, and record 3 at/,
    },
    { name: 'segment-1', at: 8192, said: /record 3 .* from segment-1 at byte 8192 on, and record 4 at byte 12288 of/ },
    { name: SEGMENT_2, at: 0, said: /record 5 .* from segment-1 at byte 16384 on, and record 6 at byte 4096 of/ },
  ];
  for (const { name, at, said } of places) {
    for (let bit = 0; bit < 8 * (RECORD_START + 60); bit++) {
      withChange(
        log.file(name),
        (bytes) => flip(bytes, 8 * at + bit),
        () => assert.match(log.damage(), said, `bit ${bit} of the record at ${at} of ${name}`),
      );
    }
  }
  // The later one is torn: its head is enough, and so is a sector of it.
  const content = log.file(SEGMENT_2);
  const stale = freshBytes(LOG, content.length);
  for (const [from, to] of [
    [SECTOR_BYTES, 8192],
    [0, 4096],
  ] as const) {
    withChange(
      content,
      (bytes) => {
        bytes.set(stale.subarray(4096 + from, 4096 + to), 4096 + from);
        bytes.set(stale.subarray(0, 4096));
      },
      () =>
        assert.match(log.damage(), /record 5 .*(record 6 at byte 4096 of segment-3|record 6) was written behind it/),
    );
  }
});

test('a sealed log ends nowhere else', () => {
  const log = new Log(60, 60);
  log.segments.seal();
  log.segments.seal();
  assert.equal(log.segments.lastSequence, 3, 'once');
  assert.deepEqual(log.found(), [1, 2, 3]);
  const content = log.file('segment-1');
  withChange(
    content,
    (bytes) => bytes.set(freshBytes(LOG, LOG_PAGE_BYTES), LOG_PAGE_BYTES),
    () =>
      assert.match(
        log.damage(),
        /^record 2 is not readable .* record 3 at byte 8192 of segment-1 was written behind it/,
      ),
  );
  // The seal holds nothing, and each sector of it is one.
  for (let sector = 0; sector < LOG_PAGE_BYTES; sector += SECTOR_BYTES) {
    withChange(
      content,
      (bytes) => bytes.fill(0, 8192 + sector, 8192 + sector + SECTOR_BYTES),
      () => assert.deepEqual(log.found(), [1, 2, 3]),
    );
  }
  log.append();
  assert.deepEqual(log.found(), [1, 2, 3, 4, 5], 'it goes on behind');
});

test('what a checkpoint names must be there', () => {
  const log = new Log(60, 60, 60);
  const checkpointed = log.checkpoint(2);
  log.file('segment-1').set(freshBytes(LOG, LOG_PAGE_BYTES), 2 * LOG_PAGE_BYTES);
  assert.deepEqual(log.found(), [1, 2]);
  assert.match(log.damage(checkpointed), /^record 3 is not .* checkpoint covers the log up to record 3$/);
});

test('what no checkpoint needs may be damaged as it likes', () => {
  const random = createRandom(seedFromEnvironment());
  const log = new Log(60, 60, 60, 60, 60);
  log.segments.seal();
  for (const needed of [0, 1, 3]) {
    const covered = log.checkpoint(needed);
    const expected = Array.from({ length: needed }, (_, i) => covered.oldest + i);
    assert.deepEqual(log.found(covered), expected);
    for (const fill of [0, 0x5a]) {
      withChange(
        log.file('segment-1'),
        (bytes) => bytes.fill(fill),
        () => assert.deepEqual(log.found(covered), expected),
      );
    }
    for (let i = 0; needed < 3 && i < 200; i++) {
      withChange(
        log.file(SEGMENT_2),
        (bytes) => flip(bytes, random.int(0, 8 * LOG_PAGE_BYTES * (3 - needed) - 1)),
        () => assert.deepEqual(log.found(covered), expected, `SEED=${random.seed} ${needed} are needed`),
      );
    }
  }
  const covered = log.checkpoint(0);
  log.folder.remove('segment-1');
  log.file(SEGMENT_2).fill(0, 0, 3 * LOG_PAGE_BYTES);
  assert.deepEqual(log.found(covered), []);
  assert.equal(log.scan(covered).end?.at, 3 * LOG_PAGE_BYTES);
});

test('a segment that is gone, or shorter than it was made, is missed', () => {
  const lengths = Array.from({ length: 9 }, () => 60);
  const without = (name: string, needed?: number): string => {
    const log = new Log(...lengths);
    const covered = needed === undefined ? log.covered : log.checkpoint(needed);
    log.folder.remove(name);
    return log.damage(covered);
  };
  assert.match(without('segment-1'), /^record 1 is not readable .* record 5 at byte 0 of segment-3 was written behind/);
  assert.match(without(SEGMENT_2), /^record 5 .* segment-1 at byte 16384 on, and record 9 at byte 0 of segment-4 was/);
  assert.match(without('segment-4'), /^segment-4 is missing: the log goes on there with record 9$/);
  assert.equal(without('segment-1', 4), 'no damage, records 8 9 10 11');
  assert.equal(new Log().damage({ log: LOG, oldest: 1, last: 0, place: undefined }), 'no damage, records ');
  const empty = new Log();
  empty.folder.remove('segment-1');
  assert.equal(empty.damage(), 'the log has no segment files');
  for (let size = 0; size < SIZES.bytesMin; size += SECTOR_BYTES) {
    const log = new Log(60, 60, 60, 60, 60);
    log.folder.files.set(SEGMENT_2, log.file(SEGMENT_2).slice(0, size));
    assert.match(log.damage(), /^segment-3 has \d+ bytes and was made with 16384: records from \d on may be missing$/);
    const first = new Log(60);
    first.folder.files.set('segment-1', first.file('segment-1').slice(0, size));
    assert.match(first.damage(), /^segment-1 has \d+ bytes and was made with 16384/);
  }
});

test('older records behind the newest are those of an earlier use of the segment', () => {
  const log = new Log(60, 60, 60, 60);
  log.segments.release(5);
  for (const _ of [6, 7]) log.append();
  const { size } = log.folder.files;
  log.append();
  assert.equal(log.folder.files.size, size, 'the first segment is used again');
  const covered = {
    ...log.covered,
    oldest: 5,
    last: 5,
    place: { segments: [{ segment: 3, bytes: SIZES.bytesMin }], end: 4096 },
  };
  assert.deepEqual(log.found(covered), [5, 6, 7, 8, 9]);
  // Record 9 was never written: older records lie in its place, and mean nothing.
  log.file('segment-1').set(freshBytes(LOG, 4096));
  assert.deepEqual(log.found(covered), [5, 6, 7, 8]);
  assert.equal(log.scan(covered).cut, undefined);
});

test('a page of a record that the disk also wrote elsewhere is no matter', () => {
  const log = new Log(60, 60);
  const content = log.file('segment-1');
  content.set(content.slice(0, LOG_PAGE_BYTES), 3 * LOG_PAGE_BYTES);
  assert.deepEqual(log.found(), [1, 2]);
  content.fill(0, LOG_PAGE_BYTES, 2 * LOG_PAGE_BYTES);
  content.set(freshBytes(LOG, LOG_PAGE_BYTES), 3 * LOG_PAGE_BYTES);
  assert.match(log.damage(), /^record 2 in segment-1 at byte 4096 is lost/);
});

test('records of another log are none', () => {
  const log = new Log(60, 60);
  assert.match(log.damage({ ...log.covered, log: LOG + 1n }), /^record 1 in segment-1 at byte 0 is lost/);
});
