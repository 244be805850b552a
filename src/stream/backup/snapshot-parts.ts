/** Published snapshots: all parts are present and match the digest in the first row. */
import { PAGE_VALUE_BYTES } from '../../base/limits.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import { compareBytes } from '../../base/bytes.ts';
import { type Snapshot, decodeSnapshot } from '../core/snapshots.ts';
import { check, nameText } from './fault.ts';
import { isToken } from './heads.ts';
import type { StreamEntry } from './stream-entry.ts';

export interface Digesting {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

export type NewDigest = () => Digesting;

interface Open {
  readonly entry: StreamEntry;
  readonly snapshot: Snapshot;
  readonly digest: Digesting;
  parts: number;
  bytes: number;
}

export class SnapshotParts {
  readonly #newDigest: NewDigest;
  #open: Open | undefined;

  constructor(newDigest: NewDigest) {
    this.#newDigest = newDigest;
  }

  part(entry: StreamEntry, part: number, value: Uint8Array): void {
    if (this.#open?.entry !== entry) {
      this.end();
      return this.#begin(entry, part, value);
    }
    const open = this.#open;
    check(part === ++open.parts, `part ${open.parts} of the snapshot of stream ${nameText(entry.name)} is missing`);
    const last = open.bytes + value.length === open.snapshot.size;
    check(
      value.length === PAGE_VALUE_BYTES || (last && value.length < PAGE_VALUE_BYTES),
      `a part of the snapshot of stream ${nameText(entry.name)} has an impossible size`,
    );
    open.bytes += value.length;
    open.digest.update(value.slice());
  }

  /** The last snapshot has no more parts. */
  end(): void {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    const { entry, snapshot, digest, bytes } = open;
    check(
      bytes === snapshot.size,
      `the snapshot of stream ${nameText(entry.name)} has ${bytes} of ${snapshot.size} bytes`,
    );
    check(
      compareBytes(digest.digest(), snapshot.digest) === 0,
      `the snapshot of stream ${nameText(entry.name)} does not match its digest`,
    );
  }

  #begin(entry: StreamEntry, part: number, value: Uint8Array): void {
    check(part === 0, `the snapshot of stream ${nameText(entry.name)} has no beginning`);
    const snapshot = decodeSnapshot(value);
    const { offset, record } = snapshot;
    check(
      offset === entry.snapshotOffset,
      `the snapshot of stream ${nameText(entry.name)} covers another offset than its head says`,
    );
    check(
      offset >= entry.startOffset && record >= entry.recordFirst && record <= entry.recordNext,
      `the snapshot of stream ${nameText(entry.name)} lies outside the stream`,
    );
    check(
      isOnBorder(entry, offset, record),
      `the snapshot of stream ${nameText(entry.name)} covers a part of a message, or another record than begins there`,
    );
    check(isToken(snapshot.contentType), `the snapshot of stream ${nameText(entry.name)} has an impossible type`);
    const digest = this.#newDigest();
    // Computed as the publishing node does (http/routes/snapshot.ts).
    const type = encodeUtf8(snapshot.contentType);
    const size = new Uint8Array(8);
    new DataView(size.buffer).setUint32(0, type.length, true);
    digest.update(size);
    digest.update(type);
    this.#open = { entry, snapshot, digest, parts: 0, bytes: 0 };
    entry.seenSnapshot = true;
  }
}

/** Boundaries inside a chunk are known only from the chunk itself. */
function isOnBorder(entry: StreamEntry, offset: number, record: number): boolean {
  if (offset === entry.tail) return record === entry.recordNext;
  if (offset === entry.startOffset) return record === entry.recordFirst;
  return offset >= entry.hotStart ? record === entry.snapshotRecord : record <= entry.hotRecord;
}
