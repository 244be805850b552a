/** State kept for each stream of a group while its rows pass in backup order (order.ts). */
import { type Head } from '../core/head.ts';

/** For a stream without chunks, or without rows, so far. */
const NONE = -1;
/** For a published snapshot that begins inside a message. */
export const NOWHERE = -2;

/** One per stream of the group: about 200 bytes, and nothing else of a backup stays in memory. */
export class StreamEntry {
  readonly name: Uint8Array;
  readonly json: boolean;
  readonly startOffset: number;
  readonly recordFirst: number;
  readonly hotStart: number;
  readonly hotRecord: number;
  readonly tail: number;
  readonly recordNext: number;
  readonly tailRowStart: number;
  readonly snapshotOffset: number;
  readonly hasAttributes: boolean;
  readonly hasProducers: boolean;
  readonly forked: boolean;
  readonly provisional: boolean;
  readonly hasPins: boolean;
  /** Positions that chunks and rows have reached. */
  coldEnd = NONE;
  coldRecord = NONE;
  rowStart = NONE;
  rowEnd = NONE;
  rowRecord = NONE;
  /** A message or record ends at the end of the last row. */
  endsWhole = true;
  /** The same for the last chunk. */
  coldEndsWhole = true;
  /** Ordinal at the published snapshot, if that is among the rows. */
  snapshotRecord = NONE;
  seenAttributes = false;
  seenSnapshot = false;
  seenFork = false;
  seenPin = false;

  constructor(head: Head) {
    this.name = head.key;
    this.json = head.json;
    this.startOffset = head.startOffset;
    this.recordFirst = head.recordFirst;
    this.hotStart = head.hotStart;
    this.hotRecord = head.hotRecord;
    this.tail = head.tail;
    this.recordNext = head.recordNext;
    this.tailRowStart = head.tailRowStart;
    this.snapshotOffset = head.snapshotOffset;
    this.hasAttributes = head.hasAttributes;
    this.hasProducers = head.hasProducers;
    this.forked = head.forked;
    this.provisional = head.provisional;
    this.hasPins = head.hasPins;
  }
}
