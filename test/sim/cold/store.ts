/**
 * An object store shared by all simulated nodes. What it is asked for may happen or not, at once or long after the
 * answer, and the answer may be wrong in the ways that a network makes it wrong: an error, although it happened;
 * success, seconds later; a request that takes effect twice. It never says that something happened which did not, and
 * it never makes up bytes, except where a run wants ranges to come altered.
 */
import { Buffer } from 'node:buffer';
import { digestOf, sameDigest } from '../../../src/digest/blake3.ts';
import type {
  ColdOutcome,
  ColdPort,
  ColdTask,
  MergedObject,
  MergedSlice,
  ObjectPage,
} from '../../../src/cold/ports.ts';
import { mergeChunks } from '../../../src/stream/cold/merge.ts';
import { type Random, createRandom } from '../../support/random.ts';
import { ReadCollector } from '../../../src/stream/core/collect.ts';
import { decodeObjectRow } from '../../../src/stream/cold/objects.ts';
import { TAG } from '../../../src/stream/core/keys.ts';
import { decodeObjectId } from '../../../src/protocol/cold.ts';
import type { StateDigest } from '../backup/state-digest.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import type { ColdOptions } from './options.ts';

type TaskOf<Op extends ColdTask['op']> = Extract<ColdTask, { readonly op: Op }>;
/** Tells what became of a task, after a while; `outcome` is drawn up then. */
type Tell<Op extends ColdTask['op']> = (waitMs: number, outcome: () => ColdOutcome<Op>) => void;

interface Stored {
  readonly body: Uint8Array;
  readonly writtenAtMs: number;
}

/** When something takes effect (undefined: never) and is answered, and how. */
interface Course {
  readonly deedMs: readonly number[];
  readonly answerMs: number;
  /** It is told that it was done. */
  readonly isTold: boolean;
}

/** The bytes of a range, or why there are none. */
export type Got = Uint8Array | 'missing' | 'unreachable';

const TROUBLE = { ok: false, failure: 'unreachable', message: 'the simulated store fails' } as const;
const YEAR_2023_MS = 1_700_000_000_000;
/** After this long a caller takes no answer for an error. */
const TIMEOUT_MS = 3000;

const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'latin1'));

export class SimColdStore {
  readonly options: ColdOptions;
  readonly objects = new Map<string, Stored>();
  readonly counts = {
    coldUploads: 0,
    coldRemoved: 0,
    coldLists: 0,
    coldGets: 0,
    coldMerges: 0,
    coldTroubles: 0,
    outage: 0,
  };
  /** One for all reads of a run: its memory is large. */
  readonly collector = new ReadCollector();
  /** Foreign objects, which must not be touched. */
  readonly foreign = new Set<string>();
  /** Objects that a backup refers to: the source may delete them, but they stay available to the restore. */
  readonly #kept = new Map<string, Uint8Array>();
  /** All that there ever was, in runs with a restore. */
  readonly #ever = new Map<string, Uint8Array>();
  /** Called before each deletion of an object. */
  onRemove: (key: string) => void = () => undefined;
  readonly #world: World;
  readonly #random: Random;
  /** Keys of all uploads ever asked for. */
  readonly #used = new Set<string>();
  /** Those that are written twice: they may be back after their removal. */
  readonly #twice = new Set<string>();
  #isDown = false;
  /** Everything works from now on. */
  #healed = false;

  constructor(world: World, options: ColdOptions) {
    this.#world = world;
    this.options = options;
    this.#random = createRandom(world.options.seed * 41 + 7);
  }

  start(): void {
    this.putForeign('read me first.txt');
    this.putForeign('g0000-00000000deadbeef/sim/pack/00000000deadbeef-000000000001');
    this.#outageLater();
  }

  heal(): void {
    this.#healed = true;
    this.#isDown = false;
  }

  putForeign(key: string): void {
    this.foreign.add(key);
    this.#put(key, new Uint8Array([1, 2, 3]));
  }

  /** Our objects that are left. */
  get ownObjects(): readonly string[] {
    return [...this.objects.keys()].filter((key) => !this.foreign.has(key));
  }

  /** The objects of an export stay. */
  keep({ rows }: StateDigest): void {
    for (const [row, value] of rows) {
      if (row.charCodeAt(0) !== TAG.object) continue;
      const object = decodeObjectId(bytesOf(row), 1);
      const { key } = decodeObjectRow(object, bytesOf(value));
      const body = this.#ever.get(key);
      if (body === undefined) throw this.#world.failure(`cold: ${key} is exported, and never was`);
      this.#kept.set(key, body);
    }
  }

  /** The body of an object that is there, or that a backup kept. */
  body(key: string): Uint8Array | undefined {
    return this.objects.get(key)?.body ?? this.#kept.get(key);
  }

  mayReturn(key: string): boolean {
    return this.#twice.has(key);
  }

  port(process: SimProcess): ColdPort {
    return {
      ask: (task, onOutcome) => {
        const caller: { onOutcome(outcome: ColdOutcome): void } = { onOutcome };
        this.#perform(task, (waitMs, outcome) =>
          process.later(waitMs, () => {
            caller.onOutcome(outcome());
            process.wake();
          }),
        );
      },
    };
  }

  #perform(task: ColdTask, tell: Tell<ColdTask['op']>): void {
    switch (task.op) {
      case 'put':
        return this.#upload(task, tell);
      case 'remove':
        return this.remove(task.keys, tell);
      case 'list':
        return this.#list(task, tell);
      case 'merge':
        return this.#merge(task, tell);
      default:
        throw this.#world.failure(`cold: no shard asks for ${task.op}`);
    }
  }

  /** A range of an object. */
  get(key: string, at: number, length: number, onGot: (got: Got) => void): void {
    this.counts.coldGets++;
    const { queue } = this.#world;
    const random = this.#random;
    if (this.#troubled()) {
      queue.after(random.chance(0.7) ? this.#delayMs() : TIMEOUT_MS, () => onGot('unreachable'));
      return;
    }
    const { altered } = this.options;
    queue.after(this.#delayMs(), () => {
      const body = this.body(key);
      if (body === undefined) return onGot('missing');
      const bytes = body.slice(at, at + length);
      if (this.#healed || !random.chance(altered) || bytes.length === 0) return onGot(bytes);
      if (random.chance(0.5)) return onGot(bytes.slice(0, random.int(0, bytes.length - 1)));
      bytes[random.int(0, bytes.length - 1)] = (bytes[0] as number) ^ random.int(1, 255);
      return onGot(bytes);
    });
  }

  #upload({ key, body, slices }: TaskOf<'put'>, tell: Tell<'put'>): void {
    this.counts.coldUploads++;
    if (this.#used.has(key)) throw this.#world.failure(`cold: ${key} is uploaded twice`);
    this.#used.add(key);
    const course = this.#course();
    if (course.deedMs.length > 1) this.#twice.add(key);
    for (const waitMs of course.deedMs) this.#world.queue.after(waitMs, () => this.#put(key, body));
    const digests = slices.map((slice) => digestOf(body.subarray(slice.at, slice.at + slice.length)));
    const value = new Uint8Array(Buffer.concat(digests));
    tell(course.answerMs, () => (course.isTold ? { ok: true, value } : TROUBLE));
  }

  /** Also for the main thread of a node, at the end of a purge. */
  remove(keys: readonly string[], tell: Tell<'remove'>): void {
    const { deedMs, answerMs, isTold } = this.#course();
    // One that fails may have got halfway.
    const removed = isTold || this.#random.chance(0.5) ? keys : keys.slice(0, keys.length / 2);
    for (const waitMs of deedMs) {
      this.#world.queue.after(waitMs, () => {
        for (const key of removed) this.#take(key);
      });
    }
    tell(answerMs, () => (isTold ? { ok: true, value: undefined } : TROUBLE));
  }

  #list(request: TaskOf<'list'>, tell: Tell<'list'>): void {
    this.counts.coldLists++;
    const { answerMs, isTold } = this.#course();
    const { prefix, after } = request;
    // As it was some time ago, when the answer comes late.
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const limit = Math.min(request.limit, this.#random.pick([1, 4, 1000]));
    const objects = keys.slice(0, limit).map((key) => {
      const { body, writtenAtMs } = this.objects.get(key) as Stored;
      return { key, bytes: body.length, writtenAtMs };
    });
    const value: ObjectPage = { objects, more: keys.length > limit };
    tell(answerMs, () => (isTold ? { ok: true, value } : TROUBLE));
  }

  /** Reads what there is when it comes to it, and writes what it made of it then. */
  #merge({ key, slices }: TaskOf<'merge'>, tell: Tell<'merge'>): void {
    this.counts.coldMerges++;
    if (this.#used.has(key)) throw this.#world.failure(`cold: ${key} is written twice`);
    this.#used.add(key);
    const course = this.#course();
    if (course.deedMs.length > 1) this.#twice.add(key);
    let merged: { readonly value: MergedObject; readonly body: Uint8Array } | undefined;
    for (const waitMs of course.deedMs) {
      this.#world.queue.after(waitMs, () => {
        merged ??= this.#merged(slices);
        if (merged.body.length > 0) this.#put(key, merged.body);
      });
    }
    tell(course.answerMs, () => (course.isTold && merged !== undefined ? { ok: true, value: merged.value } : TROUBLE));
  }

  #merged(slices: TaskOf<'merge'>['slices']): { readonly value: MergedObject; readonly body: Uint8Array } {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    const answers = slices.map(({ incarnation, refs }): MergedSlice => {
      const sources: Uint8Array[] = [];
      for (const { key, at, length, digest } of refs) {
        const source = this.body(key)?.subarray(at, at + length);
        if (source === undefined) return { failed: `${key} is missing` };
        const isAltered = !this.#healed && this.#random.chance(this.options.altered / refs.length);
        if (isAltered || !sameDigest(digestOf(source), digest)) return { failed: `${key} is altered` };
        sources.push(source);
      }
      const chunk = mergeChunks(incarnation, refs, sources);
      if (chunk === undefined) throw this.#world.failure(`cold: chunks of ${incarnation} cannot be merged`);
      chunks.push(chunk);
      bytes += chunk.length;
      return { at: bytes - chunk.length, length: chunk.length, digest: digestOf(chunk) };
    });
    return { value: { bytes, slices: answers }, body: new Uint8Array(Buffer.concat(chunks)) };
  }

  #put(key: string, body: Uint8Array): void {
    const known = this.objects.get(key);
    if (this.#world.options.backup.restore !== undefined) this.#ever.set(key, body);
    this.objects.set(key, { body, writtenAtMs: known?.writtenAtMs ?? this.#wallMs });
  }

  #take(key: string): void {
    if (this.foreign.has(key)) throw this.#world.failure(`cold: ${key} is removed, and is not ours`);
    this.onRemove(key);
    if (this.objects.delete(key)) this.counts.coldRemoved++;
  }

  get #wallMs(): number {
    return Math.floor(YEAR_2023_MS + this.#world.queue.nowMs);
  }

  #delayMs(): number {
    return this.options.delayMs * (0.2 + 1.6 * this.#random.next());
  }

  #troubled(): boolean {
    if (this.#healed) return false;
    if (this.#isDown) return true;
    const troubled = this.#random.chance(this.options.trouble);
    if (troubled) this.counts.coldTroubles++;
    return troubled;
  }

  #course(): Course {
    const random = this.#random;
    const soonMs = this.#delayMs();
    if (!this.#troubled()) return { deedMs: [soonMs], answerMs: soonMs + this.#delayMs() / 2, isTold: true };
    const isTold = false;
    const late = (): number => random.int(1, this.options.lateMs);
    const failedMs = random.chance(0.5) ? soonMs : TIMEOUT_MS;
    // A store that is away may still carry out what arrives when it is back.
    if (this.#isDown) return { deedMs: random.chance(0.2) ? [late()] : [], answerMs: failedMs, isTold };
    if (random.chance(this.options.belated)) return { deedMs: [soonMs], answerMs: soonMs + late(), isTold: true };
    switch (random.int(0, 3)) {
      case 0:
        return { deedMs: [], answerMs: failedMs, isTold };
      case 1:
        return { deedMs: [soonMs], answerMs: failedMs, isTold };
      case 2:
        return { deedMs: [late()], answerMs: failedMs, isTold };
      default:
        return { deedMs: [soonMs, soonMs + late()], answerMs: soonMs + late(), isTold: true };
    }
  }

  #outageLater(): void {
    const { queue } = this.#world;
    const random = this.#random;
    queue.after(-this.options.outageMs * Math.log(1 - random.next()), () => {
      if (this.#healed) return;
      this.counts.outage++;
      this.#isDown = true;
      this.#world.trace('the cold store is away');
      queue.after(random.int(200, random.pick([1500, 8000])), () => {
        this.#isDown = false;
        this.#world.trace('the cold store is back');
      });
      this.#outageLater();
    });
  }
}
