/**
 * The segments of a shard's log: one that takes records, those with records that are still needed,
 * oldest first, and free ones. A segment is free when a checkpoint on disk says that no record of
 * it is needed; it is then written again from its start.
 */
import { assert } from '../base/assert.ts';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import type { SegmentFile, LogFolder } from './log-files.ts';
import { LOG_PAGE_BYTES, RECORD_HEAD, pagesFor, sealRecord } from './log-record.ts';
import type { RecordPlace } from './log-scan.ts';

export class Segment {
  readonly file: SegmentFile;
  /** Its records; 0: none yet. */
  firstSequence = 0;
  lastSequence = 0;
  /** Where the next record goes. */
  end = 0;
  /** Bytes that are still needed: entries of groups, and votes that no checkpoint has. */
  live = 0;

  constructor(file: SegmentFile) {
    this.file = file;
  }
}

/** Where a record or an entry lies. */
export interface LogPlace {
  readonly segment: Segment;
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
/** Free segments that are kept: what one round of checkpoints frees at full speed. */
const FREE_MAX = 4;

export class Segments {
  readonly #folder: LogFolder;
  readonly #sizes: SegmentSizes;
  readonly #log: bigint;
  /** Those with records, oldest first; the last one takes the next record. */
  readonly #used: Segment[] = [];
  readonly #free: Segment[] = [];
  #nextName = 1;
  #nextSequence = 1;
  #making: Promise<void> | undefined;
  #isClosed = false;
  /** Segments that had to be made while a turn waited. */
  madeLate = 0;

  /** `log` identifies the log; its records carry it. */
  constructor(folder: LogFolder, log: bigint, sizes: SegmentSizes) {
    this.#folder = folder;
    this.#log = log;
    this.#sizes = sizes;
  }

  /** Takes over what a scan found, before the first append. `files`: all of the folder. */
  adopt(
    files: readonly SegmentFile[],
    records: readonly RecordPlace<SegmentFile>[],
    nextSequence: number,
  ): RecordPlace<Segment>[] {
    const segments = new Map<SegmentFile, Segment>();
    const adopted = records.map(({ segment: file, sequence, at, dataBytes }) => {
      let segment = segments.get(file);
      if (segment === undefined) {
        segments.set(file, (segment = new Segment(file)));
        segment.firstSequence = sequence;
        this.#used.push(segment);
      }
      assert(segment === this.#used.at(-1), `record ${sequence} lies with those before it`);
      segment.lastSequence = sequence;
      segment.end = at + pagesFor(dataBytes);
      return { segment, sequence, at, dataBytes };
    });
    for (const file of files) {
      this.#nextName = Math.max(this.#nextName, Number(file.name.replace(/^\D*/, '')) + 1);
      if (!segments.has(file)) this.#free.push(new Segment(file));
    }
    this.#nextSequence = nextSequence;
    const last = adopted.at(-1);
    if (last !== undefined) writeAgain(last);
    return adopted;
  }

  get lastSequence(): number {
    return this.#nextSequence - 1;
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
   * Writes the next record: `record` has room for its head, then `dataBytes` of data. On disk when it returns.
   * Throws the system's error; after ENOSPC nothing has changed.
   */
  append(record: Uint8Array, dataBytes: number): LogPlace {
    const bytes = pagesFor(dataBytes);
    const segment = this.#withRoomFor(bytes);
    const sequence = this.#nextSequence;
    const at = segment.end;
    segment.file.write(at, sealRecord(record, viewOf(record), this.#log, { sequence, dataBytes }));
    if (!planted('log-not-synced')) segment.file.sync();
    if (segment.firstSequence === 0) segment.firstSequence = sequence;
    segment.lastSequence = sequence;
    segment.end += bytes;
    this.#nextSequence++;
    return { segment, at };
  }

  /** Makes room for a record now, so that append() cannot fail for lack of it. */
  reserve(dataBytes: number): void {
    this.#withRoomFor(pagesFor(dataBytes));
  }

  /** The first record that is needed when everything without live entries goes. */
  get oldestNeeded(): number {
    const first = this.#used.find((segment, i) => segment.live > 0 || i === this.#used.length - 1);
    return first === undefined || first.firstSequence === 0 ? this.#nextSequence : first.firstSequence;
  }

  /** A checkpoint on disk says that no record before `oldest` is needed. */
  release(oldest: number): void {
    while (this.#used.length > 1) {
      const segment = this.#used[0] as Segment;
      if (segment.lastSequence >= oldest) return;
      assert(segment.live === 0, `no entry of ${segment.file.name} is needed`);
      this.#used.shift();
      this.#recycle(segment);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#making;
    for (const { file } of [...this.#used, ...this.#free]) file.close();
  }

  #withRoomFor(bytes: number): Segment {
    const active = this.#used.at(-1);
    if (active !== undefined && active.end + bytes <= active.file.bytes) return active;
    const free = this.#free.findIndex(({ file }) => file.bytes >= bytes);
    const next = free < 0 ? this.#make(bytes) : (this.#free.splice(free, 1)[0] as Segment);
    this.#used.push(next);
    if (this.#free.length === 0) this.#makeAhead();
    return next;
  }

  #recycle(segment: Segment): void {
    if (this.#free.length >= FREE_MAX || segment.file.bytes > this.#sizes.bytesMax) {
      segment.file.close();
      this.#folder.remove(segment.file.name);
      return;
    }
    segment.firstSequence = 0;
    segment.lastSequence = 0;
    segment.end = 0;
    this.#free.push(segment);
  }

  #make(bytes: number): Segment {
    this.madeLate++;
    const size = Math.max(this.#nextBytes(), Math.ceil(bytes / LOG_PAGE_BYTES) * LOG_PAGE_BYTES);
    return new Segment(this.#folder.create(this.#name(), size));
  }

  #makeAhead(): void {
    if (this.#making !== undefined) return;
    this.#making = this.#folder.createAhead(this.#name(), this.#nextBytes()).then((file) => {
      this.#making = undefined;
      if (file === undefined) return;
      if (this.#isClosed) file.close();
      else this.#free.push(new Segment(file));
    });
  }

  #nextBytes(): number {
    return Math.min(this.#sizes.bytesMax, Math.max(this.#sizes.bytesMin, this.bytes));
  }

  #name(): string {
    return `segment-${this.#nextName++}`;
  }
}

/**
 * The process before may have ended before the sync of its last record, or because of it: then the system can show the
 * record and take it for written although it is not. Written again, it is on disk or the sync fails.
 */
function writeAgain({ segment: { file }, at, dataBytes }: RecordPlace<Segment>): void {
  file.write(at, file.read(at, pagesFor(dataBytes)));
  file.sync();
}

/** Room for the head of a record, in front of its data. */
export const RECORD_START = RECORD_HEAD.size;
