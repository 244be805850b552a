/**
 * The segments of a shard's log: one that takes records, those with records that are still needed,
 * oldest first, and free ones. A segment is free when a checkpoint on disk says that no record of
 * it is needed; it is then written again from its start.
 */
import { assert } from '../base/assert.ts';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import type { SegmentFile, LogFolder } from './log-files.ts';
import { type LogSyncer, WAITING_SYNCER } from './log-sync.ts';
import type { Cut } from './log-end.ts';
import {
  LOG_PAGE_BYTES,
  LOG_VERSION,
  LogDamage,
  type SegmentNote,
  freshBytes,
  pagesFor,
  pagesOf,
  sealRecord,
} from './log-record.ts';
import { type LogScan, type RecordPlace, segmentName } from './log-scan.ts';

export class Segment {
  readonly file: SegmentFile;
  /** Where the next record goes. */
  end = 0;
  /** Entries of groups that are still needed, and votes that no checkpoint has. */
  live = 0;
  /** Its records, from the first that is needed on. */
  readonly #records: SegmentRecord[] = [];
  lastSequence = 0;
  /** A version before made it, without stamps: it is not used again. */
  isOld = false;

  constructor(file: SegmentFile) {
    this.file = file;
  }

  add(record: SegmentRecord): void {
    this.#records.push(record);
    if (record.version !== LOG_VERSION) this.isOld = true;
    this.lastSequence = record.sequence;
    this.end = record.at + pagesOf(record);
  }

  /** The first record that is needed; undefined: none is. */
  get firstNeeded(): SegmentRecord | undefined {
    if (this.live === 0) return undefined;
    // Only the newest record of the log gets something to keep.
    const first = this.#records.findIndex(({ live }) => live > 0);
    this.#records.splice(0, first);
    return this.#records[0];
  }

  clear(): void {
    this.#records.length = 0;
    this.lastSequence = 0;
    this.end = 0;
  }
}

/** A record that its entries point to. */
export class SegmentRecord {
  readonly segment: Segment;
  readonly at: number;
  readonly version: number;
  readonly sequence: number;
  readonly dataBytes: number;
  /** Entries and votes of it that are needed. */
  live = 0;

  constructor(segment: Segment, { at, version, sequence, dataBytes }: Omit<RecordPlace<unknown>, 'segment' | 'next'>) {
    this.segment = segment;
    this.at = at;
    this.version = version;
    this.sequence = sequence;
    this.dataBytes = dataBytes;
  }

  hold(): void {
    this.live++;
    this.segment.live++;
  }

  release(): void {
    this.live--;
    this.segment.live--;
  }
}

/** Where an entry lies. */
export interface LogPlace {
  readonly record: SegmentRecord;
  /** Its position in the segment's file. */
  readonly at: number;
}

const MIB = 1024 * 1024;

export interface SegmentSizes {
  /** Size of the first segment. Later ones are as large as all before them together, so a quiet log stays small. */
  readonly bytesMin: number;
  /** Half a second of a busy shard: making the next one keeps up, and a checkpoint frees the oldest soon. */
  readonly bytesMax: number;
}

export const SEGMENT_SIZES: SegmentSizes = { bytesMin: MIB, bytesMax: 16 * MIB };
/** Free segments that are kept: what one round of checkpoints of small appends frees at full speed. */
const FREE_MAX = 4;
/**
 * A checkpoint of large bodies frees more. A removed segment has to be made again, written and synced in the way of
 * the turns; so of those that were in use at once so many are kept too, and one less with each so many checkpoints.
 */
const EXTRA_MAX = 16;
const PEAK_CHECKPOINTS = 64;

interface Written {
  readonly dataBytes: number;
  readonly next?: SegmentNote;
  readonly how?: 'wait' | 'behind';
}

export class Segments {
  readonly #folder: LogFolder;
  readonly #sizes: SegmentSizes;
  readonly #log: bigint;
  readonly #syncer: LogSyncer;
  /** The record whose sync is under way: nothing is written before its end. */
  #syncing: SegmentRecord | undefined;
  /** The first record that was needed before: it is, until what replaces its entries is on disk. */
  #neededBefore = 1;
  /** Those with records, oldest first; the last one takes the next record. */
  readonly #used: Segment[] = [];
  readonly #free: Segment[] = [];
  /** A record without data. */
  readonly #mark = new Uint8Array(LOG_PAGE_BYTES);
  #nextName = 1;
  #nextSequence = 1;
  #isSealed = true;
  #making: Promise<void> | undefined;
  #isClosed = false;
  /** Segments that were in use at once, lately. */
  #peak = 0;
  /** The next segment could not be made ahead, and not for lack of room. */
  #failure: Error | undefined;
  /** Segments that had to be made while a turn waited. */
  madeLate = 0;

  /** `log` identifies the log; its records carry it. */
  constructor(folder: LogFolder, log: bigint, sizes: SegmentSizes, syncer: LogSyncer = WAITING_SYNCER) {
    this.#folder = folder;
    this.#log = log;
    this.#sizes = sizes;
    this.#syncer = syncer;
  }

  /**
   * Takes over what a scan found, before the first append; returns its records. `files`: all of the folder.
   * Those without a record that is needed are removed unless `isFree`.
   */
  adopt(
    files: readonly SegmentFile[],
    { records, end, nextSequence, cut }: LogScan<SegmentFile>,
    isFree: (file: SegmentFile) => boolean,
  ): SegmentRecord[] {
    for (const file of files) this.#nextName = Math.max(this.#nextName, numberOf(file) + 1);
    const adopted = records.map((place) => {
      const record = new SegmentRecord(this.#use(place.segment), place);
      record.segment.add(record);
      return record;
    });
    if (end !== undefined) this.#use(end.segment).end = end.at;
    for (const file of files) {
      if (this.#used.some((segment) => segment.file === file)) continue;
      if (isFree(file)) this.#free.push(new Segment(file));
      else this.#remove(file);
    }
    this.#nextSequence = nextSequence;
    const last = adopted.at(-1);
    if (last !== undefined) writeAgain(last);
    this.#isSealed = last === undefined || last.dataBytes === 0;
    if (end !== undefined && cut !== undefined) this.#erase(end.segment, cut);
    if (end === undefined) this.reserveAnother();
    return adopted;
  }

  #use(file: SegmentFile): Segment {
    const last = this.#used.at(-1);
    if (last?.file === file) return last;
    if (this.#used.some((segment) => segment.file === file))
      throw new LogDamage(`${file.name} holds records from before and behind those of another segment`);
    const segment = new Segment(file);
    this.#used.push(segment);
    return segment;
  }

  /** The next record gets the number of the one that is cut: nothing of that may look like a part of it. */
  #erase(file: SegmentFile, { at, bytes }: Cut): void {
    file.write(at, freshBytes(this.#log, Math.min(bytes, file.bytes - at)));
    file.sync();
  }

  /** The last record on disk. */
  get lastSequence(): number {
    const isNamed = this.#syncing === undefined || planted('checkpoint-names-unsynced');
    return this.#nextSequence - (isNamed ? 1 : 2);
  }

  /** The segments with records, and where in the last of them the records on disk end. */
  get place(): { readonly segments: readonly SegmentNote[]; readonly end: number } {
    const segments = this.#used.map(({ file }) => ({ segment: numberOf(file), bytes: file.bytes }));
    return { segments, end: this.#syncing?.at ?? this.#used.at(-1)?.end ?? 0 };
  }

  /** Bytes of all segment files. */
  get bytes(): number {
    return [...this.#used, ...this.#free].reduce((sum, { file }) => sum + file.bytes, 0);
  }

  get count(): number {
    return this.#used.length + this.#free.length;
  }

  /** Segments with records. */
  get used(): readonly Segment[] {
    return this.#used;
  }

  /**
   * Writes the next record: `record` has room for its head, then `dataBytes` of data. On disk when it returns, or
   * `behind` when endSync() says so. Throws the system's error; after ENOSPC nothing has changed.
   */
  append(record: Uint8Array, dataBytes: number, how: 'wait' | 'behind' = 'wait'): SegmentRecord {
    assert(this.#syncing === undefined, 'one record is synced at a time');
    const segment = this.#withRoomFor(pagesFor(dataBytes));
    this.#neededBefore = this.oldestNeeded;
    const written = this.#write(segment, record, { dataBytes, how });
    this.#isSealed = false;
    return written;
  }

  /** Whether the last record is on disk. */
  endSync(how: 'look' | 'wait'): boolean {
    if (this.#syncing === undefined) return true;
    if (!this.#syncer.ended(how)) return false;
    this.#syncing = undefined;
    return true;
  }

  /**
   * Writes a record without data behind the last one, unless one is there: from now on that cannot be taken for a
   * record whose write did not end. Throws as append() does.
   */
  seal(): void {
    const segment = this.#used.at(-1);
    if (this.#isSealed || segment === undefined || this.#syncing !== undefined) return;
    if (segment.end + 2 * LOG_PAGE_BYTES <= segment.file.bytes) this.#write(segment, this.#mark, { dataBytes: 0 });
    this.#isSealed = true;
  }

  #write(segment: Segment, bytes: Uint8Array, { dataBytes, next, how = 'wait' }: Written): SegmentRecord {
    const sequence = this.#nextSequence;
    const at = segment.end;
    segment.file.write(at, sealRecord(bytes, viewOf(bytes), this.#log, { sequence, dataBytes, next }));
    const record = new SegmentRecord(segment, { at, version: LOG_VERSION, sequence, dataBytes });
    if (!planted('log-not-synced') && !this.#syncer.sync(segment.file, how)) this.#syncing = record;
    segment.add(record);
    this.#nextSequence++;
    return record;
  }

  /** Makes room for a record now, so that append() cannot fail for lack of it. */
  reserve(dataBytes: number): void {
    this.#withRoomFor(pagesFor(dataBytes));
  }

  /** The next record goes into a segment that has none yet. A checkpoint names it before anything is written there. */
  reserveAnother(): void {
    this.#used.push(this.#make(LOG_PAGE_BYTES));
  }

  /** The first record that is needed. */
  get oldestNeeded(): number {
    if (this.#syncing !== undefined) return this.#neededBefore;
    for (const { firstNeeded } of this.#used) if (firstNeeded !== undefined) return firstNeeded.sequence;
    return this.#nextSequence;
  }

  /** A checkpoint on disk says that no record before `oldest` is needed. */
  release(oldest: number): void {
    this.#peak = Math.max(this.#used.length, this.#peak - 1 / PEAK_CHECKPOINTS);
    while (this.#used.length > 1) {
      const segment = this.#used[0] as Segment;
      if (segment.lastSequence >= oldest) return;
      assert(segment.live === 0, `no entry of ${segment.file.name} is needed`);
      this.#used.shift();
      this.#recycle(segment);
    }
    this.#removeSurplus();
  }

  /** The volume is short of space: gives back what was kept for large bodies. False: there is nothing to give back. */
  trim(): boolean {
    this.#peak = 0;
    return this.#removeSurplus();
  }

  #removeSurplus(): boolean {
    const surplus = this.#free.splice(this.#freeMax);
    for (const { file } of surplus) this.#remove(file);
    return surplus.length > 0;
  }

  get #freeMax(): number {
    return FREE_MAX + Math.min(EXTRA_MAX, Math.max(0, Math.ceil(this.#peak) - this.#used.length));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#making;
    await this.#syncer.close();
    for (const { file } of [...this.#used, ...this.#free]) file.close();
  }

  #withRoomFor(bytes: number): Segment {
    const active = this.#used.at(-1);
    if (active !== undefined && active.end + bytes + LOG_PAGE_BYTES <= active.file.bytes) return active;
    const free = this.#free.findIndex(({ file }) => file.bytes >= bytes + LOG_PAGE_BYTES);
    const next = free < 0 ? this.#make(bytes) : (this.#free.splice(free, 1)[0] as Segment);
    try {
      // So a segment that is lost is missed, and so is its end.
      if (active !== undefined)
        this.#write(active, this.#mark, {
          dataBytes: 0,
          next: { segment: numberOf(next.file), bytes: next.file.bytes },
        });
    } catch (error) {
      this.#free.push(next);
      throw error;
    }
    this.#used.push(next);
    if (this.#free.length === 0) this.#makeAhead();
    return next;
  }

  #recycle(segment: Segment): void {
    if (this.#free.length >= this.#freeMax || segment.file.bytes > this.#sizes.bytesMax || segment.isOld) {
      this.#remove(segment.file);
      return;
    }
    segment.clear();
    this.#free.push(segment);
  }

  #remove(file: SegmentFile): void {
    file.close();
    this.#folder.remove(file.name);
  }

  #make(bytes: number): Segment {
    this.madeLate++;
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure;
    const size = Math.max(this.#nextBytes(), bytes + LOG_PAGE_BYTES);
    return new Segment(this.#folder.create(this.#name(), size, this.#log));
  }

  #makeAhead(): void {
    if (this.#making !== undefined) return;
    this.#making = this.#folder.createAhead(this.#name(), this.#nextBytes(), this.#log).then((made) => {
      this.#making = undefined;
      if (made instanceof Error) this.#failure = made;
      else if (this.#isClosed) made?.close();
      else if (made !== undefined) this.#free.push(new Segment(made));
    });
  }

  #nextBytes(): number {
    return Math.min(this.#sizes.bytesMax, Math.max(this.#sizes.bytesMin, this.bytes));
  }

  #name(): string {
    return segmentName(this.#nextName++);
  }
}

const numberOf = ({ name }: SegmentFile): number => Number(name.replace(/^\D*/, ''));

/**
 * The process before may have ended before the sync of its last record, or because of it: then the system can show the
 * record and take it for written although it is not. Written again, it is on disk or the sync fails.
 */
function writeAgain(record: SegmentRecord): void {
  const { at } = record;
  const { file } = record.segment;
  file.write(at, file.read(at, pagesOf(record)));
  file.sync();
}
