/**
 * Checks the rows of a backup one by one, in order, and reports the first fault in one sentence. It serves imports,
 * which write what passes, and verification without a cluster. It also recounts the gauges, and makes the index rows
 * that a backup omits because they follow from other rows.
 *
 * For a row of an unknown format or with impossible sizes the decoder throws, with a sentence as message.
 */
import { compareBytes } from '../../base/bytes.ts';
import { decodeUtf8, isValidUtf8 } from '../../base/utf8.ts';
import { caughtMessage } from '../../base/caught.ts';
import { planted } from '../../base/planted.ts';
import { decodeChunkRow } from '../../protocol/cold.ts';
import { type Bucket, decodeBucket } from '../core/buckets.ts';
import { type Head, decodeHead } from '../core/head.ts';
import {
  NUL,
  TAG,
  bareIncarnationOf,
  bareKey,
  barePositionOf,
  expiryKey,
  flushKey,
  positionKey,
} from '../core/keys.ts';
import { START_ROW, decodeRow } from '../core/row.ts';
import { Fault, check, nameText } from './fault.ts';
import { ForkChecks, isStreamName } from './fork-rows.ts';
import { ObjectRefs } from './object-refs.ts';
import { BACKUP_TAGS, COUNT_MAX, type RowKind, type RowSink, checkWritten, kindOf } from './rows.ts';
import { StreamParts, checkHead } from './stream-parts.ts';

/** Totals of a backup of one group; an import needs all of them. */
export interface Summary {
  readonly buckets: number;
  /** Names of those buckets: other groups of the same backup share some of them. */
  readonly bucketNames: readonly string[];
  readonly streams: number;
  readonly rows: number;
  readonly hotBytes: number;
  readonly coldBytes: number;
  readonly objects: number;
  readonly objectBytes: number;
  /** Above all incarnations. */
  readonly nextIncarnation: number;
}

interface Gauges {
  readonly bucket: Bucket;
  retainedBytes: number;
  streamCount: number;
}

export class Validator {
  /** Receives every row and its index entries. */
  readonly #sink: RowSink;
  readonly #buckets = new Map<string, Gauges>();
  readonly #streams = new Map<number, StreamParts>();
  readonly #objects = new ObjectRefs();
  readonly #forks = new ForkChecks();
  readonly #order = new RowOrder();
  #rows = 0;
  #hotBytes = 0;
  #coldBytes = 0;
  #maxIncarnation = 0;

  constructor(sink: RowSink) {
    this.#sink = sink;
  }

  /** Throws a Fault. The key has no prefix. */
  row(key: Uint8Array, value: Uint8Array): void {
    try {
      const kind = this.#order.next(key);
      checkWritten(kind, key, value);
      this.#rows++;
      this.#take(kind, key, value);
      this.#sink(key, value);
    } catch (error) {
      if (error instanceof Fault) throw error;
      const tag = String.fromCharCode(key[0] ?? 0x3f);
      throw new Fault(`a row of kind '${tag}' cannot be read (${caughtMessage(error)})`);
    }
  }

  /** All rows were passed. Throws a Fault. */
  finish(): Summary {
    for (const stream of this.#streams.values()) stream.finish();
    this.#objects.checkAllListed();
    this.#forks.finish(this.#streams.values());
    const { bytes: objectBytes } = this.#objects;
    const sums = [this.#hotBytes, this.#coldBytes, objectBytes];
    check(
      sums.every((n) => n <= COUNT_MAX),
      'the streams have more bytes together than can be',
    );
    const bucketNames: string[] = [];
    for (const { bucket, retainedBytes, streamCount } of this.#buckets.values()) {
      if (bucket.exists) bucketNames.push(bucket.text);
      const right = bucket.retainedBytes === retainedBytes && bucket.streamCount === streamCount;
      check(
        right,
        `bucket ${JSON.stringify(bucket.text)} counts ${bucket.streamCount} streams and ${bucket.retainedBytes} bytes, but ${streamCount} and ${retainedBytes} are there`,
      );
    }
    return {
      buckets: bucketNames.length,
      bucketNames,
      streams: this.#streams.size,
      rows: this.#rows,
      hotBytes: this.#hotBytes,
      coldBytes: this.#coldBytes,
      objects: this.#objects.count,
      objectBytes,
      nextIncarnation: Math.max(this.#maxIncarnation, this.#forks.maxIncarnation) + 1,
    };
  }

  #take(kind: RowKind, key: Uint8Array, value: Uint8Array): void {
    const { tag, thing } = kind;
    switch (tag) {
      case TAG.bucket:
        return this.#bucket(key, value);
      case TAG.head:
        return this.#head(key, value);
      case TAG.object:
        return this.#objects.object(key, value);
      case TAG.tombstone:
        return this.#forks.tombstone(key, value, this.#streams);
      case TAG.unpin:
        return this.#forks.unpin(value);
    }
    const stream = this.#streams.get(bareIncarnationOf(key));
    stream?.see(kind);
    if (tag === TAG.pin) return this.#forks.pin(key, value, stream);
    check(stream !== undefined, `a ${thing} belongs to no stream`);
    switch (tag) {
      case TAG.chunk:
        return this.#chunk(stream, key, value);
      case TAG.data:
        return this.#row(stream, key, value);
      case TAG.snapshot:
        return stream.snapshotPart(barePositionOf(key), value);
      case TAG.fork:
        return this.#forks.origin(stream, value);
    }
    return undefined;
  }

  #bucket(key: Uint8Array, value: Uint8Array): void {
    const bucket = decodeBucket(key.slice(1), value);
    check(isValidUtf8(bucket.name) && !bucket.name.includes(NUL), 'a bucket has an impossible name');
    this.#buckets.set(bucket.text, { bucket, retainedBytes: 0, streamCount: 0 });
  }

  #head(key: Uint8Array, value: Uint8Array): void {
    const name = key.slice(1);
    const head = decodeHead(name, 0, value);
    check(isStreamName(name), 'a stream has an impossible name');
    const gauges = this.#buckets.get(decodeUtf8(name, 0, name.indexOf(NUL)));
    // A provisional fork creates its bucket when it is complete.
    check(
      gauges !== undefined && (gauges.bucket.exists || head.provisional),
      `stream ${nameText(name)} is in a bucket that is not listed`,
    );
    checkHead(head);
    check(!this.#streams.has(head.incarnation), `stream ${nameText(name)} has the number of another one`);
    this.#streams.set(head.incarnation, new StreamParts(head));
    gauges.retainedBytes += head.tail - head.startOffset;
    gauges.streamCount++;
    this.#hotBytes += head.tail - head.hotStart;
    this.#maxIncarnation = Math.max(this.#maxIncarnation, head.incarnation);
    this.#list(head);
  }

  /** The entries of a stream in the expiry index and in the flush index. */
  #list({ key, incarnation, indexedDeadlineMs, hotSinceMs }: Head): void {
    if (indexedDeadlineMs >= 0 && !planted('import-lists-no-lifetimes'))
      this.#sink(bareKey(expiryKey(0, indexedDeadlineMs, incarnation)), key);
    if (hotSinceMs >= 0 && !planted('import-lists-no-hot-streams'))
      this.#sink(bareKey(flushKey(0, hotSinceMs, incarnation)), key);
  }

  #chunk(stream: StreamParts, key: Uint8Array, value: Uint8Array): void {
    const chunk = decodeChunkRow(value);
    stream.chunk(barePositionOf(key), chunk);
    this.#coldBytes += chunk.end - chunk.start;
    this.#objects.chunk(stream, chunk);
    const { start, firstRecord, recordNext } = chunk;
    if (stream.json && recordNext > firstRecord) this.#index(TAG.chunkRecord, key, firstRecord, start);
  }

  #row(stream: StreamParts, key: Uint8Array, value: Uint8Array): void {
    const row = decodeRow(barePositionOf(key), value);
    stream.row(row);
    if (stream.json && row.count > 0) this.#index(TAG.record, key, row.firstRecord, row.start);
  }

  /** The entry of a JSON stream's row or chunk in the index by record. */
  #index(tag: number, key: Uint8Array, firstRecord: number, start: number): void {
    this.#sink(bareKey(positionKey(0, tag, bareIncarnationOf(key), firstRecord)), START_ROW.encode({ start }));
  }
}

/** Kinds in order, keys of one kind ascending, so no key occurs twice. */
class RowOrder {
  #kind: RowKind | undefined;
  #key: Uint8Array = new Uint8Array(0);

  next(key: Uint8Array): RowKind {
    const kind = kindOf(key);
    const place = this.#kind === undefined ? -1 : BACKUP_TAGS.indexOf(this.#kind.tag);
    if (kind === this.#kind) {
      const order = compareBytes(this.#key, key);
      const name = kind.tag === TAG.bucket || kind.tag === TAG.head ? ` ${nameText(key.subarray(1))}` : '';
      check(order !== 0, `duplicate ${kind.thing}${name}`);
      check(order < 0, 'rows are not in their order');
    } else check(BACKUP_TAGS.indexOf(kind.tag) > place, 'rows are not in their order');
    this.#kind = kind;
    this.#key = key.slice();
    return kind;
  }
}
