/**
 * Checks the rows of a backup one by one, in order, and reports the first fault in one sentence. It serves imports,
 * which write what passes, and verification without a cluster. It also recounts the gauges.
 *
 * For a row of an unknown format or with impossible sizes the decoder throws, with a sentence as message.
 */
import { byteAt, compareBytes } from '../../base/bytes.ts';
import { decodeUtf8, isValidUtf8 } from '../../base/utf8.ts';
import { NAME_BYTES_MAX, PRODUCER_RECEIPTS } from '../../base/limits.ts';
import { parseAttributes } from '../json/attributes.ts';
import { type Bucket, decodeBucket } from '../core/buckets.ts';
import { type Head, decodeHead } from '../core/head.ts';
import {
  NUL,
  TAG_ATTRIBUTES,
  TAG_BUCKET,
  TAG_CHUNK,
  TAG_DATA,
  TAG_FORK,
  TAG_HEAD,
  TAG_OBJECT,
  TAG_PIN,
  TAG_PRODUCER,
  TAG_SNAPSHOT,
  TAG_TOMBSTONE,
  TAG_UNPIN,
  bareIncarnationOf,
  barePositionOf,
} from '../core/keys.ts';
import { decodeProducer } from '../core/producers.ts';
import { deriveOfHead, deriveOfPart } from './derive.ts';
import { Fault, check, nameText } from './fault.ts';
import { ForkChecks, isStreamName } from './fork-rows.ts';
import { ObjectRefs } from './object-refs.ts';
import { BACKUP_TAGS, type RowSink } from './row-order.ts';
import { COUNT_MAX, checkHead, isCount } from './heads.ts';
import { checkComplete, checkRow, takeChunk } from './stream-parts.ts';
import { checkShape } from './shape.ts';
import { type NewDigest, SnapshotParts } from './snapshot-parts.ts';
import { StreamEntry } from './stream-entry.ts';
import { caughtMessage } from '../../base/caught.ts';

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
  readonly #streams = new Map<number, StreamEntry>();
  readonly #objects = new ObjectRefs();
  readonly #forks = new ForkChecks();
  readonly #snapshots: SnapshotParts;
  #place = 0;
  #lastKey: Uint8Array | undefined;
  #rows = 0;
  #hotBytes = 0;
  #coldBytes = 0;
  #maxIncarnation = 0;

  /** `newDigest`: BLAKE3, for published snapshots. */
  constructor(newDigest: NewDigest, sink: RowSink) {
    this.#sink = sink;
    this.#snapshots = new SnapshotParts(newDigest);
  }

  /** Throws a Fault. The key has no prefix. */
  row(key: Uint8Array, value: Uint8Array): void {
    try {
      this.#order(key);
      checkShape(byteAt(key, 0), key, value, THINGS.get(byteAt(key, 0)) as string);
      this.#rows++;
      this.#take(byteAt(key, 0), key, value);
      this.#sink(key, value);
    } catch (error) {
      if (error instanceof Fault) throw error;
      const tag = String.fromCharCode(key[0] ?? 0x3f);
      throw new Fault(`a row of kind '${tag}' cannot be read (${caughtMessage(error)})`);
    }
  }

  /** All rows were passed. Throws a Fault. */
  finish(): Summary {
    this.#snapshots.end();
    for (const entry of this.#streams.values()) checkComplete(entry);
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

  /** Kinds in order, keys of one kind ascending, so no key occurs twice. */
  #order(key: Uint8Array): void {
    const tag = byteAt(key, 0);
    const place = BACKUP_TAGS.indexOf(tag);
    check(place >= 0, `there are rows of kind '${String.fromCharCode(tag ?? 0x3f)}', which a backup does not have`);
    check(place >= this.#place, 'rows are not in their order');
    if (place === this.#place && this.#lastKey !== undefined) {
      const order = compareBytes(this.#lastKey, key);
      check(
        order !== 0,
        `duplicate ${THINGS.get(tag)} ${tag === TAG_BUCKET || tag === TAG_HEAD ? nameText(key.subarray(1)) : ''}`.trim(),
      );
      check(order < 0, 'rows are not in their order');
    }
    this.#place = place;
    this.#lastKey = key.slice();
  }

  #take(tag: number, key: Uint8Array, value: Uint8Array): void {
    switch (tag) {
      case TAG_BUCKET:
        return this.#bucket(key, value);
      case TAG_HEAD:
        return this.#head(key, value);
      case TAG_OBJECT:
        return this.#objects.object(key, value);
      case TAG_TOMBSTONE:
        return this.#forks.tombstone(key, value, this.#streams);
      case TAG_UNPIN:
        return this.#forks.unpin(key, value);
    }
    const entry = this.#streams.get(bareIncarnationOf(key));
    if (tag === TAG_PIN) return this.#forks.pin(key, value, entry);
    if (entry === undefined) throw new Fault(`a ${THINGS.get(tag)} belongs to no stream`);
    switch (tag) {
      case TAG_CHUNK:
        return this.#chunk(entry, key, value);
      case TAG_DATA:
        checkRow(entry, barePositionOf(key), value);
        if (entry.json) deriveOfPart(key, value, this.#sink);
        return undefined;
      case TAG_ATTRIBUTES:
        return checkAttributes(entry, value);
      case TAG_PRODUCER:
        return checkProducer(entry, key, value);
      case TAG_FORK:
        return this.#forks.origin(entry, value);
      default:
        check(tag === TAG_SNAPSHOT, 'rows of a known kind');
        return this.#snapshots.part(entry, barePositionOf(key), value);
    }
  }

  #bucket(key: Uint8Array, value: Uint8Array): void {
    const bucket = decodeBucket(key.slice(1), value);
    check(
      bucket.name.length <= NAME_BYTES_MAX && isValidUtf8(bucket.name) && !bucket.name.includes(NUL),
      'a bucket has an impossible name',
    );
    const counters = [bucket.appendBytes, bucket.records, bucket.writeUnits, bucket.retainedBytes, bucket.streamCount];
    check(counters.every(isCount), `bucket ${JSON.stringify(bucket.text)} has impossible counters`);
    check(
      [bucket.streamsMax, bucket.retainedBytesMax].every((n) => n === -1 || (Number.isSafeInteger(n) && n >= 0)),
      `bucket ${JSON.stringify(bucket.text)} has an impossible quota`,
    );
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
    this.#streams.set(head.incarnation, new StreamEntry(head));
    this.#count(gauges, head);
    deriveOfHead(head, this.#sink);
  }

  #count(gauges: Gauges, head: Head): void {
    gauges.retainedBytes += head.tail - head.startOffset;
    gauges.streamCount++;
    this.#hotBytes += head.tail - head.hotStart;
    this.#maxIncarnation = Math.max(this.#maxIncarnation, head.incarnation);
  }

  #chunk(entry: StreamEntry, key: Uint8Array, value: Uint8Array): void {
    const chunk = takeChunk(entry, barePositionOf(key), value);
    this.#coldBytes += chunk.end - chunk.start;
    this.#objects.chunk(entry, chunk);
    if (entry.json) deriveOfPart(key, value, this.#sink);
  }
}

const THINGS: ReadonlyMap<number, string> = new Map([
  [TAG_BUCKET, 'bucket'],
  [TAG_HEAD, 'stream'],
  [TAG_CHUNK, 'chunk'],
  [TAG_DATA, 'row of bytes'],
  [TAG_ATTRIBUTES, 'set of attributes'],
  [TAG_PRODUCER, 'producer'],
  [TAG_SNAPSHOT, 'published snapshot'],
  [TAG_OBJECT, 'object'],
  [TAG_FORK, 'fork'],
  [TAG_PIN, 'fork kept'],
  [TAG_TOMBSTONE, 'removed stream'],
  [TAG_UNPIN, 'fork gone'],
]);

function checkAttributes(entry: StreamEntry, value: Uint8Array): void {
  check(entry.hasAttributes, `stream ${nameText(entry.name)} has attributes that its head denies`);
  const parsed = parseAttributes(value);
  check(
    parsed.ok && compareBytes(parsed.encoded, value) === 0,
    `the attributes of stream ${nameText(entry.name)} are not what an attribute object looks like`,
  );
  entry.seenAttributes = true;
}

function checkProducer(entry: StreamEntry, key: Uint8Array, value: Uint8Array): void {
  const producer = decodeProducer(value);
  const { epoch, seq, receipts } = producer;
  const whose = `a producer of stream ${nameText(entry.name)}`;
  check(entry.hasProducers, `${whose} is denied by its head`);
  check(isValidUtf8(key.subarray(7)), `${whose} has an impossible name`);
  check(
    Number.isSafeInteger(epoch) && epoch >= 0 && Number.isSafeInteger(seq) && seq >= 0,
    `${whose} has impossible numbers`,
  );
  check(receipts.length > 0 && receipts.length <= PRODUCER_RECEIPTS, `${whose} has ${receipts.length} receipts`);
  receipts.forEach((receipt, i) => {
    check(
      receipt.seq === seq - (receipts.length - 1 - i) && receipt.seq >= 0,
      `${whose} has receipts that do not follow each other`,
    );
    const { nextOffset, recordStart, recordNext } = receipt;
    check([nextOffset, recordStart, recordNext].every(isCount), `${whose} has impossible receipts`);
    const inside = nextOffset <= entry.tail && recordStart <= recordNext && recordNext <= entry.recordNext;
    check(inside, `${whose} has a receipt beyond the tail`);
  });
}
