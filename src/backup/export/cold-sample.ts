/**
 * A few of the chunks that an import refers to, from the oldest and the newest streams: whether they can be read shows
 * whether the store is the source's, or a copy. Checked when the group is restored, before readers find out.
 */
import type { ReadCold } from '../../cold/ports.ts';
import { decodeObjectRow } from '../../stream/cold/objects.ts';
import { TAG } from '../../stream/core/keys.ts';
import { type ChunkRef, type StoredChunk, decodeChunkRow, decodeObjectId } from '../../protocol/cold.ts';

/** At each end. */
const CHUNKS_MAX = 4;

/** Members of the answer to an import. */
export interface ColdReport {
  readonly cold_objects_sampled: number;
  readonly cold_objects_unreadable: number;
  /** Why the first unreadable one cannot be read. */
  readonly cold_reason?: string;
}

export class ColdSample {
  readonly #first = new Map<string, StoredChunk>();
  readonly #last = new Map<string, StoredChunk>();
  readonly #refs: ChunkRef[] = [];

  /** Receives every row that an import writes; chunks come before objects. */
  row(key: Uint8Array, value: Uint8Array): void {
    if (key[0] === TAG.chunk) this.#chunk(decodeChunkRow(value));
    else if (key[0] === TAG.object) this.#object(key, value);
  }

  /** Undefined: the import refers to no chunks. */
  async look(read: ReadCold | undefined): Promise<ColdReport | undefined> {
    if (this.#refs.length === 0) return undefined;
    const outcomes = await Promise.all(this.#refs.map(async (ref) => read?.([ref])));
    const reasons = outcomes.flatMap((outcome) => {
      if (outcome === undefined) return ['this node has no cold store'];
      return outcome.ok ? [] : [outcome.message];
    });
    const report = { cold_objects_sampled: this.#refs.length, cold_objects_unreadable: reasons.length };
    return reasons[0] === undefined ? report : { ...report, cold_reason: reasons[0] };
  }

  #chunk(chunk: StoredChunk): void {
    const id = `${chunk.object.run}-${chunk.object.seq}`;
    if (this.#first.has(id)) return;
    if (this.#first.size < CHUNKS_MAX) {
      this.#first.set(id, chunk);
      return;
    }
    this.#last.delete(id);
    this.#last.set(id, chunk);
    for (const [oldest] of this.#last) {
      if (this.#last.size <= CHUNKS_MAX) break;
      this.#last.delete(oldest);
    }
  }

  #object(key: Uint8Array, value: Uint8Array): void {
    const id = decodeObjectId(key, 1);
    const chunk = this.#first.get(`${id.run}-${id.seq}`) ?? this.#last.get(`${id.run}-${id.seq}`);
    if (chunk === undefined) return;
    const { object, ...ref } = chunk;
    this.#refs.push({ ...ref, key: decodeObjectRow(object, value).key });
  }
}
