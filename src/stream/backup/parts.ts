/** A stream's bytes: its head can be, and chunks and rows cover it from the floor to the tail without a gap. */
import { type StoredChunk, decodeChunkRow } from '../../wire/cold.ts';
import type { Head } from '../head.ts';
import { ROW_PAYLOAD_BYTES_MAX } from '../row.ts';
import { RowView } from '../row-view.ts';
import { Fault, nameText } from './fault.ts';
import type { StreamEntry } from './streams.ts';

const view = new RowView();
const lastByte = new Uint8Array(1);
const LINE_FEED = 0x0a;

const isCount = (n: number): boolean => Number.isSafeInteger(n) && n >= 0;

export function checkHead(head: Head): void {
  const fault = headFault(head);
  if (fault !== undefined) throw new Fault(`stream ${nameText(head.key)}: ${fault}`);
}

function headFault(head: Head): string | undefined {
  const { tail, recordNext, floor, recordFirst, hotStart, hotRecord, tailRowStart, incarnation } = head;
  const counts = [tail, recordNext, floor, recordFirst, hotStart, hotRecord, tailRowStart];
  if (!counts.every(isCount) || !isCount(incarnation) || incarnation === 0) return 'its numbers cannot be';
  if (![head.createdAtMs, head.touchedAtMs, head.writtenAtMs].every(Number.isFinite)) return 'its times cannot be';
  if (head.ttlSeconds >= 0 && head.expiresAtMs >= 0) return 'it has two lifetimes';
  if (floor > tail) return `the floor ${floor} lies beyond the tail ${tail}`;
  if (recordFirst > recordNext) return 'the first record lies beyond the last';
  if (head.snapshotOffset > tail) return `the snapshot at ${head.snapshotOffset} lies beyond the tail ${tail}`;
  if (floor > hotStart || hotStart > tail) return 'the frontier lies outside the stream';
  if (recordFirst > hotRecord || hotRecord > recordNext) return 'the record at the frontier lies outside the stream';
  if (head.hotSinceMs >= 0 !== hotStart < tail)
    return 'it is listed for flushing without need, or not although it must';
  if (floor === hotStart && recordFirst !== hotRecord) return 'record and offset of the floor differ';
  if (hotStart === tail && (hotRecord !== recordNext || tailRowStart !== tail))
    return 'the end of the stream is not at its tail';
  return undefined;
}

/** The next chunk of the stream. */
export function takeChunk(entry: StreamEntry, start: number, value: Uint8Array): StoredChunk {
  const chunk = decodeChunkRow(value);
  const fault = chunkFault(entry, start, chunk);
  if (fault !== undefined) throw new Fault(`stream ${nameText(entry.name)}: the chunk at ${start} ${fault}`);
  entry.coldEnd = chunk.end;
  entry.coldRecord = chunk.recordNext;
  entry.endsWhole = chunk.lastEnd === chunk.end;
  return chunk;
}

function chunkFault(entry: StreamEntry, start: number, chunk: StoredChunk): string | undefined {
  if (chunk.start !== start || chunk.end <= start || chunk.length === 0) return 'has impossible bounds';
  if (chunk.recordNext < chunk.firstRecord || chunk.lastEnd < start || chunk.lastEnd > chunk.end)
    return 'has impossible records';
  if (entry.floor === entry.hotStart || chunk.end <= entry.floor || chunk.end > entry.hotStart)
    return 'lies outside of what is cold';
  if (entry.coldEnd < 0) {
    if (start > entry.floor) return `begins behind the floor ${entry.floor}`;
    return chunk.firstRecord > entry.recordFirst ? 'begins behind the first record' : undefined;
  }
  if (start !== entry.coldEnd) return `does not follow the one before, which ends at ${entry.coldEnd}`;
  return chunk.firstRecord === entry.coldRecord ? undefined : 'does not follow the records before';
}

/** The next row of the stream. */
export function checkRow(entry: StreamEntry, start: number, value: Uint8Array): void {
  view.ofValue(start, value);
  const fault = rowFault(entry, start);
  if (fault !== undefined) throw new Fault(`stream ${nameText(entry.name)}: the row at ${start} ${fault}`);
  entry.rowStart = start;
  entry.rowEnd = view.stop;
  entry.rowRecord = view.firstRecord + view.count;
  entry.endsWhole = view.count > 0 && view.end(view.count - 1) === view.length;
}

function rowFault(entry: StreamEntry, start: number): string | undefined {
  if (view.length <= 0 || view.length > ROW_PAYLOAD_BYTES_MAX) return 'has an impossible size';
  if (view.stop > entry.tail) return `ends beyond the tail ${entry.tail}`;
  const first = entry.rowEnd < 0;
  if (start !== (first ? entry.hotStart : entry.rowEnd))
    return `leaves a gap behind ${first ? entry.hotStart : entry.rowEnd}`;
  if (view.firstRecord !== (first ? entry.hotRecord : entry.rowRecord)) return 'does not follow the records before';
  let last = 0;
  for (let i = 0; i < view.count; i++) {
    const end = view.end(i);
    if (end <= last || end > view.length) return 'has messages that end where they cannot';
    last = end;
    if (!entry.json) continue;
    view.copy(end - 1, end, lastByte, 0);
    if (lastByte[0] !== LINE_FEED) return 'has a record that does not end with its line';
  }
  return undefined;
}

/** Nothing more comes for the stream. */
export function checkComplete(entry: StreamEntry): void {
  const fault = gap(entry);
  if (fault !== undefined) throw new Fault(`stream ${nameText(entry.name)}: ${fault}`);
}

function gap(entry: StreamEntry): string | undefined {
  if (entry.floor < entry.hotStart) {
    if (entry.coldEnd !== entry.hotStart)
      return `bytes from ${Math.max(entry.floor, entry.coldEnd)} to ${entry.hotStart} are missing`;
    if (entry.coldRecord !== entry.hotRecord) return 'records in front of the frontier are missing';
  }
  if (entry.hotStart < entry.tail) {
    if (entry.rowEnd !== entry.tail)
      return `bytes from ${Math.max(entry.hotStart, entry.rowEnd)} to ${entry.tail} are missing`;
    if (entry.rowRecord !== entry.recordNext) return 'records in front of the tail are missing';
    if (entry.rowStart !== entry.tailRowStart) return 'the last row is not where the head says';
  }
  if (!entry.endsWhole) return 'the last message has no end';
  if (entry.hasAttributes && !entry.seenAttributes) return 'its attributes are missing';
  return entry.snapshotOffset >= 0 && !entry.seenSnapshot ? 'its published snapshot is missing' : undefined;
}
