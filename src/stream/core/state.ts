/**
 * Applied state of one group: typed caches over the group's rows in the store. Commands change cached objects only; the
 * store sees them at flush(), together with the applied index, in whichever commit the host chooses. After a restart
 * the host replays the log after the stored applied index, so nothing here needs to be durable on its own.
 *
 * Deterministic and free of I/O except `Tx`: no clock, no randomness.
 */
import { neededRow } from '../../base/row-damage.ts';
import { assert } from '../../base/assert.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import { planted } from '../../base/planted.ts';
import { Buckets } from './buckets.ts';
import { Head, PRODUCERS_CACHED_MAX, type StateListener, decodeHead, encodeHead, headBytesMax } from './head.ts';
import { HeadCache } from './head-cache.ts';
import { HotRows } from './hot-rows.ts';
import { TAG, anyRow, hashBytes, incarnationKey, positionKey, producerKey, taggedKey } from './keys.ts';
import { WorkMemory } from './collect.ts';
import { ForkRows } from './fork-rows.ts';
import { garbageBelow, reclaim } from './garbage.ts';
import { type ImportMark, decodeImportMark, encodeImportMark } from './import-mark.ts';
import { ColdCounters, decodeMeta, encodeMeta } from './meta.ts';
import { Overlay } from '../../base/overlay.ts';
import { PartialCommand } from './partial-command.ts';
import { type ProducerState, decodeProducer, encodeProducer } from './producers.ts';
import { type DataRow, START_ROW, decodeRow } from './row.ts';
import { Snapshots } from './snapshots.ts';
import type { Tx } from '../../base/tx.ts';

/** Heap charged for a changed head in addition to its payload, for the host's checkpoint trigger. */
const HEAD_DIRTY_BYTES = 256;

const NOTHING = new Uint8Array(0);

export class State {
  readonly group: number;
  /** First two bytes of all keys: the group, or the other half of its key space after a snapshot (keys.ts). */
  readonly prefix: number;
  readonly buckets: Buckets;
  /** For rows without a typed cache. */
  readonly overlay: Overlay;
  readonly snapshots: Snapshots;
  readonly forks: ForkRows;
  /** The large command whose pieces are being applied. */
  readonly partial: PartialCommand;
  readonly hotRows = new HotRows(this);
  readonly memory: WorkMemory;
  appliedIndex = 0;
  appliedTerm = 0;
  nextIncarnation = 1;
  /** Number of applied commands; restarts with an import. Tells which of several replicas is ahead. */
  appliedCommands = 0;
  /** The import that the group is in, or came from. */
  imported: ImportMark | undefined = undefined;
  /** Bytes of the group's streams that are in rows. */
  hotBytes = 0;
  readonly cold = new ColdCounters();
  /** Chunks that the current command may still release. */
  releaseLeft = 0;
  /** Voters and learners at the applied index, encoded by consensus; empty = those of the configuration file. */
  configuration: Uint8Array = NOTHING;
  /** Approximate bytes that the next flush will write. */
  dirtyBytes = 0;
  listener: StateListener | undefined = undefined;
  /**
   * Differs whenever an incarnation number may mean other bytes than before in this process: after an import, or a
   * group snapshot from a leader that lost entries. Not stored.
   */
  lineage = 1;

  readonly #tx: Tx;
  /** Where reads go: the store, or through the overlay while it holds rows of an import. */
  #view: Tx;
  readonly #heads = new HeadCache();
  #dirtyHeads: Head[] = [];
  /** Applied index that the store has. */
  #flushedIndex = 0;
  #garbage = false;
  /** Value of #garbage after the reclaiming commit succeeds. */
  #garbageLeft = false;
  #scratch = new Uint8Array(16 * 1024);
  #scratchView = new DataView(this.#scratch.buffer);

  /** `memory` is shared with the other states of the thread. */
  constructor(group: number, tx: Tx, prefix = group, memory = new WorkMemory()) {
    this.group = group;
    this.prefix = prefix;
    this.memory = memory;
    this.#tx = tx;
    this.overlay = new Overlay(tx);
    this.#view = tx;
    this.buckets = new Buckets(prefix);
    this.snapshots = new Snapshots(prefix);
    this.forks = new ForkRows(prefix, this.overlay);
    this.partial = new PartialCommand(prefix, tx);
    const meta = tx.get(taggedKey(prefix, TAG.meta));
    if (meta !== undefined) {
      const { cold, ...position } = decodeMeta(meta);
      Object.assign(this, position);
      Object.assign(this.cold, cold);
    }
    this.#flushedIndex = this.appliedIndex;
    const mark = tx.get(taggedKey(prefix, TAG.import));
    if (mark !== undefined) this.imported = decodeImportMark(mark);
    this.#garbage = anyRow(tx, taggedKey(prefix, TAG.garbage));
  }

  get tx(): Tx {
    return this.#view;
  }

  /** Streams that the next flush will write; some may be counted twice. */
  get dirtyStreams(): number {
    return this.#dirtyHeads.length;
  }

  get cachedHeads(): number {
    return this.#heads.count;
  }

  /**
   * Whether flush() would write anything. The applied index counts: entries that changed nothing (refusals, duplicates)
   * stay in the log until a later index is written.
   */
  get dirty(): boolean {
    if (this.appliedIndex !== this.#flushedIndex) return true;
    return this.dirtyBytes > 0 || this.#garbage || this.overlay.size > 0 || this.buckets.dirtyCount > 0;
  }

  /** The commands of this entry are next. Set before they are applied, because answers name the index they come from. */
  enter(index: number, term: number): void {
    this.appliedIndex = index;
    this.appliedTerm = term;
    this.partial.enter(term);
  }

  /** The stream whose key is the given part of `bytes`. The caller checks expiry. */
  find(bytes: Uint8Array, start: number, length: number): Head | undefined {
    const head = this.findAny(bytes, start, length);
    return head?.provisional === true && !planted('half-made-fork-shown') ? undefined : head;
  }

  /** As find(), including incomplete forks. */
  findAny(bytes: Uint8Array, start: number, length: number): Head | undefined {
    const hash = hashBytes(bytes, start, length);
    const cached = this.#heads.find(hash, bytes, start, length);
    if (cached !== undefined) return cached.dead ? undefined : cached;
    const key = bytes.slice(start, start + length);
    const row = this.#view.get(taggedKey(this.prefix, TAG.head, key));
    if (row === undefined) return undefined;
    const head = decodeHead(key, hash, row);
    head.contentType = this.intern(head.contentType);
    // Reads alone never flush, so they evict here; callers hold no other clean head during a search.
    this.#heads.makeRoom(this.#dirtyHeads.length);
    this.#heads.add(head);
    return head;
  }

  /** Before it is said that no stream has this key. */
  needAbsence(bytes: Uint8Array, start: number, length: number): void {
    this.#needNoRow(taggedKey(this.prefix, TAG.head, bytes.slice(start, start + length)));
  }

  /**
   * After a get found none: throws RowDamage when another page is where the row would be. A walk looks at its pages; a
   * get does not, because that takes longer than the get.
   */
  #needNoRow(key: Uint8Array): void {
    anyRow(this.#view, key);
  }

  intern(type: string): string {
    return this.#heads.intern(type);
  }

  /** Adds a new stream under `key`; no live stream may have it. */
  create(key: Uint8Array, nowMs: number): Head {
    const hash = hashBytes(key, 0, key.length);
    const head = new Head(key, hash);
    const other = this.#heads.find(hash, key, 0, key.length);
    if (other !== undefined) {
      assert(other.dead, 'a stream is created only where none lives');
      // Writing the new head replaces the dead one's row, so its delete must not run.
      head.stored = other.stored;
      other.dirty = false;
      this.#heads.remove(other);
    }
    head.incarnation = this.nextIncarnation++;
    head.createdAtMs = nowMs;
    head.touchedAtMs = nowMs;
    head.writtenAtMs = nowMs;
    this.#heads.add(head);
    this.touch(head, 0);
    return head;
  }

  /** Marks `head` as changed by about `bytes` of new data. */
  touch(head: Head, bytes: number): void {
    this.dirtyBytes += bytes;
    if (head.dirty) return;
    head.dirty = true;
    this.dirtyBytes += HEAD_DIRTY_BYTES;
    this.#dirtyHeads.push(head);
  }

  /** Removes a stream; its rows become garbage. */
  remove(head: Head): void {
    assert(!head.dead, 'a stream is removed once');
    if (!head.provisional) this.listener?.removed(head);
    this.hotBytes -= head.tail - head.hotStart;
    this.touch(head, 0);
    head.dead = true;
    head.rows = [];
    head.producers = undefined;
    this.snapshots.drop(head.incarnation);
    // A stream that never reached the store leaves nothing behind except its pending overlay rows.
    if (!head.everFlushed) {
      if (head.hasAttributes) this.overlay.delete(incarnationKey(this.prefix, TAG.attributes, head.incarnation));
      return;
    }
    this.overlay.put(incarnationKey(this.prefix, TAG.garbage, head.incarnation), NOTHING);
    this.#garbage = true;
  }

  /** Marks the rows of a live stream below its hotStart, which are no longer needed. */
  markGarbage(head: Head): void {
    if (!head.everFlushed) return;
    this.overlay.put(
      incarnationKey(this.prefix, TAG.garbage, head.incarnation),
      garbageBelow(head.hotStart, head.hotRecord),
    );
    this.#garbage = true;
  }

  /** The in-memory last row of a stream that holds bytes. */
  tailRow(head: Head): DataRow {
    const last = head.rows[head.rows.length - 1];
    if (last?.start === head.tailRowStart) return last;
    const row = this.storedRow(head, head.tailRowStart);
    head.rows.push(row);
    return row;
  }

  /** Reads the row that starts at `start`, which the store must hold. */
  storedRow(head: Head, start: number): DataRow {
    const key = positionKey(this.prefix, TAG.data, head.incarnation, start);
    return decodeRow(start, neededRow(this.#view, key));
  }

  producer(head: Head, id: string, idBytes: Uint8Array): ProducerState | undefined {
    const cached = head.producers?.get(id);
    if (cached !== undefined) return cached;
    if (!head.hasProducers) return undefined;
    const key = producerKey(this.prefix, head.incarnation, idBytes);
    const row = this.#view.get(key);
    if (row === undefined) {
      this.#needNoRow(key);
      return undefined;
    }
    const producer = decodeProducer(row);
    // Duplicates and refusals change nothing, so no flush would make room for them.
    if ((head.producers?.size ?? 0) < PRODUCERS_CACHED_MAX) this.keepProducer(head, id, producer);
    return producer;
  }

  /** Puts a producer into the head's cache; a dirty one is written at the next flush. */
  keepProducer(head: Head, id: string, producer: ProducerState): void {
    (head.producers ??= new Map<string, ProducerState>()).set(id, producer);
  }

  attributes(head: Head): Uint8Array | undefined {
    if (!head.hasAttributes) return undefined;
    return this.overlay.get(incarnationKey(this.prefix, TAG.attributes, head.incarnation));
  }

  setAttributes(head: Head, encoded: Uint8Array | undefined): void {
    const key = incarnationKey(this.prefix, TAG.attributes, head.incarnation);
    if (encoded !== undefined) this.overlay.put(key, encoded);
    else if (head.hasAttributes) this.overlay.delete(key);
    head.hasAttributes = encoded !== undefined;
    this.touch(head, encoded?.length ?? 0);
  }

  /** From now until the next flush the overlay accepts rows of all kinds. */
  markImport(mark: ImportMark): void {
    this.overlay.put(taggedKey(this.prefix, TAG.import), encodeImportMark(mark));
    this.imported = mark;
    this.#view = this.overlay;
  }

  /** Visits heads that differ from the store, dead ones included. */
  eachDirty(visit: (head: Head) => void): void {
    for (const head of this.#dirtyHeads) if (head.dirty) visit(head);
  }

  /** Writes all changes and the applied index. They count as changed until flushed(): a failed commit loses nothing. */
  flush(): void {
    const tx = this.#tx;
    // Import rows go first, because later changes replace them.
    this.overlay.flush();
    for (const head of this.#dirtyHeads) if (head.dirty) this.#writeHead(head);
    this.buckets.flush(tx);
    this.snapshots.flush(tx);
    this.partial.flush(tx);
    this.#garbageLeft = this.#garbage && reclaim(tx, this.prefix, this.dirtyBytes);
    tx.put(taggedKey(this.prefix, TAG.meta), encodeMeta(this));
  }

  /** The commit of the last flush() is done; no command was applied in between. */
  flushed(): void {
    for (const head of this.#dirtyHeads) {
      if (!head.dirty) continue;
      head.dirty = false;
      if (head.dead) this.#heads.remove(head);
      else head.flushed();
    }
    this.#dirtyHeads = [];
    this.buckets.flushed();
    this.overlay.flushed();
    this.#view = this.#tx;
    this.snapshots.flushed();
    this.partial.flushed();
    this.#garbage = this.#garbageLeft;
    this.#flushedIndex = this.appliedIndex;
    this.dirtyBytes = 0;
    this.#heads.evict();
  }

  #writeHead(head: Head): void {
    const tx = this.#tx;
    const key = taggedKey(this.prefix, TAG.head, head.key);
    if (head.dead) {
      if (head.stored) tx.delete(key);
      return;
    }
    for (const row of head.rows) if (row.dirty) this.#writeRow(head, row);
    if (head.producers !== undefined) this.#writeProducers(head, head.producers);
    this.#reserve(headBytesMax(head));
    const size = encodeHead(head, this.#scratch, this.#scratchView);
    tx.put(key, this.#scratch.subarray(0, size));
  }

  #writeRow(head: Head, row: DataRow): void {
    this.#reserve(row.encodedBytes);
    const size = row.encode(this.#scratch, this.#scratchView);
    this.#tx.put(positionKey(this.prefix, TAG.data, head.incarnation, row.start), this.#scratch.subarray(0, size));
    // A row inside one long record needs no entry; skipping it keeps the index at one entry per row.
    if (row.fresh && head.json && row.count > 0) {
      const key = positionKey(this.prefix, TAG.record, head.incarnation, row.firstRecord);
      this.#tx.put(key, START_ROW.encode(row));
    }
  }

  #writeProducers(head: Head, producers: Map<string, ProducerState>): void {
    for (const [id, producer] of producers) {
      if (!producer.dirty) continue;
      this.#tx.put(producerKey(this.prefix, head.incarnation, encodeUtf8(id)), encodeProducer(producer));
    }
  }

  #reserve(size: number): void {
    if (size <= this.#scratch.length) return;
    this.#scratch = new Uint8Array(2 * size);
    this.#scratchView = new DataView(this.#scratch.buffer);
  }
}
