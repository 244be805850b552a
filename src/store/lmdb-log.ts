/**
 * The log as versions before kept it: a table of the LMDB environment with one record per turn, cut into values of one
 * page. It is read once, when this version opens such a directory, and its entries go into segment files.
 *
 * A record may have outlived some of its own entries, because another group needed it; the one that
 * replaced them was kept as long. So an entry that does not follow what was read so far is void: what lay
 * between was replaced, and the record that did it comes later.
 */
import { assert } from '../base/assert.ts';
import { viewOf } from '../base/bytes.ts';
import { PAGE_VALUE_BYTES } from '../base/limits.ts';
import { f64, struct, u16, u32, u32BE, u64BE, u8, zeros } from '../base/struct.ts';
import type { Entry, EntryKind } from '../raft/types.ts';

export const LMDB_LOG_KEY = struct({ turn: u64BE, part: u32BE });
export const LMDB_LOG_ENTRY = struct(
  { group: u16, kind: u8, zero: zeros(1), dataBytes: u32, term: f64, index: f64 },
  'data; the next entry',
);
/** Marks a record that cuts a log: a snapshot replaced all of it. */
const KIND_CUT = 0xff;
/** Entries are handed out in groups of about so many bytes. */
const CHUNK_BYTES = 1024 * 1024;

export interface LmdbLogTable {
  getBinaryFast(key: Uint8Array): Uint8Array | undefined;
  getRange(options: object): Iterable<{ readonly key: Uint8Array; readonly value: Uint8Array }>;
}

interface Place {
  readonly turn: number;
  readonly at: number;
  readonly term: number;
  readonly index: number;
  readonly kind: EntryKind;
  readonly size: number;
}

export class LmdbLog {
  readonly #table: LmdbLogTable;

  constructor(table: LmdbLogTable) {
    this.#table = table;
  }

  get isEmpty(): boolean {
    for (const _ of this.#table.getRange({ limit: 1 })) return false;
    return true;
  }

  /**
   * The entries that are in force of each group, in order and in pieces. `firsts`: the
   * first index after its applied state.
   */
  *entries(
    firsts: ReadonlyMap<number, number>,
  ): IterableIterator<{ readonly group: number; readonly entries: Entry[] }> {
    for (const [group, places] of this.#places(firsts)) {
      let entries: Entry[] = [];
      let bytes = 0;
      for (const { turn, at, term, index, kind, size } of places) {
        entries.push({ term, index, kind, data: this.#read(turn, at + LMDB_LOG_ENTRY.size, size) });
        bytes += size;
        if (bytes < CHUNK_BYTES) continue;
        yield { group, entries };
        entries = [];
        bytes = 0;
      }
      if (entries.length > 0) yield { group, entries };
    }
  }

  #places(firsts: ReadonlyMap<number, number>): Map<number, Place[]> {
    const groups = new Map([...firsts.keys()].map((group) => [group, [] as Place[]]));
    let turn = 0;
    let parts: Uint8Array[] = [];
    const finish = (): void => {
      if (parts.length > 0) readRecord(turn, Buffer.concat(parts), groups, firsts);
      parts = [];
    };
    for (const { key, value } of this.#table.getRange({})) {
      const { turn: ofTurn, part } = LMDB_LOG_KEY.decode(key);
      if (ofTurn !== turn) finish();
      turn = ofTurn;
      assert(part === parts.length, `part ${parts.length} of turn ${turn} is there`);
      parts.push(value.slice());
    }
    finish();
    return groups;
  }

  #read(turn: number, at: number, size: number): Uint8Array {
    const data = new Uint8Array(size);
    for (let done = 0; done < size;) {
      const part = Math.floor((at + done) / PAGE_VALUE_BYTES);
      const from = (at + done) % PAGE_VALUE_BYTES;
      const value = this.#table.getBinaryFast(LMDB_LOG_KEY.encode({ turn, part }));
      assert(value !== undefined && value.length > from, `part ${part} of turn ${turn} of the log is there`);
      const taken = Math.min(value.length - from, size - done);
      // A view, because copying lmdb-js's buffer would copy its full length.
      data.set(new Uint8Array(value.buffer, value.byteOffset + from, taken), done);
      done += taken;
    }
    return data;
  }
}

function readRecord(
  turn: number,
  bytes: Uint8Array,
  groups: ReadonlyMap<number, Place[]>,
  firsts: ReadonlyMap<number, number>,
): void {
  const view = viewOf(bytes);
  for (let at = 0; at < bytes.length;) {
    const { group, kind, dataBytes: size, term, index } = LMDB_LOG_ENTRY.read(view, at);
    const places = groups.get(group);
    assert(places !== undefined, `group ${group} of the log belongs to this shard`);
    const keep = index - (firsts.get(group) ?? 1);
    if (kind === KIND_CUT || keep < 0) places.length = 0;
    else if (keep <= places.length) {
      places.length = keep;
      places.push({ turn, at, term, index, kind: kind as EntryKind, size });
    }
    at += LMDB_LOG_ENTRY.size + size;
  }
}
