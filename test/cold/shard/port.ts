// A cold store in memory that answers when and how the test says: in time, late, with an error that is true, or with
// one although everything happened.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type {
  ColdOp,
  ColdOutcome,
  ColdPort,
  ColdResults,
  ColdSettings,
  ColdTask,
  MergedObject,
  ObjectPage,
} from '../../../src/cold/ports.ts';
import { mergeChunks } from '../../../src/stream/cold/merge.ts';

/** `error`: nothing was done. `lost`: it was done, and the shard is told that it was not. */
export type How = 'ok' | 'error' | 'lost';

type TaskOf<Op extends ColdOp> = Extract<ColdTask, { readonly op: Op }>;

interface Asked {
  readonly task: ColdTask;
  onOutcome(outcome: ColdOutcome): void;
}

interface StoredObject {
  readonly body: Uint8Array;
  readonly writtenAtMs: number;
}

export class FakeColdPort implements ColdPort {
  readonly objects = new Map<string, StoredObject>();
  /** Not yet answered, in the order they were asked. */
  readonly open: Asked[] = [];
  /** Wall clock of the store. */
  nowMs = 0;
  /** Keys of all uploads, also of failed ones. */
  readonly uploaded: string[] = [];
  readonly removed: string[] = [];
  /** Keys of all merged objects, and how many chunks they were made of. */
  readonly merged: { readonly key: string; readonly sources: number }[] = [];
  /** Done in the store, but not yet answered. */
  readonly #happened = new Set<Asked>();
  readonly #merges = new Map<Asked, MergedObject>();

  ask<Task extends ColdTask>(task: Task, onOutcome: (outcome: ColdOutcome<Task['op']>) => void): void {
    if (task.op === 'put') this.#checkUpload(task);
    if (task.op === 'remove') assert(task.keys.length > 0);
    if (task.op === 'merge') {
      assert(!this.uploaded.includes(task.key), `key ${task.key} is used once`);
      this.uploaded.push(task.key);
      this.merged.push({ key: task.key, sources: task.slices.reduce((sum, { refs }) => sum + refs.length, 0) });
    }
    this.open.push({ task, onOutcome });
  }

  #checkUpload({ key, body, slices }: TaskOf<'put'>): void {
    assert(!this.uploaded.includes(key), `key ${key} is used once`);
    let at = 0;
    for (const slice of slices) {
      assert(slice.at >= at, 'slices are in order');
      at = slice.at + slice.length;
    }
    assert(at <= body.length, 'slices lie in the object');
    this.uploaded.push(key);
  }

  /** Another process asks from now on. */
  forget(): void {
    this.open.length = 0;
  }

  count(op: ColdOp): number {
    return this.open.filter(({ task }) => task.op === op).length;
  }

  /** Answers the oldest question, or that of the given kind; false when there is none. */
  answer(how: How = 'ok', op?: ColdOp): boolean {
    const at = this.open.findIndex(({ task }) => op === undefined || task.op === op);
    const [asked] = at < 0 ? [] : this.open.splice(at, 1);
    if (asked === undefined) return false;
    this.perform(asked, how);
    return true;
  }

  /** It is not open any more. */
  take(asked: Asked): Asked {
    this.open.splice(this.open.indexOf(asked), 1);
    return asked;
  }

  /** The store has done the operation; the answer is in flight. */
  happen(asked: Asked): void {
    if (this.#happened.has(asked)) return;
    this.#happened.add(asked);
    const { task } = asked;
    if (task.op === 'put') this.objects.set(task.key, { body: task.body.slice(), writtenAtMs: this.nowMs });
    else if (task.op === 'remove') for (const key of task.keys) this.#delete(key);
    else if (task.op === 'merge') this.#merges.set(asked, this.#mergeNow(task));
  }

  #mergeNow({ key, slices }: TaskOf<'merge'>): MergedObject {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    const answers = slices.map(({ incarnation, refs }) => {
      const sources = refs.map((ref) => this.objects.get(ref.key)?.body.slice(ref.at, ref.at + ref.length));
      const bad = refs.find((ref, i) => Buffer.compare(digest(sources[i] ?? new Uint8Array(0)), ref.digest) !== 0);
      if (bad !== undefined) return { failed: `${bad.key} is missing or bad` };
      const chunk = mergeChunks(incarnation, refs, sources as Uint8Array[]);
      assert(chunk !== undefined, 'a plan names chunks that follow each other');
      chunks.push(chunk);
      bytes += chunk.length;
      return { at: bytes - chunk.length, length: chunk.length, digest: digest(chunk) };
    });
    if (bytes > 0) this.objects.set(key, { body: new Uint8Array(Buffer.concat(chunks)), writtenAtMs: this.nowMs });
    return { bytes, slices: answers };
  }

  #delete(key: string): void {
    this.objects.delete(key);
    this.removed.push(key);
  }

  perform(asked: Asked, how: How): void {
    const { task } = asked;
    if (how !== 'error') this.happen(asked);
    // A failed removal may have got halfway.
    else if (task.op === 'remove') for (const key of task.keys.slice(0, task.keys.length / 2)) this.#delete(key);
    if (how !== 'ok') asked.onOutcome({ ok: false, failure: 'unreachable', message: 'the store said no' });
    else asked.onOutcome({ ok: true, value: this.#resultOf(asked) });
  }

  #resultOf(asked: Asked): ColdResults[ColdOp] {
    const { task } = asked;
    switch (task.op) {
      case 'put':
        return new Uint8Array(
          Buffer.concat(task.slices.map(({ at, length }) => digest(task.body.subarray(at, at + length)))),
        );
      case 'list':
        return this.#page(task);
      case 'merge':
        return this.#merges.get(asked);
      default:
        return undefined;
    }
  }

  #page({ prefix, after, limit }: TaskOf<'list'>): ObjectPage {
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const objects = keys.slice(0, limit).map((key) => {
      const { body, writtenAtMs } = this.objects.get(key) as StoredObject;
      return { key, bytes: body.length, writtenAtMs };
    });
    return { objects, more: keys.length > limit };
  }
}

export function digest(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(createHash('sha256').update(bytes).digest());
}

export const SETTINGS: ColdSettings = {
  run: '00000000000000aa',
  flushIntervalMs: 1000,
  flushBytes: 4096,
  flushBytesMax: 8192,
  uploadsMax: 2,
  hotBytesMax: 0,
  gcIntervalMs: 500,
  gcEntriesMax: 4,
  gcGraceMs: 2000,
  mergedGraceMs: 2000,
  sweepIntervalMs: 10_000,
  sweepGraceMs: 3000,
  compactRunMin: 16,
};
