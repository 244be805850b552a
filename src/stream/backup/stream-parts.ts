/** Checks that chunks and rows cover a stream from the start offset to the tail without a gap. */
import { byteAt } from '../../base/bytes.ts';
import { BODY_BYTES_MAX } from '../../base/limits.ts';
import { type StoredChunk, decodeChunkRow } from '../../protocol/cold.ts';
import { DATA_HEAD, ROW_PAYLOAD_BYTES_MAX, endAt } from '../core/row.ts';
import { RowView } from '../core/row-view.ts';
import { Fault, nameText } from './fault.ts';
import { NOWHERE, type StreamEntry } from './stream-entry.ts';

const view = new RowView();
const lastByte = new Uint8Array(1);
const LINE_FEED = 0x0a;
/** A chunk is read completely. The largest has one message, with the ends of those before it in its row. */
const CHUNK_BYTES_MAX = 2 * BODY_BYTES_MAX;

/** The next chunk of the stream. */
export function takeChunk(entry: StreamEntry, start: number, value: Uint8Array): StoredChunk {
  const chunk = decodeChunkRow(value);
  const fault = chunkFault(entry, start, chunk);
  if (fault !== undefined) throw new Fault(`stream ${nameText(entry.name)}: the chunk at ${start} ${fault}`);
  entry.coldEnd = chunk.end;
  entry.coldRecord = chunk.recordNext;
  entry.coldEndsWhole = chunk.lastEnd === chunk.end;
  return chunk;
}

function chunkFault(entry: StreamEntry, start: number, chunk: StoredChunk): string | undefined {
  if (chunk.start !== start || chunk.end <= start || chunk.length === 0 || chunk.length > CHUNK_BYTES_MAX)
    return 'has impossible bounds';
  const { firstRecord, recordNext, lastEnd, end } = chunk;
  // Each record has at least one byte, and the last one ends at lastEnd.
  const none = recordNext === firstRecord && lastEnd === start;
  const some = recordNext > firstRecord && lastEnd <= end && recordNext - firstRecord <= lastEnd - start;
  if (!none && !some) return 'has impossible records';
  if (entry.startOffset === entry.hotStart || chunk.end <= entry.startOffset || chunk.end > entry.hotStart)
    return 'lies outside of what is cold';
  if (entry.coldEnd < 0) {
    if (start > entry.startOffset) return `begins behind the floor ${entry.startOffset}`;
    if (firstRecord > entry.recordFirst || entry.recordFirst > recordNext) return 'does not hold the first record';
    return start === entry.startOffset && firstRecord !== entry.recordFirst ? 'begins with another record' : undefined;
  }
  if (start !== entry.coldEnd) return `does not follow the one before, which ends at ${entry.coldEnd}`;
  return firstRecord === entry.coldRecord ? undefined : 'does not follow the records before';
}

/** The next row of the stream. */
export function checkRow(entry: StreamEntry, start: number, value: Uint8Array): void {
  view.ofValue(start, value);
  const fault = rowFault(entry, start, value);
  if (fault !== undefined) throw new Fault(`stream ${nameText(entry.name)}: the row at ${start} ${fault}`);
  entry.rowStart = start;
  entry.rowEnd = view.stop;
  entry.rowRecord = view.firstRecord + view.count;
  noteSnapshot(entry);
  entry.endsWhole = view.count > 0 && view.end(view.count - 1) === view.length;
}

/** Finds a published snapshot among the rows: the ordinal of what begins there. */
function noteSnapshot(entry: StreamEntry): void {
  const at = entry.snapshotOffset - view.start;
  if (at < 0 || at >= view.length) return;
  const before = view.endsUpTo(at);
  const onBorder = at === 0 ? entry.endsWhole : before > 0 && view.end(before - 1) === at;
  entry.snapshotRecord = onBorder ? view.firstRecord + before : NOWHERE;
}

function rowFault(entry: StreamEntry, start: number, value: Uint8Array): string | undefined {
  if (view.length <= 0 || view.length > ROW_PAYLOAD_BYTES_MAX) return 'has an impossible size';
  const { at, end: zerosEnd } = DATA_HEAD.zeros;
  if (value.subarray(at, zerosEnd).some((byte) => byte !== 0)) return 'has an impossible head';
  if (view.stop > entry.tail) return `ends beyond the tail ${entry.tail}`;
  const first = entry.rowEnd < 0;
  if (first && !entry.coldEndsWhole) return 'goes on with a message that the last chunk began';
  if (start !== (first ? entry.hotStart : entry.rowEnd))
    return `leaves a gap behind ${first ? entry.hotStart : entry.rowEnd}`;
  if (view.firstRecord !== (first ? entry.hotRecord : entry.rowRecord)) return 'does not follow the records before';
  let last = 0;
  for (let i = 0; i < view.count; i++) {
    const end = view.end(i);
    // The view reads the two bytes that are ever set.
    const rest = byteAt(value, endAt(i) + 2) | byteAt(value, endAt(i) + 3);
    if (end <= last || end > view.length || rest !== 0) return 'has messages that end where they cannot';
    last = end;
    if (!entry.json) continue;
    view.copy(end - 1, end, lastByte, 0);
    if (lastByte[0] !== LINE_FEED) return 'has a record that does not end with its line';
  }
  return undefined;
}

/** The stream has no more rows. */
export function checkComplete(entry: StreamEntry): void {
  const fault = gap(entry);
  if (fault !== undefined) throw new Fault(`stream ${nameText(entry.name)}: ${fault}`);
}

function gap(entry: StreamEntry): string | undefined {
  if (entry.startOffset < entry.hotStart) {
    if (entry.coldEnd !== entry.hotStart)
      return `bytes from ${Math.max(entry.startOffset, entry.coldEnd)} to ${entry.hotStart} are missing`;
    if (entry.coldRecord !== entry.hotRecord) return 'records in front of the frontier are missing';
    if (!entry.coldEndsWhole) return 'the last message of the last chunk has no end';
  }
  if (entry.hotStart < entry.tail) {
    if (entry.rowEnd !== entry.tail)
      return `bytes from ${Math.max(entry.hotStart, entry.rowEnd)} to ${entry.tail} are missing`;
    if (entry.rowRecord !== entry.recordNext) return 'records in front of the tail are missing';
    if (entry.rowStart !== entry.tailRowStart) return 'the last row is not where the head says';
  }
  if (!entry.endsWhole) return 'the last message has no end';
  if (entry.hasAttributes && !entry.seenAttributes) return 'its attributes are missing';
  if (entry.forked && !entry.seenFork) return 'it is a fork, and nothing says of what';
  if (entry.hasPins && !entry.seenPin) return 'it has forks that are missing';
  return entry.snapshotOffset >= 0 && !entry.seenSnapshot ? 'its published snapshot is missing' : undefined;
}
