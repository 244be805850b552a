/**
 * The rows of a group about forks: the source of a stream that is a fork, the forks of a stream, streams that were
 * removed while they have live forks (tombstones), and sources still to be notified that a fork is gone.
 */
import { neededRow } from '../../base/row-damage.ts';
import { assert } from '../../base/assert.ts';
import { viewOf } from '../../base/bytes.ts';
import { f64, f64OrNone, struct, u16, u8, zeros } from '../../base/struct.ts';
import type { PinPlace } from '../../protocol/queries/summaries.ts';
import {
  TAG,
  anyRow,
  incarnationKey,
  lastPosition,
  restOf,
  positionKey,
  prefixEnd,
  incarnationOf,
  taggedKey,
  unpinKey,
} from './keys.ts';
import type { Overlay } from '../../base/overlay.ts';

const FORMAT = 1;
/** `anchor` -1: nothing has come. */
export const FORK_ROW = struct(
  {
    ...{ format: u8, zeros: zeros(7), token: f64, anchor: f64OrNone, subOffset: f64 },
    ...{ ttlSeconds: f64OrNone, expiresAtMs: f64OrNone },
  },
  'key of the source',
);
export const PIN_ROW = struct({ forkBytes: u16 }, 'key of the fork, key of the stream itself');
/** `token` 0: the stream was no fork. */
export const TOMBSTONE_ROW = struct({ format: u8, zeros: zeros(7), incarnation: f64, token: f64 }, 'key of the source');

/** The source of a fork, and the request that created it. */
export interface Origin {
  readonly token: number;
  readonly source: Uint8Array;
  /** Branch offset in the source, without the sub-offset; -1: not known yet. */
  readonly anchor: number;
  readonly subOffset: number;
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
}

/** A source to be notified that its fork is gone. */
export interface Unpin {
  readonly token: number;
  readonly source: Uint8Array;
}

/** A fork of a stream, and the stream. */
export interface PinnedFork {
  readonly fork: Uint8Array;
  readonly source: Uint8Array;
}

type Place = Pick<PinPlace, 'incarnation' | 'token'>;

export interface Tombstone {
  /** The stream's number, under which its pins are stored. */
  readonly incarnation: number;
  /** The stream was itself a fork: its source is notified when the tombstone is removed. */
  readonly unpin: Unpin | undefined;
}

export class ForkRows {
  readonly #prefix: number;
  readonly #overlay: Overlay;
  /** There may be tombstones; while there are none, lookups are skipped. */
  #tombstones = false;

  constructor(prefix: number, overlay: Overlay) {
    this.#prefix = prefix;
    this.#overlay = overlay;
    this.#tombstones = anyRow(overlay, taggedKey(prefix, TAG.tombstone));
  }

  /** Rows entered the store without passing through this cache. */
  forget(): void {
    this.#tombstones = true;
  }

  origin(incarnation: number): Origin {
    return decodeOrigin(neededRow(this.#overlay, incarnationKey(this.#prefix, TAG.fork, incarnation)));
  }

  putOrigin(incarnation: number, origin: Origin): void {
    this.#overlay.put(incarnationKey(this.#prefix, TAG.fork, incarnation), encodeOrigin(origin));
  }

  deleteOrigin(incarnation: number): void {
    this.#overlay.delete(incarnationKey(this.#prefix, TAG.fork, incarnation));
  }

  putPin(incarnation: number, token: number, pin: PinnedFork): void {
    this.#overlay.put(positionKey(this.#prefix, TAG.pin, incarnation, token), encodePin(pin));
  }

  deletePin(incarnation: number, token: number): void {
    this.#overlay.delete(positionKey(this.#prefix, TAG.pin, incarnation, token));
  }

  hasPins(incarnation: number): boolean {
    return anyRow(this.#overlay, incarnationKey(this.#prefix, TAG.pin, incarnation));
  }

  /** Visits pins of all streams from (incarnation, token) on in order until `visit` returns false. */
  eachPin(incarnation: number, token: number, visit: (pin: PinnedFork, place: Place) => boolean): void {
    const end = prefixEnd(taggedKey(this.#prefix, TAG.pin));
    this.#overlay.range(positionKey(this.#prefix, TAG.pin, incarnation, token), end, false, (key, row) =>
      visit(decodePin(row), { incarnation: incarnationOf(key), token: lastPosition(key) }),
    );
  }

  /** Deletes up to `most` pins and returns their number. */
  dropPins(incarnation: number, most: number): number {
    const tokens: number[] = [];
    if (most > 0) {
      this.eachPin(incarnation, 0, (_pin, place) => {
        if (place.incarnation === incarnation) tokens.push(place.token);
        return place.incarnation === incarnation && tokens.length < most;
      });
    }
    for (const token of tokens) this.deletePin(incarnation, token);
    return tokens.length;
  }

  tombstone(bytes: Uint8Array, start: number, length: number): Tombstone | undefined {
    if (!this.#tombstones) return undefined;
    const row = this.#overlay.get(this.#tombstoneKey(bytes.subarray(start, start + length)));
    return row === undefined ? undefined : decodeTombstone(row);
  }

  putTombstone(key: Uint8Array, tombstone: Tombstone): void {
    this.#overlay.put(this.#tombstoneKey(key), encodeTombstone(tombstone));
    this.#tombstones = true;
  }

  /** The notification that follows from removing the tombstone, if any. */
  deleteTombstone(key: Uint8Array, { unpin }: Tombstone): Unpin | undefined {
    this.#overlay.delete(this.#tombstoneKey(key));
    if (unpin !== undefined) this.putUnpin(unpin);
    return unpin;
  }

  /** Visits tombstones whose stream's key begins with `front`, from `from` on, until `visit` returns false. */
  eachTombstone(front: Uint8Array, from: Uint8Array, visit: (key: Uint8Array, tombstone: Tombstone) => boolean): void {
    if (!this.#tombstones) return;
    const end = prefixEnd(this.#tombstoneKey(front));
    this.#overlay.range(this.#tombstoneKey(from), end, false, (key, row) =>
      visit(restOf(key).slice(), decodeTombstone(row)),
    );
  }

  putUnpin({ token, source }: Unpin): void {
    this.#overlay.put(unpinKey(this.#prefix, token), source);
  }

  deleteUnpin(token: number): void {
    this.#overlay.delete(unpinKey(this.#prefix, token));
  }

  hasUnpin(token: number): boolean {
    return this.#overlay.get(unpinKey(this.#prefix, token)) !== undefined;
  }

  /** In token order, from `token` on, until `visit` returns false. */
  eachUnpin(token: number, visit: (unpin: Unpin) => boolean): void {
    const end = prefixEnd(taggedKey(this.#prefix, TAG.unpin));
    this.#overlay.range(unpinKey(this.#prefix, token), end, false, (key, source) =>
      visit({ token: lastPosition(key), source: source.slice() }),
    );
  }

  #tombstoneKey(key: Uint8Array): Uint8Array {
    return taggedKey(this.#prefix, TAG.tombstone, key);
  }
}

export function encodePin({ fork, source }: PinnedFork): Uint8Array {
  const row = new Uint8Array(PIN_ROW.size + fork.length + source.length);
  PIN_ROW.write(viewOf(row), 0, { forkBytes: fork.length });
  row.set(fork, PIN_ROW.size);
  row.set(source, PIN_ROW.size + fork.length);
  return row;
}

export function decodePin(row: Uint8Array): PinnedFork {
  const border = PIN_ROW.size + PIN_ROW.decode(row).forkBytes;
  return { fork: row.slice(PIN_ROW.size, border), source: row.slice(border) };
}

export function encodeOrigin(origin: Origin): Uint8Array {
  return FORK_ROW.encode({ ...origin, format: FORMAT }, origin.source);
}

export function decodeOrigin(row: Uint8Array): Origin {
  assert(row[0] === FORMAT, 'known fork row format');
  const { format: _, ...origin } = FORK_ROW.decode(row);
  return { ...origin, source: row.slice(FORK_ROW.size) };
}

export function encodeTombstone({ incarnation, unpin }: Tombstone): Uint8Array {
  const token = unpin?.token ?? 0;
  return TOMBSTONE_ROW.encode({ format: FORMAT, incarnation, token }, unpin?.source);
}

export function decodeTombstone(row: Uint8Array): Tombstone {
  assert(row[0] === FORMAT, 'known tombstone row format');
  const { incarnation, token } = TOMBSTONE_ROW.decode(row);
  const unpin = token === 0 ? undefined : { token, source: row.slice(TOMBSTONE_ROW.size) };
  return { incarnation, unpin };
}
