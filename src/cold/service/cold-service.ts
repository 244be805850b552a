/**
 * The cold store on the main thread: requests of shards go to the pool, and each is answered exactly once and never
 * with an exception.
 */
import { DIGEST_BYTES } from '../../digest/blake3.ts';
import { assert } from '../../base/assert.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ColdPool } from './cold-pool.ts';
import type { ColdOutcome } from './pool-tasks.ts';
import type { ChunkRef } from '../../protocol/cold.ts';
import type { Extent, MergeSlice } from '../ports.ts';
import type { ListAnswer, MergeAnswer, RemoveAnswer, UploadAnswer } from '../shard/port.ts';

/** Peers and strangers may ask at any rate; the store is probed no more often than this. */
const PROOF_MS = 1000;

export class ColdService {
  readonly #pool: ColdPool;
  readonly #runtime: Pick<Runtime, 'monotonicMs'>;
  #proof: Promise<boolean> | undefined;
  #proofUntilMs = -Infinity;
  readonly counters = {
    uploads: 0,
    uploadBytes: 0,
    uploadErrors: 0,
    removes: 0,
    removeErrors: 0,
    lists: 0,
    listErrors: 0,
    merges: 0,
    mergeErrors: 0,
  };

  constructor(pool: ColdPool, runtime: Pick<Runtime, 'monotonicMs'>) {
    this.#pool = pool;
    this.#runtime = runtime;
  }

  /** `body` is detached. */
  async upload(key: string, body: Uint8Array<ArrayBuffer>, slices: readonly Extent[]): Promise<UploadAnswer> {
    const bytes = body.length;
    const outcome = await this.#pool.run<'put'>({ op: 'put', key, body, slices });
    if (!outcome.ok) {
      this.counters.uploadErrors++;
      return { error: outcome.message };
    }
    this.counters.uploads++;
    this.counters.uploadBytes += bytes;
    const digests = outcome.value;
    return { digests: slices.map((_, i) => digests.subarray(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES)) };
  }

  async remove(keys: readonly string[]): Promise<RemoveAnswer> {
    const outcome = await this.#pool.run<'remove'>({ op: 'remove', keys });
    if (outcome.ok) {
      this.counters.removes += keys.length;
      return {};
    }
    this.counters.removeErrors++;
    return { error: outcome.message };
  }

  async list(prefix: string, after: string, limit: number): Promise<ListAnswer> {
    const outcome = await this.#pool.run<'list'>({ op: 'list', prefix, after, limit });
    if (!outcome.ok) {
      this.counters.listErrors++;
      return { error: outcome.message };
    }
    this.counters.lists++;
    const { objects, more } = outcome.value;
    return { objects, next: more ? objects.at(-1)?.key : undefined };
  }

  /** Writes an object with one chunk for each run of chunks. */
  async merge(key: string, slices: readonly MergeSlice[]): Promise<MergeAnswer> {
    const outcome = await this.#pool.run<'merge'>({ op: 'merge', key, slices });
    if (outcome.ok) {
      this.counters.merges++;
      return outcome.value;
    }
    this.counters.mergeErrors++;
    return { error: outcome.message };
  }

  /**
   * Whether the store accepts, returns and deletes an object now. Concurrent callers, and those of the next moment,
   * share the answer.
   */
  reaches(): Promise<boolean> {
    const clockMs = this.#runtime.monotonicMs();
    if (this.#proof === undefined || clockMs > this.#proofUntilMs) {
      this.#proofUntilMs = Infinity;
      this.#proof = this.#pool.run<'probe'>({ op: 'probe' }).then(({ ok }) => {
        this.#proofUntilMs = this.#runtime.monotonicMs() + PROOF_MS;
        return ok;
      });
    }
    return this.#proof;
  }

  /** Consecutive chunks of one object, verified. */
  read(refs: readonly StoredRange[]): Promise<ColdOutcome<'get'>> {
    const [first] = refs;
    assert(first !== undefined, 'a read has a range');
    const digests = new Uint8Array(refs.length * DIGEST_BYTES);
    refs.forEach(({ digest }, i) => digests.set(digest, i * DIGEST_BYTES));
    return this.#pool.run<'get'>({
      op: 'get',
      key: first.key,
      offset: first.at,
      lengths: refs.map(({ length }) => length),
      digests,
    });
  }
}

/** As named in a chunk's reference. */
export type StoredRange = Pick<ChunkRef, 'key' | 'at' | 'length' | 'digest'>;
