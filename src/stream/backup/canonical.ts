/**
 * Turns the rows of a group, in backup order, into the rows of the backup. Omits what only waits to be reclaimed: rows
 * of removed streams, rows and chunks below a frontier, and objects without references.
 */
import { byteAt } from '../../base/bytes.ts';
import { assert } from '../../base/assert.ts';
import { planted } from '../../base/planted.ts';
import { decodeChunkRow, decodeObjectId } from '../../protocol/cold.ts';
import { decodeObjectRow, encodeObjectRow } from '../cold/objects.ts';
import { decodeTombstone } from '../core/fork-rows.ts';
import { type Head, decodeHead, encodeHead } from '../core/head.ts';
import { TAG, bareIncarnationOf, barePositionOf } from '../core/keys.ts';
import { type RowSink, kindOf } from './rows.ts';

type Live = Pick<
  Head,
  'startOffset' | 'hotStart' | 'snapshotOffset' | 'hasAttributes' | 'hasProducers' | 'forked' | 'hasPins'
>;

export class Canonical {
  readonly #sink: RowSink;
  readonly #live = new Map<number, Live>();
  /** Incarnations of tombstones. */
  readonly #tombstones = new Set<number>();
  /** References of live streams by object. */
  readonly #refs = new Map<string, number>();

  constructor(sink: RowSink) {
    this.#sink = sink;
  }

  row(key: Uint8Array, value: Uint8Array): void {
    const tag = byteAt(key, 0);
    if (tag === TAG.bucket || tag === TAG.unpin) return this.#sink(key, value);
    if (tag === TAG.tombstone) return this.#tombstone(key, value);
    if (tag === TAG.head) return this.#head(key, value);
    if (tag === TAG.object) return this.#object(key, value);
    const incarnation = bareIncarnationOf(key);
    if (tag === TAG.pin && this.#tombstones.has(incarnation)) return this.#sink(key, value);
    const live = this.#live.get(incarnation);
    if (live !== undefined && this.#belongs(live, key, value)) this.#sink(key, value);
  }

  #head(key: Uint8Array, value: Uint8Array): void {
    const head = decodeHead(key.slice(1), 0, value);
    const { startOffset, hotStart, snapshotOffset, hasAttributes, hasProducers, forked, hasPins } = head;
    const live = { startOffset, hotStart, snapshotOffset, hasAttributes, hasProducers, forked, hasPins };
    this.#live.set(head.incarnation, live);
    if (planted('export-loses-start-offset')) forgetStartOffset(head, value);
    this.#sink(key, value);
  }

  #tombstone(key: Uint8Array, value: Uint8Array): void {
    this.#tombstones.add(decodeTombstone(value).incarnation);
    this.#sink(key, value);
  }

  #belongs(live: Live, key: Uint8Array, value: Uint8Array): boolean {
    const { tag, says } = kindOf(key);
    if (tag === TAG.data) return barePositionOf(key) >= live.hotStart;
    if (tag === TAG.chunk) return this.#refer(live, value);
    if (tag === TAG.producer && planted('export-loses-producers')) return false;
    assert(says !== undefined, `rows of tag ${tag} are in no backup`);
    return says(live);
  }

  /** A chunk below the start offset will be released. */
  #refer(live: Live, value: Uint8Array): boolean {
    const { end, object } = decodeChunkRow(value);
    if (end <= live.startOffset) return false;
    const id = `${object.run}-${object.seq}`;
    this.#refs.set(id, (this.#refs.get(id) ?? 0) + 1);
    return true;
  }

  #object(key: Uint8Array, value: Uint8Array): void {
    const object = decodeObjectId(key, 1);
    const refs = this.#refs.get(`${object.run}-${object.seq}`);
    if (refs === undefined) return;
    this.#sink(key, encodeObjectRow({ ...decodeObjectRow(object, value), refs, gcSeq: -1 }));
  }
}

function forgetStartOffset(head: Head, value: Uint8Array): void {
  head.startOffset = 0;
  head.recordFirst = 0;
  encodeHead(head, value, new DataView(value.buffer, value.byteOffset, value.length));
}
