/**
 * The Raft logs of all groups of a shard: a turn's new entries and votes of all groups become one record
 * (log-record.ts) of one log, so one write and one flush serve them all.
 *
 * Reading it back: an entry replaces everything of its group from its index on, as it did when it was
 * written (a Raft conflict). Records go oldest first only, so what was replaced never outlives what replaced
 * it. Entries of a group that writes little would hold back the oldest segment permanently, so they are
 * copied into a new record when the log is large (log-cleaner.ts).
 */
import { assert } from '../base/assert.ts';
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import type { Entry, EntryKind } from '../raft/types.ts';
import { GroupLog, readStored } from './group-log.ts';
import { KIND_VOTE, LOG_ENTRY, type LogItem, entriesOf, writeItem } from './log-entry.ts';
import { LogCleaner } from './log-cleaner.ts';
import { LogDamage, RECORD_HEAD, dataStart, pagesFor, readSpan } from './log-record.ts';
import type { LogPlace, SegmentRecord, Segments } from './segments.ts';

/** A turn's entries are divided into records of about this size; a larger entry has one alone. */
const RECORD_FILL_BYTES = 4 * 1024 * 1024;
/** A scratch buffer larger than this, grown for one huge turn, is released. */
const SCRATCH_KEPT_BYTES = 4 * 1024 * 1024;
const SCRATCH_BYTES = 64 * 1024;
const NO_DATA = new Uint8Array(0);
/** Room for the head of a record, in front of its data. */
const RECORD_START = RECORD_HEAD.size;

/**
 * Bytes of entries (with an overhead for each) that stay in memory; older ones are read back when a peer needs them.
 */
export interface LogMemory {
  /** Limit of one group, not counting its newest entry. */
  readonly groupBytes: number;
  readonly shardBytes: number;
}

/**
 * A group: what is kept for slow followers (shard.ts) plus what a checkpoint leaves until the next one, so that the
 * usual path never reads. A shard: eight busy groups.
 */
const LOG_MEMORY: LogMemory = { groupBytes: 6 * 1024 * 1024, shardBytes: 48 * 1024 * 1024 };

interface LogPosition {
  readonly index: number;
  readonly term: number;
}

export interface Vote {
  readonly term: number;
  readonly vote: number;
}

/** A turn's additions to a group's log; a snapshot replaces everything before it. */
interface LogBatch {
  readonly group: number;
  readonly entries: readonly Entry[];
  readonly hardState: Vote | undefined;
  readonly snapshot?: LogPosition | undefined;
  /** The snapshot replaces the state only. */
  readonly keepsLog?: boolean;
}

/** An item of the record that is being filled. */
interface Pending {
  readonly log: GroupLog;
  readonly at: number;
  readonly item: LogItem;
  readonly entry: Entry | undefined;
}

export class TurnLog {
  #segments: Segments | undefined;
  readonly groups = new Map<number, GroupLog>();
  /** The last vote of each group in the log, and the record that holds it until a checkpoint does. */
  readonly #votes = new Map<number, Vote & { readonly record: SegmentRecord | undefined }>();
  readonly #cleaner = new LogCleaner();
  #scratch = new Uint8Array(SCRATCH_BYTES);
  #view = viewOf(this.#scratch);
  #end = RECORD_START;
  #pending: Pending[] = [];
  memory: LogMemory = LOG_MEMORY;
  /** Entries read back. */
  readBack = 0;

  /** The log of `group`, starting after (snapshotIndex, snapshotTerm). Call before load(). */
  open(group: number, snapshotIndex: number, snapshotTerm: number): GroupLog {
    const log = new GroupLog((stored, index) => {
      this.readBack++;
      return readStored(group, stored, index);
    });
    log.startAt(snapshotIndex, snapshotTerm);
    this.groups.set(group, log);
    return log;
  }

  /** The log of a group that was opened. */
  of(group: number): GroupLog {
    return this.groups.get(group) as GroupLog;
  }

  /** Before anything is written. */
  attach(segments: Segments): void {
    this.#segments = segments;
  }

  get segments(): Segments {
    assert(this.#segments !== undefined, 'the log is open');
    return this.#segments;
  }

  async close(): Promise<void> {
    await this.#segments?.close();
  }

  /**
   * Reads all records once, at start. `cuts`: records up to which the log holds nothing of a
   * group. Throws LogDamage when an entry is missing.
   */
  load(records: readonly SegmentRecord[], cuts: ReadonlyMap<number, number>): void {
    for (const record of records) this.#loadRecord(record, cuts);
    for (const [group, log] of this.groups) {
      const missing = log.finishLoad();
      if (missing !== undefined)
        throw new LogDamage(`entry ${missing} of group ${group} is not in the log, and later ones are`);
    }
  }

  #loadRecord(record: SegmentRecord, cuts: ReadonlyMap<number, number>): void {
    const { segment, sequence, dataBytes: bytes } = record;
    const start = dataStart(record);
    for (const { group, kind, copy, term, index, dataBytes, at } of entriesOf(
      readSpan(segment.file, record, start, bytes),
    )) {
      const place = { record, at: start + at };
      const log = this.groups.get(group);
      assert(log !== undefined, `group ${group} of the log belongs to this shard`);
      if (sequence <= (cuts.get(group) ?? 0)) continue;
      if (kind === KIND_VOTE) this.#keepVote(group, { term, vote: index }, record);
      else log.load({ ...place, index, term, kind: kind as EntryKind, size: dataBytes }, copy === 1);
    }
  }

  /** Drops everything that was loaded so far. */
  forget(): void {
    this.#votes.clear();
  }

  /**
   * Adds one turn's entries and votes. On disk when it returns; `behind`: when the segments' endSync() says so. After
   * ENOSPC the same call may be repeated.
   */
  append(batches: readonly LogBatch[], how: 'wait' | 'behind' = 'wait'): void {
    this.#pending = [];
    this.#end = RECORD_START;
    // First: nothing of what a snapshot replaces is worth a copy, which would count again after a restart.
    for (const { group, snapshot, keepsLog } of batches)
      if (snapshot !== undefined && keepsLog !== true) this.groups.get(group)?.restartAt(snapshot.index, snapshot.term);
    for (const copy of this.#cleaner.copies(this.segments, this.groups)) this.#add(copy.log, copy.item, undefined);
    for (const { group, entries, hardState } of batches) {
      const log = this.of(group);
      if (hardState !== undefined && !planted('vote-not-persisted')) {
        const { term, vote } = hardState;
        this.#add(log, { group, kind: KIND_VOTE, term, index: vote, data: NO_DATA, isCopy: false }, undefined);
      }
      for (const entry of entries) {
        const { kind, term, index, data } = entry;
        this.#add(log, { group, kind, term, index, data, isCopy: false }, entry);
      }
    }
    this.#write(how);
    this.#evict();
    if (this.#scratch.length > SCRATCH_KEPT_BYTES) this.#reset();
  }

  /** For a planted bug: `batches` without the entries that replace others. */
  withoutConflicts<B extends LogBatch>(batches: readonly B[]): B[] {
    const replaces = ({ group, entries: [first] }: B): boolean =>
      first !== undefined && first.index <= (this.groups.get(group)?.lastIndex() ?? 0);
    return batches.map((batch) => (replaces(batch) ? { ...batch, entries: [] } : batch));
  }

  #add(log: GroupLog, item: LogItem, entry: Entry | undefined): void {
    const bytes = LOG_ENTRY.size + item.data.length;
    if (this.#pending.length > 0 && this.#end + bytes > RECORD_FILL_BYTES) this.#write();
    this.#reserve(bytes);
    writeItem(this.#scratch, this.#view, this.#end, item);
    this.#pending.push({ log, at: this.#end, item, entry });
    this.#end += bytes;
  }

  /** Writes what was added as one record. */
  #write(how: 'wait' | 'behind' = 'wait'): void {
    if (this.#pending.length === 0) return;
    const record = this.segments.append(this.#scratch, this.#end - RECORD_START, how);
    for (const { log, at, item, entry } of this.#pending) {
      const place: LogPlace = { record, at: record.at + at };
      if (item.kind === KIND_VOTE) this.#keepVote(item.group, { term: item.term, vote: item.index }, record);
      else if (entry === undefined) log.moved(item.index, place);
      else log.push(place, entry);
    }
    this.#pending = [];
    this.#end = RECORD_START;
  }

  /** The last vote of the group, unless only a checkpoint has it. */
  vote(group: number): Vote | undefined {
    return this.#votes.get(group);
  }

  /** Votes that no checkpoint has. */
  unsavedVotes(): ReadonlyMap<number, Vote> {
    return new Map([...this.#votes].filter(([, { record }]) => record !== undefined));
  }

  /** A checkpoint on disk has these; a group may have voted again since it was begun. */
  votesSaved(saved: ReadonlyMap<number, Vote>): void {
    for (const [group, vote] of saved) {
      const kept = this.#votes.get(group);
      if (kept !== vote || kept.record === undefined) continue;
      kept.record.release();
      this.#votes.set(group, { ...kept, record: undefined });
    }
  }

  #keepVote(group: number, { term, vote }: Vote, record: SegmentRecord): void {
    this.#votes.get(group)?.record?.release();
    record.hold();
    this.#votes.set(group, { term, vote, record });
  }

  /** Bytes of all logs in memory. */
  get memoryBytes(): number {
    let bytes = 0;
    for (const log of this.groups.values()) bytes += log.memoryBytes;
    return bytes;
  }

  /** Evicts entries from memory: each group's oldest, then those of the group that has the most. */
  #evict(): void {
    const { groupBytes, shardBytes } = this.memory;
    let total = 0;
    for (const log of this.groups.values()) {
      if (log.memoryBytes > groupBytes) log.evict(groupBytes, 'keep newest');
      total += log.memoryBytes;
    }
    while (total > shardBytes) {
      let largest: GroupLog | undefined;
      for (const log of this.groups.values()) {
        if (largest === undefined || log.memoryBytes > largest.memoryBytes) largest = log;
      }
      if (largest === undefined || largest.memoryBytes === 0) return;
      const before = largest.memoryBytes;
      largest.evict(before / 2, 'all');
      total -= before - largest.memoryBytes;
    }
  }

  #reserve(extra: number): void {
    const needed = pagesFor(this.#end + extra - RECORD_START);
    if (needed <= this.#scratch.length) return;
    const grown = new Uint8Array(Math.max(needed, 2 * this.#scratch.length));
    grown.set(this.#scratch.subarray(0, this.#end));
    this.#scratch = grown;
    this.#view = viewOf(grown);
  }

  #reset(): void {
    this.#scratch = new Uint8Array(SCRATCH_BYTES);
    this.#view = viewOf(this.#scratch);
  }
}
