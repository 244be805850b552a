/** Checks what the numbers of a stream's head say together. */
import { TOKEN_BYTES_MAX } from '../../base/limits.ts';
import { TIMESTAMP_MS_MAX, TTL_SECONDS_MAX } from '../../protocol/header-values.ts';
import type { Head } from '../core/head.ts';
import { Fault, nameText } from './fault.ts';

/** Keys have 48 bits for the incarnation of a stream, and new ones continue from the highest. */
const INCARNATION_MAX = 2 ** 47;
/** As accepted from clients (http/headers.ts), because they are sent again as headers. */
const NOT_VISIBLE_ASCII = /[^\x20-\x7e\t]/;

export const isHeaderText = (text: string): boolean => text.length <= TOKEN_BYTES_MAX && !NOT_VISIBLE_ASCII.test(text);
export const isIncarnation = (n: number): boolean => n > 0 && n <= INCARNATION_MAX;

export function checkHead(head: Head): void {
  const fault = lifetimeFault(head) ?? rangeFault(head);
  if (fault !== undefined) throw new Fault(`stream ${nameText(head.key)}: ${fault}`);
}

function lifetimeFault(head: Head): string | undefined {
  const { ttlSeconds, expiresAtMs, indexedDeadlineMs } = head;
  if (ttlSeconds > TTL_SECONDS_MAX) return 'its TTL cannot be';
  if (expiresAtMs > TIMESTAMP_MS_MAX) return 'its expiry cannot be';
  if (ttlSeconds >= 0 && expiresAtMs >= 0) return 'it has two lifetimes';
  // Listed while it has a lifetime, and never too late (stream/operations/create.ts).
  const listed = indexedDeadlineMs >= 0 && indexedDeadlineMs <= head.deadlineMs;
  const expires = head.deadlineMs !== Infinity;
  return (expires ? listed : indexedDeadlineMs === -1) ? undefined : 'it is listed for another deadline than it has';
}

function rangeFault(head: Head): string | undefined {
  const { tail, recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart } = head;
  if (!isIncarnation(head.incarnation)) return 'its incarnation cannot be';
  if (!isHeaderText(head.contentType)) return 'its content type cannot be';
  if (head.lastSeq !== undefined && !isHeaderText(head.lastSeq)) return 'its Stream-Seq cannot be';
  if (head.provisional && !head.forked) return 'it is a fork in the making of nothing';
  if (startOffset > tail) return `the floor ${startOffset} lies beyond the tail ${tail}`;
  if (head.snapshotOffset > tail) return `the snapshot at ${head.snapshotOffset} lies beyond the tail ${tail}`;
  if (startOffset > hotStart || hotStart > tail) return 'the frontier lies outside the stream';
  if (recordFirst > hotRecord || hotRecord > recordNext) return 'the record at the frontier lies outside the stream';
  if (head.hotSinceMs >= 0 !== hotStart < tail)
    return 'it is listed for flushing without need, or not although it must';
  if (startOffset === hotStart && recordFirst !== hotRecord) return 'record and offset of the floor differ';
  if (hotStart === tail && (hotRecord !== recordNext || tailRowStart !== tail))
    return 'the end of the stream is not at its tail';
  return undefined;
}
