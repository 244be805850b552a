/** Validates a stream's head on its own: numbers, times and texts. */
import { TOKEN_BYTES_MAX } from '../../base/limits.ts';
import { TIMESTAMP_MS_MAX, TTL_SECONDS_MAX } from '../../protocol/header-values.ts';
import type { Head } from '../core/head.ts';
import { Fault, nameText } from './fault.ts';

/**
 * Positions and counters continue from the backup's values, and must stay exact integers in a double for longer than
 * any cluster runs.
 */
export const COUNT_MAX = 2 ** 52;
/** Keys have 48 bits for the incarnation of a stream, and new ones continue from the highest. */
export const INCARNATION_MAX = 2 ** 47;
/** The range of a Date. */
const CLOCK_MS_MAX = 8.64e15;
/** As accepted from clients (http/headers.ts), because they are sent again as headers. */
const NOT_VISIBLE_ASCII = /[^\x20-\x7e\t]/;

export const isCount = (n: number): boolean => Number.isInteger(n) && n >= 0 && n <= COUNT_MAX;
export const isToken = (text: string): boolean => text.length <= TOKEN_BYTES_MAX && !NOT_VISIBLE_ASCII.test(text);
const isTime = (ms: number): boolean => ms >= 0 && ms <= CLOCK_MS_MAX;

export function checkHead(head: Head): void {
  const fault = numbersFault(head) ?? lifetimeFault(head) ?? rangeFault(head);
  if (fault !== undefined) throw new Fault(`stream ${nameText(head.key)}: ${fault}`);
}

function numbersFault(head: Head): string | undefined {
  const { tail, recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart, incarnation, snapshotOffset } =
    head;
  const counts = [tail, recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart, incarnation];
  if (!counts.every(isCount) || incarnation === 0 || incarnation > INCARNATION_MAX) return 'its numbers cannot be';
  if (snapshotOffset !== -1 && !isCount(snapshotOffset)) return 'its snapshot lies where none can be';
  if (![head.createdAtMs, head.touchedAtMs, head.writtenAtMs].every(isTime)) return 'its times cannot be';
  if (head.hotSinceMs !== -1 && !isTime(head.hotSinceMs)) return 'its times cannot be';
  if (!isToken(head.contentType)) return 'its content type cannot be';
  return head.lastSeq === undefined || isToken(head.lastSeq) ? undefined : 'its Stream-Seq cannot be';
}

function lifetimeFault(head: Head): string | undefined {
  const { ttlSeconds, expiresAtMs, indexedDeadlineMs } = head;
  if (ttlSeconds !== -1 && !(Number.isInteger(ttlSeconds) && ttlSeconds >= 0 && ttlSeconds <= TTL_SECONDS_MAX))
    return 'its TTL cannot be';
  if (expiresAtMs !== -1 && !(expiresAtMs >= 0 && expiresAtMs <= TIMESTAMP_MS_MAX)) return 'its expiry cannot be';
  if (ttlSeconds >= 0 && expiresAtMs >= 0) return 'it has two lifetimes';
  // Listed while it has a lifetime, and never too late (stream/operations/create.ts).
  const listed = indexedDeadlineMs >= 0 && indexedDeadlineMs <= head.deadlineMs;
  const expires = head.deadlineMs !== Infinity;
  return (expires ? listed : indexedDeadlineMs === -1) ? undefined : 'it is listed for another deadline than it has';
}

function rangeFault(head: Head): string | undefined {
  const { tail, recordNext, startOffset, recordFirst, hotStart, hotRecord, tailRowStart } = head;
  if (head.provisional && !head.forked) return 'it is a fork in the making of nothing';
  if (startOffset > tail) return `the floor ${startOffset} lies beyond the tail ${tail}`;
  if (recordFirst > recordNext) return 'the first record lies beyond the last';
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
