/**
 * Segments go oldest first, and a group that writes little keeps its entries for slow followers. When most of the log
 * is no longer needed, what is needed of the oldest segment is written again at its end, a little with each turn.
 */
import type { GroupLog } from './group-log.ts';
import type { LogItem } from './log-entry.ts';
import type { Segment, Segments } from './segments.ts';

/** Fewer segments are not worth a copy. */
const SEGMENTS_MIN = 4;
/** Bytes that one turn copies: a fraction of a millisecond. */
const COPIED_BYTES_MAX = 256 * 1024;
/** Records between two searches for what a segment holds, when the last one did not empty it. */
const SEARCH_RECORDS = 100;

interface Candidate {
  readonly group: number;
  readonly log: GroupLog;
  readonly index: number;
}

interface Copy {
  readonly log: GroupLog;
  readonly item: LogItem;
}

export class LogCleaner {
  #segment: Segment | undefined;
  #searchedAt = 0;
  #left: Candidate[] = [];

  /** Entries and votes to write again with the next record. */
  *copies(segments: Segments, groups: ReadonlyMap<number, GroupLog>): IterableIterator<Copy> {
    const oldest = segments.used[0];
    if (oldest === undefined || segments.used.length < SEGMENTS_MIN || oldest.live === 0) return;
    if (2 * neededBytes(groups) > usedBytes(segments)) return;
    this.#search(oldest, segments.lastSequence, groups);
    let bytes = 0;
    for (let next = this.#left.pop(); next !== undefined; next = this.#left.pop()) {
      const { group, log, index } = next;
      if (log.stored(index)?.record.segment !== oldest) continue;
      for (const { kind, term, data } of log.entries(index, index + 1, Infinity)) {
        bytes += data.length;
        yield { log, item: { group, kind, term, index, data, isCopy: true } };
      }
      if (bytes >= COPIED_BYTES_MAX) return;
    }
  }

  #search(oldest: Segment, sequence: number, groups: ReadonlyMap<number, GroupLog>): void {
    const isNew = oldest !== this.#segment;
    if (!isNew && (this.#left.length > 0 || sequence < this.#searchedAt + SEARCH_RECORDS)) return;
    this.#segment = oldest;
    this.#searchedAt = sequence;
    this.#left = [];
    for (const [group, log] of groups)
      for (const index of log.indexesIn(oldest)) this.#left.push({ group, log, index });
  }
}

function neededBytes(groups: ReadonlyMap<number, GroupLog>): number {
  let bytes = 0;
  for (const log of groups.values()) bytes += log.bytesBehind(0);
  return bytes;
}

/** Bytes of records; without the free end of the newest segment. */
function usedBytes({ used }: Segments): number {
  return used.reduce((sum, { end }) => sum + end, 0);
}
