/**
 * A group snapshot, format 1: a sequence of MessagePack values, so that any size passes through bounded memory.
 *
 * 1. map: format "millrace-group-snapshot", format_version 1, group, group_count, write_unit_bytes, commit_index,
 *    origin (of the group's own objects, protocol/object-key.ts; may be absent)
 * 2. any number of arrays [key, value, key, value, ...] (bin): rows in the order of stream/backup/rows.ts, keys without
 *    the group's prefix (stream/core/keys.ts), values in the formats of rows, with a format byte where they may change
 * 3. map: rows, buckets, streams, blake3 (bin, of everything before this map)
 *
 * A later version reads all earlier ones; an earlier one refuses a later one with a sentence.
 */
import { Packr } from 'msgpackr';
import { toHex } from '../../base/hex.ts';
import { isTable } from '../../base/scopes.ts';
import { BACKUP_FORMAT_VERSION, WRITE_UNIT_BYTES } from '../../base/limits.ts';
import { createHasher, sameDigest } from '../../digest/blake3.ts';
import { Fault, check } from '../../stream/backup/fault.ts';
import { type RowSink } from '../../stream/backup/rows.ts';
import { type Summary, Validator } from '../../stream/backup/validate.ts';
import { RowBatch } from './row-batch.ts';
import { IMPOSSIBLE, INCOMPLETE, valueEnd } from './scan.ts';
import { caughtMessage } from '../../base/caught.ts';

const FORMAT = 'millrace-group-snapshot';
const ORIGIN = /^[0-9a-f]{16}$/;

/** Approximate size of the rows in one array. */
const BATCH_BYTES = 256 * 1024;
/** Hard limit, because a value is held in memory completely. */
const VALUE_BYTES_MAX = 4 * 1024 * 1024;
const TOO_LARGE = `a value is larger than ${VALUE_BYTES_MAX} bytes`;

const packr = new Packr({ useRecords: false, variableMapSize: true });

export interface DocumentHead {
  readonly group: number;
  readonly groupCount: number;
  readonly commitIndex: number;
  /** Undefined: the snapshot does not say. */
  readonly origin: string | undefined;
}

export interface Contents extends Summary {
  readonly head: DocumentHead;
  /** BLAKE3 of the complete document, and its size. */
  readonly digest: string;
  readonly bytes: number;
}

/** Builds a document; `write` receives its pieces and owns them. */
export class DocumentWriter {
  readonly #write: (piece: Uint8Array<ArrayBuffer>) => void;
  readonly #hasher = createHasher();
  readonly #batch = new RowBatch(BATCH_BYTES);
  #batchBytes = 0;
  #rows = 0;

  constructor(head: DocumentHead, write: (piece: Uint8Array<ArrayBuffer>) => void) {
    this.#write = write;
    const map = {
      format: FORMAT,
      format_version: BACKUP_FORMAT_VERSION,
      group: head.group,
      group_count: head.groupCount,
      write_unit_bytes: WRITE_UNIT_BYTES,
      commit_index: head.commitIndex,
      ...(head.origin === undefined ? {} : { origin: head.origin }),
    };
    this.#put(Uint8Array.from(packr.pack(map)));
  }

  /** Key and value are copied. */
  row(key: Uint8Array, value: Uint8Array): void {
    this.#batch.add(key, value);
    this.#batchBytes += key.length + value.length;
    this.#rows++;
    if (this.#batchBytes >= BATCH_BYTES) this.flush();
  }

  /** Writes the collected rows as a piece. */
  flush(): void {
    if (this.#batch.isEmpty) return;
    this.#put(this.#batch.take());
    this.#batchBytes = 0;
  }

  end(buckets: number, streams: number): void {
    this.flush();
    const blake3 = Buffer.from(this.#hasher.digest());
    this.#write(Uint8Array.from(packr.pack({ rows: this.#rows, buckets, streams, blake3 })));
  }

  #put(piece: Uint8Array<ArrayBuffer>): void {
    this.#hasher.update(piece);
    this.#write(piece);
  }
}

/** Reads and validates a document as it arrives. Everything invalid is thrown as a Fault. */
export class DocumentReader {
  readonly #validator: Validator;
  readonly #onHead: (head: DocumentHead) => void;
  readonly #whole = createHasher();
  readonly #front = createHasher();
  #head: DocumentHead | undefined;
  #trailer: Record<string, unknown> | undefined;
  /** Start of a value whose end has not arrived; the memory is reused. */
  #held = new Uint8Array(BATCH_BYTES);
  #heldBytes = 0;
  #rows = 0;
  #bytes = 0;

  /** `onHead` may throw a Fault; `sink` receives validated rows and their index rows. */
  constructor(onHead: (head: DocumentHead) => void, sink: RowSink) {
    this.#onHead = onHead;
    this.#validator = new Validator(sink);
  }

  /** `piece` may be reused afterwards. */
  push(piece: Uint8Array): void {
    this.#bytes += piece.length;
    this.#whole.update(piece);
    if (this.#heldBytes === 0) return this.#keep(this.#values(piece));
    this.#reserve(this.#heldBytes + piece.length);
    this.#held.set(piece, this.#heldBytes);
    return this.#keep(this.#values(this.#held.subarray(0, this.#heldBytes + piece.length)));
  }

  /** The document has ended. */
  end(): Contents {
    const trailer = this.#trailer;
    const head = this.#head;
    check(this.#bytes > 0, 'the snapshot is empty');
    if (head === undefined || trailer === undefined || this.#heldBytes > 0) {
      throw new Fault('the snapshot is truncated');
    }
    const summary = this.#validator.finish();
    const same =
      trailer['rows'] === this.#rows &&
      trailer['buckets'] === summary.buckets &&
      trailer['streams'] === summary.streams;
    check(same, 'the snapshot holds other numbers of rows, buckets or streams than its end says');
    return { ...summary, head, digest: toHex(this.#whole.digest()), bytes: this.#bytes };
  }

  /** Consumes complete values; returns the remainder. */
  #values(bytes: Uint8Array): Uint8Array {
    let at = 0;
    while (at < bytes.length) {
      const end = valueEnd(bytes, at);
      check(end !== IMPOSSIBLE, `byte ${this.#bytes - bytes.length + at} begins nothing that a snapshot has`);
      if (end === INCOMPLETE) break;
      // Independent of the piece size: verification reads a file in larger pieces than an upload.
      check(end - at <= VALUE_BYTES_MAX, TOO_LARGE);
      this.#value(bytes.subarray(at, end));
      at = end;
    }
    return bytes.subarray(at);
  }

  #keep(rest: Uint8Array): void {
    check(rest.length <= VALUE_BYTES_MAX, TOO_LARGE);
    if (rest.buffer === this.#held.buffer) this.#held.copyWithin(0, rest.byteOffset, rest.byteOffset + rest.length);
    else {
      this.#reserve(rest.length);
      this.#held.set(rest);
    }
    this.#heldBytes = rest.length;
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#held.length) return;
    const larger = new Uint8Array(2 * bytes);
    larger.set(this.#held.subarray(0, this.#heldBytes));
    this.#held = larger;
  }

  #value(bytes: Uint8Array): void {
    check(this.#trailer === undefined, 'the snapshot goes on behind its end');
    const value = unpacked(bytes);
    if (Array.isArray(value) && this.#head !== undefined) {
      this.#front.update(bytes);
      return this.#batch(value as readonly unknown[]);
    }
    check(isTable(value), 'the snapshot does not begin or end as a snapshot does');
    if (this.#head !== undefined) return this.#end(value);
    this.#front.update(bytes);
    this.#head = readHead(value);
    return this.#onHead(this.#head);
  }

  #batch(items: readonly unknown[]): void {
    check(items.length % 2 === 0, 'a row has no value');
    for (let i = 0; i < items.length; i += 2) {
      const [key, value] = [items[i], items[i + 1]];
      check(key instanceof Uint8Array && value instanceof Uint8Array, 'a row is not made of bytes');
      this.#rows++;
      this.#validator.row(plain(key), plain(value));
    }
  }

  #end(trailer: Readonly<Record<string, unknown>>): void {
    const digest = trailer['blake3'];
    check(
      digest instanceof Uint8Array && sameDigest(digest, this.#front.digest()),
      'the snapshot does not match its own BLAKE3: it was altered',
    );
    this.#trailer = trailer;
  }
}

/** A value that passes the scan may still have keys that no map of ours has. */
function unpacked(bytes: Uint8Array): unknown {
  try {
    return packr.unpack(bytes) as unknown;
  } catch (error) {
    throw new Fault(`a value of the snapshot cannot be read (${caughtMessage(error)})`);
  }
}

/** Decoders take slices, and a Buffer's slices share memory. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function readHead(map: Readonly<Record<string, unknown>>): DocumentHead {
  check(map['format'] === FORMAT, 'this is not a Millrace group snapshot');
  const version = map['format_version'];
  check(typeof version === 'number' && version >= 1, 'the snapshot names no format version');
  check(
    version <= BACKUP_FORMAT_VERSION,
    `the snapshot has format version ${version}; this program reads up to ${BACKUP_FORMAT_VERSION}, use a newer one`,
  );
  check(
    map['write_unit_bytes'] === WRITE_UNIT_BYTES,
    `the snapshot counts usage in units of ${String(map['write_unit_bytes'])} bytes, this program in units of ${WRITE_UNIT_BYTES}`,
  );
  const origin = map['origin'];
  check(
    origin === undefined || (typeof origin === 'string' && ORIGIN.test(origin)),
    "the snapshot's origin is not 16 hexadecimal digits",
  );
  return {
    group: count(map, 'group'),
    groupCount: count(map, 'group_count'),
    commitIndex: count(map, 'commit_index'),
    origin,
  };
}

function count(map: Record<string, unknown>, name: string): number {
  const value = map[name];
  check(Number.isSafeInteger(value) && (value as number) >= 0, `the snapshot's ${name} is not a number`);
  return value as number;
}
