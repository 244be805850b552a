/**
 * Invariants between the replicated state and the cold store, whatever the clients see. Judged by the reference, which
 * is never behind any node: a referenced object exists and holds what was written; the border between rows and chunks
 * only moves forward; entries that left the GC queue are gone; and the counters balance.
 */
import { digestOf, sameDigest } from '../../../src/digest/blake3.ts';
import { type Head, decodeHead } from '../../../src/stream/core/head.ts';
import { TAG, incarnationOf } from '../../../src/stream/core/keys.ts';
import { chunksAt } from '../../../src/stream/cold/chunks.ts';
import { gcDue, storedObject } from '../../../src/stream/cold/objects.ts';
import { isImporting } from '../../../src/stream/backup/apply-import.ts';
import type { State } from '../../../src/stream/core/state.ts';
import { decodeChunk } from '../../../src/stream/cold/chunk-layout.ts';
import { type Chunk, decodeChunkRow, decodeFlushList, decodeGcList } from '../../../src/protocol/cold.ts';
import { type Command } from '../../../src/protocol/command.ts';
import { isOwnObject, parseObjectKey } from '../../../src/protocol/object-key.ts';
import type { Reply } from '../../../src/protocol/reply.ts';
import type { Reference } from '../reference.ts';
import type { World } from '../world.ts';
import type { SimColdStore } from './store.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

const AUDIT_MS = 3000;
const ALL_DUE = { nowMs: Infinity, usualMs: Infinity, mergedMs: Infinity };

export class ColdChecks {
  readonly counts = {
    flushes: 0,
    coldSlices: 0,
    staleFlushes: 0,
    compactions: 0,
    coldMerged: 0,
    collected: 0,
    audits: 0,
  };
  readonly #world: World;
  readonly #store: SimColdStore;
  /** Where the rows of a stream began, by group and incarnation. */
  readonly #frontiers = new Map<string, number>();

  constructor(world: World, store: SimColdStore) {
    this.#world = world;
    this.#store = store;
    store.onRemove = (key) => this.#removed(key);
    for (const reference of world.checks.references) {
      reference.before = (state, command) => this.#before(state, command);
      reference.after = (state, command, reply) => this.#after(state, command, reply);
    }
    this.#auditLater();
  }

  /** Recounts everything that the state says about its objects. */
  audit(): void {
    this.counts.audits++;
    // Rows that come in are counted when all of them are there.
    for (const reference of this.#world.checks.references) if (!isImporting(reference.state)) this.#auditOne(reference);
  }

  #fail(what: string): void {
    if (!this.#world.blind) throw this.#world.failure(`cold: ${what}`);
  }

  #auditLater(): void {
    this.#world.queue.after(AUDIT_MS, () => {
      if (!this.#world.faulty) return;
      this.audit();
      this.#auditLater();
    });
  }

  /** Objects that the group's state refers to must not be removed. */
  #removed(key: string): void {
    const object = parseObjectKey(key);
    const group = Number.parseInt(key.slice(1, 5), 16);
    if (object === undefined) return this.#fail(`${key} is removed, and is no name of ours`);
    const state = this.#world.checks.references[group]?.state;
    const stored = state === undefined ? undefined : storedObject(state, object);
    if (stored !== undefined && stored.refs > 0) this.#fail(`${key} is removed with ${stored.refs} references`);
  }

  #before(state: State, command: Command): void {
    if (command.kind !== COMMANDS.gcDone.number) return;
    const done = new Set(decodeGcList(command.payload()));
    for (const { seq, key } of gcDue(state, ALL_DUE, Number.MAX_SAFE_INTEGER)) {
      // Objects of another cluster are forgotten and stay.
      if (!done.has(seq) || !isOwnObject(key, state.group, state.cold.origin)) continue;
      this.counts.collected++;
      if (this.#store.objects.has(key) && !this.#store.mayReturn(key)) this.#fail(`${key} is forgotten, and is there`);
    }
  }

  #after(state: State, command: Command, reply: Reply): void {
    if (command.kind === COMMANDS.flush.number || command.kind === COMMANDS.compact.number)
      this.#flushed(state, command, reply);
    else if (command.kind === COMMANDS.retention.number && reply.code === 0) {
      const head = state.find(command.bytes, command.keyAt, command.keyBytes);
      if (head !== undefined) this.#judgeFrontier(state, head);
    }
  }

  #flushed(state: State, command: Command, reply: Reply): void {
    const { object, key, slices } = decodeFlushList(command.payload());
    if (slices.length === 0) return;
    if (command.kind === COMMANDS.compact.number) {
      this.counts.compactions++;
      this.counts.coldMerged += COMMANDS.compact.result.read(reply).slicesAccepted;
    } else {
      this.counts.flushes++;
      const { slicesAccepted } = COMMANDS.flush.result.read(reply);
      this.counts.coldSlices += slicesAccepted;
      if (slicesAccepted === 0) this.counts.staleFlushes++;
    }
    for (const slice of slices) {
      const head = state.find(slice.stream, 0, slice.stream.length);
      if (head === undefined) continue;
      this.#frontier(state, head.incarnation, head.hotStart);
      const { at } = chunksAt(state, head, slice.start);
      if (at?.start !== slice.start || at.object.run !== object.run || at.object.seq !== object.seq) continue;
      this.#whole(key, head.incarnation, at);
    }
  }

  /** A flush soon hides that rows were not given up, so this is asked after each retention too. */
  #judgeFrontier(state: State, { incarnation, hotStart, startOffset }: Head): void {
    this.#frontier(state, incarnation, hotStart);
    if (startOffset > hotStart)
      this.#fail(`g${state.group}: rows of ${incarnation} begin in front of the start offset`);
  }

  #frontier(state: State, incarnation: number, hotStart: number): void {
    const stream = `${state.group}/${incarnation}`;
    const known = this.#frontiers.get(stream) ?? 0;
    if (hotStart < known)
      this.#fail(`g${state.group}: the rows of ${incarnation} began at ${known}, now at ${hotStart}`);
    this.#frontiers.set(stream, hotStart);
  }

  /** The object is there, and the chunk in it is the one that the stream refers to. */
  #whole(key: string, incarnation: number, { at, length, digest, start, end }: Chunk): void {
    const body = this.#store.body(key);
    if (body === undefined) return this.#fail(`${key} is referred to, and is not there`);
    const bytes = body.subarray(at, at + length);
    if (!sameDigest(digestOf(bytes), digest)) return this.#fail(`${key} at ${at} holds something else`);
    const chunk = decodeChunk(bytes);
    if (chunk?.incarnation !== incarnation || chunk.start !== start || chunk.end !== end)
      this.#fail(`${key} at ${at} is no chunk [${start}, ${end}) of ${incarnation}`);
  }

  #auditOne(reference: Reference): void {
    const { state } = reference;
    const refs = new Map<string, number>();
    const ends = new Map<number, number>();
    const objects = new Map<string, { refs: number; queued: boolean }>();
    let coldBytes = 0;
    let queued = 0;
    for (const [key, value] of reference.rows()) {
      if (key[2] === TAG.chunk) {
        const { object, start, end } = decodeChunkRow(value);
        const incarnation = incarnationOf(key);
        const before = ends.get(incarnation);
        if (before !== undefined && before !== start) this.#fail(`gap in the chunks of ${incarnation} at ${before}`);
        ends.set(incarnation, end);
        coldBytes += end - start;
        const name = `${object.run}-${object.seq}`;
        refs.set(name, (refs.get(name) ?? 0) + 1);
      } else if (key[2] === TAG.object) {
        const object = { run: hex(key, 3, 8), seq: Number.parseInt(hex(key, 11, 6), 16) };
        const stored = storedObject(state, object);
        if (stored === undefined) continue;
        objects.set(`${object.run}-${object.seq}`, { refs: stored.refs, queued: stored.gcSeq >= 0 });
        if (stored.refs > 0 && this.#store.body(stored.key) === undefined)
          this.#fail(`${stored.key} is referred to, and is not there`);
      } else if (key[2] === TAG.gc) queued++;
    }
    for (const [name, object] of objects) {
      const counted = refs.get(name) ?? 0;
      if (object.refs !== counted) this.#fail(`g${state.group}: ${name} has ${counted} references, not ${object.refs}`);
      if (object.queued !== (counted === 0))
        this.#fail(`g${state.group}: ${name} with ${counted} references is queued for deletion`);
      refs.delete(name);
    }
    if (refs.size > 0) this.#fail(`g${state.group}: chunks of the unknown object ${[...refs.keys()].join(' ')}`);
    const { cold } = state;
    if (cold.bytes !== coldBytes) this.#fail(`g${state.group}: ${coldBytes} cold bytes, not ${cold.bytes}`);
    if (cold.objects !== objects.size) this.#fail(`g${state.group}: ${objects.size} objects, not ${cold.objects}`);
    if (cold.gcLength !== queued) this.#fail(`g${state.group}: GC queue of ${queued}, not ${cold.gcLength}`);
    this.#auditHeads(reference, ends);
  }

  #auditHeads(reference: Reference, ends: ReadonlyMap<number, number>): void {
    const { state } = reference;
    let hotBytes = 0;
    for (const [key, value] of reference.rows()) {
      if (key[2] !== TAG.head) continue;
      const head = decodeHead(key.slice(3), 0, value);
      hotBytes += head.tail - head.hotStart;
      this.#judgeFrontier(state, head);
      const end = ends.get(head.incarnation);
      if (head.hotStart > head.startOffset && end !== head.hotStart)
        this.#fail(`g${state.group}: chunks of ${head.incarnation} end at ${end}, rows begin at ${head.hotStart}`);
    }
    if (state.hotBytes !== hotBytes) this.#fail(`g${state.group}: ${hotBytes} hot bytes, not ${state.hotBytes}`);
  }
}

function hex(bytes: Uint8Array, at: number, size: number): string {
  return Array.from(bytes.subarray(at, at + size), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
