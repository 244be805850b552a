// A cold store in memory that answers when and how the test says: in time, late, with an error that is true, or with
// one although everything happened.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type {
  ColdPort,
  ColdSettings,
  ListRequest,
  MergeAnswer,
  MergeRequest,
  RemoveRequest,
  UploadRequest,
} from '../../../src/cold/shard/port.ts';
import type { ListedObject } from '../../../src/cold/ports.ts';
import { mergeChunks } from '../../../src/stream/cold/merge.ts';
import type { ColdTier } from '../../../src/cold/shard/tier.ts';

/** `error`: nothing was done. `lost`: it was done, and the shard is told that it was not. */
export type How = 'ok' | 'error' | 'lost';

type Asked =
  | { readonly op: 'upload'; readonly request: UploadRequest }
  | { readonly op: 'remove'; readonly request: RemoveRequest }
  | { readonly op: 'list'; readonly request: ListRequest }
  | { readonly op: 'merge'; readonly request: MergeRequest };

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
  #lastId = 0;
  /** Done in the store, but not yet answered. */
  readonly #happened = new Set<Asked>();
  readonly #mergeAnswers = new Map<MergeRequest, MergeAnswer>();

  upload(request: UploadRequest): void {
    assert(!this.uploaded.includes(request.key), `key ${request.key} is used once`);
    let at = 0;
    for (const slice of request.slices) {
      assert(slice.at >= at, 'slices are in order');
      at = slice.at + slice.length;
    }
    assert(at <= request.body.length, 'slices lie in the object');
    this.uploaded.push(request.key);
    this.#ask({ op: 'upload', request });
  }

  remove(request: RemoveRequest): void {
    assert(request.keys.length > 0);
    this.#ask({ op: 'remove', request });
  }

  list(request: ListRequest): void {
    this.#ask({ op: 'list', request });
  }

  merge(request: MergeRequest): void {
    assert(!this.uploaded.includes(request.key), `key ${request.key} is used once`);
    this.uploaded.push(request.key);
    this.merged.push({ key: request.key, sources: request.slices.reduce((sum, { refs }) => sum + refs.length, 0) });
    this.#ask({ op: 'merge', request });
  }

  #ask(asked: Asked): void {
    assert(asked.request.id > this.#lastId, 'an id is used once');
    this.#lastId = asked.request.id;
    this.open.push(asked);
  }

  /** Another process asks from now on. */
  forget(): void {
    this.open.length = 0;
    this.#lastId = 0;
  }

  count(op: Asked['op']): number {
    return this.open.filter((one) => one.op === op).length;
  }

  /** Answers the oldest question, or that of the given kind; false when there is none. */
  answer(tier: ColdTier | undefined, how: How = 'ok', op?: Asked['op']): boolean {
    const at = this.open.findIndex((one) => op === undefined || one.op === op);
    const [asked] = at < 0 ? [] : this.open.splice(at, 1);
    if (asked === undefined) return false;
    this.perform(asked, how, tier);
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
    if (asked.op === 'upload') {
      const { key, body } = asked.request;
      this.objects.set(key, { body: body.slice(), writtenAtMs: this.nowMs });
    } else if (asked.op === 'remove') {
      for (const key of asked.request.keys) this.#delete(key);
    } else if (asked.op === 'merge') {
      this.#mergeAnswers.set(asked.request, this.#mergeNow(asked.request));
    }
  }

  #mergeNow({ key, slices }: MergeRequest): MergeAnswer {
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

  perform(asked: Asked, how: How, tier: ColdTier | undefined): void {
    const error = 'the store said no';
    const { id } = asked.request;
    if (how !== 'error') this.happen(asked);
    if (asked.op === 'upload') {
      const { body, slices } = asked.request;
      const digests = slices.map(({ at, length }) => digest(body.subarray(at, at + length)));
      tier?.flusher.onUploaded(id, how === 'ok' ? { digests } : { error });
    } else if (asked.op === 'remove') {
      const { keys } = asked.request;
      // A failed removal may have got halfway.
      if (how === 'error') for (const key of keys.slice(0, keys.length / 2)) this.#delete(key);
      tier?.collector.onRemoved(id, how === 'ok' ? {} : { error });
    } else if (asked.op === 'merge') {
      const answer = this.#mergeAnswers.get(asked.request);
      tier?.compactor.onMerged(id, how === 'ok' && answer !== undefined ? answer : { error });
    } else {
      tier?.sweeper.onListed(id, how === 'ok' ? this.#page(asked.request) : { error });
    }
  }

  #page({ prefix, after, limit }: ListRequest): { objects: ListedObject[]; next: string | undefined } {
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const objects = keys.slice(0, limit).map((key) => {
      const { body, writtenAtMs } = this.objects.get(key) as StoredObject;
      return { key, bytes: body.length, writtenAtMs };
    });
    return { objects, next: keys.length > limit ? keys[limit - 1] : undefined };
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
