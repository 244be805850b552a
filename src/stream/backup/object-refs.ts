/** Checks cold objects against their chunks: each chunk is inside its object, which counts its references right. */
import { type StoredChunk, decodeObjectId } from '../../protocol/cold.ts';
import { parseObjectKey } from '../../protocol/object-key.ts';
import { decodeObjectRow, sameObject } from '../cold/objects.ts';
import { OBJECT_KEY_BYTES_MAX } from '../../base/limits.ts';
import { Fault, check, nameText } from './fault.ts';
import type { StreamParts } from './stream-parts.ts';

interface Refs {
  count: number;
  /** Minimum size of the object. */
  bytes: number;
  /** One of the streams, for the error sentence. */
  readonly stream: Uint8Array;
}

export class ObjectRefs {
  /** By object, until its row comes. */
  readonly #refs = new Map<string, Refs>();
  count = 0;
  bytes = 0;

  chunk({ name }: StreamParts, { object, at, length }: StoredChunk): void {
    const id = `${object.run}-${object.seq}`;
    const refs = this.#refs.get(id);
    if (refs === undefined) this.#refs.set(id, { count: 1, bytes: at + length, stream: name });
    else {
      refs.count++;
      refs.bytes = Math.max(refs.bytes, at + length);
    }
  }

  object(key: Uint8Array, value: Uint8Array): void {
    const object = decodeObjectId(key, 1);
    const id = `${object.run}-${object.seq}`;
    const stored = decodeObjectRow(object, value);
    const refs = this.#refs.get(id);
    check(refs !== undefined, `nothing refers to the object ${id}`);
    const named = parseObjectKey(stored.key);
    check(
      named !== undefined && sameObject(named, object) && stored.key.length <= OBJECT_KEY_BYTES_MAX,
      `the object ${id} has no key, or an impossible one`,
    );
    check(
      stored.refs === refs.count && stored.gcSeq === -1,
      `the object ${stored.key} counts ${stored.refs} references, but ${refs.count} are there`,
    );
    check(
      refs.bytes <= stored.bytes,
      `stream ${nameText(refs.stream)} refers to bytes beyond the end of the object ${stored.key}`,
    );
    this.#refs.delete(id);
    this.count++;
    this.bytes += stored.bytes;
  }

  checkAllListed(): void {
    for (const [id, { stream }] of this.#refs) {
      throw new Fault(`stream ${nameText(stream)} refers to the object ${id}, which is not listed`);
    }
  }
}
