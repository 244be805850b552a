// The shard's ports in memory. The storage is strict: only what a commit made durable survives restart(), and a commit
// can be told to fail. Answers are copied out when they are published.
import { RowDamage } from '../../src/base/row-damage.ts';
import assert from 'node:assert/strict';
import type { Entry, LogReader, LostLog } from '../../src/raft/types.ts';
import {
  type ReplyTarget,
  type RowRange,
  type RequestSource,
  type SnapshotReader,
  type ShardStorage,
  StorageFullError,
  type StoredVote,
  type TurnBatch,
} from '../../src/shard/ports.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { type Request, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import { applyChanges } from '../../src/base/overlay.ts';
import { WriteBehind } from '../../src/store/write-behind.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';

class MemoryLog implements LogReader {
  #entries: Entry[] = [];
  #first = 1;
  #snapshotTerm = 0;

  open(snapshotIndex: number, snapshotTerm: number): void {
    if (snapshotIndex >= this.#first) this.compact(snapshotIndex);
    assert.equal(this.#first, snapshotIndex + 1, 'a checkpoint is never older than the compacted log');
    this.#snapshotTerm = snapshotTerm;
  }

  append(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const at = entry.index - this.#first;
      assert(at >= 0 && at <= this.#entries.length, `entry ${entry.index} follows ${this.lastIndex()}`);
      this.#entries.length = at;
      this.#entries.push(entry);
    }
  }

  compact(index: number): void {
    this.#snapshotTerm = this.term(index);
    this.#entries = this.#entries.slice(index - this.#first + 1);
    this.#first = index + 1;
  }

  get length(): number {
    return this.#entries.length;
  }

  firstIndex(): number {
    return this.#first;
  }

  lastIndex(): number {
    return this.#first + this.#entries.length - 1;
  }

  term(index: number): number {
    return index === this.#first - 1 ? this.#snapshotTerm : (this.#entries[index - this.#first] as Entry).term;
  }

  entries(lo: number, hi: number, maxBytes: number): Entry[] {
    const found: Entry[] = [];
    let bytes = 0;
    for (const entry of this.#entries.slice(lo - this.#first, hi - this.#first)) {
      bytes += entry.data.length;
      if (found.length > 0 && bytes > maxBytes) break;
      found.push(entry);
    }
    return found;
  }
}

/** Rows of which some are damaged, or gone. */
class Rows extends SortedMapTx {
  isDamaged: (key: Uint8Array) => boolean = () => false;
  isGone: (key: Uint8Array) => boolean = () => false;
  isHidden: (start: Uint8Array) => boolean = () => false;
  onDamage: (damage: RowDamage) => void = () => undefined;

  override get(key: Uint8Array): Uint8Array | undefined {
    const value = this.isGone(key) ? undefined : super.get(key);
    if (value !== undefined) this.#check(key);
    return value;
  }

  override range(...[start, end, reverse, visit]: Parameters<SortedMapTx['range']>): void {
    super.range(start, end, reverse, (key, value) => {
      if (this.isGone(key)) return true;
      this.#check(key);
      return visit(key, value);
    });
  }

  override keys(start: Uint8Array, end: Uint8Array, visit: (key: Uint8Array) => boolean): void {
    this.#check(start, this.isHidden(start));
    super.range(start, end, false, visit);
  }

  #check(key: Uint8Array, isDamaged = this.isDamaged(key)): void {
    if (!isDamaged) return;
    const damage = new RowDamage(key, 'the test says so');
    this.onDamage(damage);
    throw damage;
  }
}

export class MemoryStorage implements ShardStorage {
  readonly #rows = new Rows();
  readonly tx = new WriteBehind(this.#rows);
  #isWriting = false;
  readonly logs = new Map<number, MemoryLog>();
  readonly votes = new Map<number, StoredVote>();
  readonly paths = { log: 'log', state: 'data.mdb' };
  spaceLeft = true;
  roomToGrow = true;
  readonly logSegments = 0;
  readonly logFileBytes = 0;
  /** The next records of the log fail, and the next checkpoints and other commits. */
  isAppendFull = false;
  isCheckpointFull = false;
  /** Syncs of the log that may end later do, and one is under way. */
  isSyncSlow = false;
  isSyncing = false;
  /** How many looks it takes until a checkpoint is on disk. */
  checkpointLooks = 0;
  #looks = 0;
  /** Writes are being collected. */
  committing = false;
  commits = 0;
  refusedCommits = 0;
  /** Everything that ever became durable, as text: payloads of tests are unique words. */
  durableText = '';

  set onDamage(noticed: (damage: RowDamage) => void) {
    this.#rows.onDamage = noticed;
  }

  set isDamaged(isDamaged: (key: Uint8Array) => boolean) {
    this.#rows.isDamaged = isDamaged;
  }

  /** Whether keys cannot be walked from there on. */
  set isHidden(isHidden: (start: Uint8Array) => boolean) {
    this.#rows.isHidden = isHidden;
  }

  set isGone(isGone: (key: Uint8Array) => boolean) {
    this.#rows.isGone = isGone;
  }

  openLog(group: number, appliedIndex: number, appliedTerm: number): LogReader {
    const log = this.logs.get(group) ?? new MemoryLog();
    this.logs.set(group, log);
    log.open(appliedIndex, appliedTerm);
    return log;
  }

  checkGroup(): void {}

  /** As on a single node: the log is kept, and not run. */
  abandonLog(group: number): LogReader {
    this.lostGroups.add(group);
    return new MemoryLog();
  }

  load(): void {}

  seal(): void {}

  vote(group: number): StoredVote {
    return this.votes.get(group) ?? { term: 0, vote: 0 };
  }

  readonly prefixes = new Map<number, number>();
  readonly lostGroups = new Set<number>();
  fresh = true;

  prefix(group: number): number {
    return this.prefixes.get(group) ?? group;
  }

  lost(group: number): LostLog {
    return this.lostGroups.has(group) ? 1 : 0;
  }

  setLost(groups: readonly number[], lost: LostLog): void {
    if (this.isCheckpointFull) this.#refuse();
    for (const group of groups) {
      if (lost !== 0) this.lostGroups.add(group);
      else this.lostGroups.delete(group);
    }
  }

  markUsed(lost: readonly number[]): void {
    this.fresh = false;
    this.setLost(lost, 1);
  }

  logBytesBehind(group: number, index: number): number {
    const log = this.logs.get(group) as MemoryLog;
    if (index >= log.lastIndex()) return 0;
    const entries = log.entries(Math.max(index + 1, log.firstIndex()), log.lastIndex() + 1, Infinity);
    return entries.reduce((sum, { data }) => sum + data.length, 0);
  }

  readonly logMemoryBytes = 0;
  readonly logReadBack = 0;

  compactable(group: number, index: number): number {
    const log = this.logs.get(group) as MemoryLog;
    return Math.min(index, log.lastIndex());
  }

  readonly scrub = { step: () => ({ bytes: 0, isEnd: true }) };

  openSnapshot(_group: number): SnapshotReader {
    throw new Error('these tests run one node');
  }

  openRanges(ranges: readonly RowRange[]): SnapshotReader {
    const chunks: Uint8Array[] = [];
    for (const [start, end] of ranges) {
      this.#rows.range(start, end, false, (key, value) => {
        const row = new Uint8Array(rowSize(key, value));
        writeRow(row, 0, key, value);
        return chunks.push(row) > 0;
      });
    }
    return { next: () => chunks.shift(), close: () => void (chunks.length = 0) };
  }

  stage(_group: number, _pieces: readonly Uint8Array[]): void {
    throw new Error('these tests run one node');
  }

  clearStage(_group: number): boolean {
    return true;
  }

  set isFull(isFull: boolean) {
    this.isAppendFull = isFull;
    this.isCheckpointFull = isFull;
  }

  /** A checkpoint that was under way is lost. */
  crash(): void {
    this.#isWriting = false;
    this.tx.clear();
  }

  append(batches: readonly TurnBatch[], how: 'wait' | 'behind' = 'wait'): void {
    if (this.isAppendFull) this.#refuse();
    assert(!this.isSyncing, 'one record is synced at a time');
    this.isSyncing = this.isSyncSlow && how === 'behind';
    for (const { group, entries, hardState } of batches) {
      (this.logs.get(group) as MemoryLog).append(entries);
      if (hardState !== undefined) this.votes.set(group, { term: hardState.term, vote: hardState.vote });
      for (const { data } of entries) this.durableText += Buffer.from(data).toString('latin1');
    }
    this.commits++;
  }

  endAppend(how: 'look' | 'wait'): boolean {
    if (how === 'wait') this.isSyncing = false;
    return !this.isSyncing;
  }

  startCheckpoint(write: () => void): void {
    assert(!this.#isWriting, 'one checkpoint is written at a time');
    this.#isWriting = true;
    this.committing = true;
    this.tx.collect(write);
    this.committing = false;
    this.#looks = 0;
  }

  endCheckpoint(how: 'look' | 'wait'): boolean {
    if (!this.#isWriting) return true;
    if (how === 'look' && this.#looks++ < this.checkpointLooks) return false;
    this.#isWriting = false;
    if (this.isCheckpointFull) this.#refuse();
    this.#rows.begin();
    applyChanges(this.#rows, this.tx.pending);
    this.#rows.commit();
    this.tx.clear();
    return true;
  }

  #refuse(): never {
    this.refusedCommits++;
    throw new StorageFullError();
  }

  compact(group: number, index: number): void {
    const log = this.logs.get(group) as MemoryLog;
    if (index >= log.firstIndex()) log.compact(index);
  }
}

const ROOM_BYTES = 4 * 1024 * 1024;

export class ArraySource implements RequestSource {
  readonly bytes = new Uint8Array(ROOM_BYTES);
  readonly view = new DataView(this.bytes.buffer);
  offset = 0;
  length = 0;
  readonly #frames: { readonly offset: number; readonly length: number }[] = [];
  /** Frames that were taken. To take thousands from the front of an array would move the others each time. */
  #taken = 0;
  readonly #transfers = new Map<number, Uint8Array>();
  #used = 0;
  #lastTransferId = 0;

  push(request: Request, slot: number, isTransferred = false): void {
    assert(this.#used + requestBytesMax(request) <= ROOM_BYTES, 'the test sends no more than fits');
    const payload = request.command.payload;
    const transferId = isTransferred && payload !== undefined ? ++this.#lastTransferId : 0;
    if (transferId !== 0) this.#transfers.set(transferId, (payload as Uint8Array).slice());
    const length = writeRequest(request, slot, transferId, this.bytes, this.view, this.#used);
    this.#frames.push({ offset: this.#used, length });
    this.#used += length;
  }

  next(): boolean {
    const frame = this.#frames[this.#taken];
    if (frame === undefined) return false;
    this.#taken++;
    ({ offset: this.offset, length: this.length } = frame);
    return true;
  }

  release(): void {
    if (this.#taken < this.#frames.length) return;
    // The ring would be overwritten by new requests now.
    this.bytes.fill(0xa5, 0, this.#used);
    this.#used = this.#taken = this.#frames.length = 0;
  }

  takeTransfer(id: number): Uint8Array {
    const payload = this.#transfers.get(id);
    assert(payload !== undefined, 'a payload is taken once');
    this.#transfers.delete(id);
    return payload;
  }
}

export class ArrayTarget implements ReplyTarget {
  readonly bytes = new Uint8Array(ROOM_BYTES);
  readonly view = new DataView(this.bytes.buffer);
  /** Receives each frame when it is written, before it is published. */
  onFrame: (reply: Reply) => void = () => {};
  published: Reply[] = [];
  #written: Reply[] = [];
  #reserved = -1;
  readonly #transfers = new Map<number, Uint8Array>();
  #lastTransferId = 0;

  reserve(sizeBytes: number): number {
    assert.equal(this.#reserved, -1, 'one span at a time');
    this.#reserved = sizeBytes;
    this.bytes.fill(0xa5, 0, Math.min(ROOM_BYTES, sizeBytes + 64));
    return 8;
  }

  commit(sizeBytes: number): void {
    assert(sizeBytes <= this.#reserved, `${sizeBytes} bytes in a span of ${this.#reserved}`);
    for (let i = 8 + this.#reserved; i < this.#reserved + 64; i++)
      assert.equal(this.bytes[i], 0xa5, 'nothing behind the span');
    this.#reserved = -1;
    const reply = new Reply();
    const frame = this.bytes.slice(0, 8 + sizeBytes);
    reply.read(frame, new DataView(frame.buffer), 8);
    if (reply.transferId !== 0) {
      reply.body = this.#transfers.get(reply.transferId);
      this.#transfers.delete(reply.transferId);
      assert(reply.body !== undefined, 'the body went into the transfer channel before its frame');
    }
    this.onFrame(reply);
    this.#written.push(reply);
  }

  sendTransfer(body: Uint8Array<ArrayBuffer>): number {
    assert.equal(body.byteLength, body.buffer.byteLength, 'the transfer channel takes the whole memory away');
    this.#transfers.set(++this.#lastTransferId, body.slice());
    return this.#lastTransferId;
  }

  publish(): void {
    this.published.push(...this.#written);
    this.#written = [];
  }

  take(): Reply[] {
    return this.published.splice(0);
  }
}
