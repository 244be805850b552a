/**
 * Reads what is left of a damaged log. A group's log has no gaps, so it ends in front of the first entry that is
 * missing; the ones behind are read to say what they were.
 */
import type { Entry, EntryKind } from '../raft/types.ts';
import { KIND_VOTE, LOG_ENTRY, entriesOf } from './log-entry.ts';
import { dataStart, readSpan } from './log-record.ts';
import { type Covered, type RecordPlace, type Scanned, readableRecords } from './log-scan.ts';
import type { Vote } from './turn-log.ts';

/** A part of a group's log that is left out. */
export interface LeftOut {
  readonly group: number;
  /** The first index that is missing. */
  readonly from: number;
  /** Readable entries behind it, which may not follow a gap. */
  readonly behind: readonly Entry[];
}

export interface Salvage {
  /** Numbers of records that are missing, the first and the last of each gap; records behind the last one are not known. */
  readonly missing: readonly (readonly [from: number, to: number])[];
  readonly lastRecord: number;
  readonly unreadable: readonly string[];
  readonly leftOut: readonly LeftOut[];
}

export interface Salvaged extends Salvage {
  readonly groups: ReadonlyMap<number, { readonly entries: Entry[]; readonly vote: Vote | undefined }>;
}

/** `starts`: the first index behind each group's applied state. `cuts`: records up to which nothing of a group counts. */
export function salvageLog(
  files: readonly Scanned[],
  covered: Covered,
  { starts, cuts }: { readonly starts: ReadonlyMap<number, number>; readonly cuts: ReadonlyMap<number, number> },
): Salvaged {
  const { records, unreadable } = readableRecords(files, covered);
  const groups = new Map([...starts.keys()].map((group) => [group, new Found()] as const));
  for (const record of records) {
    for (const { group, entry, vote } of itemsOf(record)) {
      const found = groups.get(group);
      if (found === undefined || record.sequence <= (cuts.get(group) ?? 0)) continue;
      if (vote !== undefined) found.vote = vote;
      else if (entry !== undefined) found.take(entry, starts.get(group) ?? 1);
    }
  }
  const leftOut = [...groups].flatMap(([group, found]) => found.leftOut(group, starts.get(group) ?? 1));
  return { ...gapsOf(records, covered), unreadable, leftOut, groups };
}

class Found {
  readonly entries: Entry[] = [];
  behind: Entry[] = [];
  vote: Vote | undefined;

  /** It replaces everything from its index on, as it did when it was written. */
  take(entry: Entry, start: number): void {
    // They are in order, so that most of the time there is nothing to replace.
    if ((this.behind.at(-1)?.index ?? 0) >= entry.index)
      this.behind = this.behind.filter(({ index }) => index < entry.index);
    if (entry.index < start) return;
    if (entry.index > start + this.entries.length) this.behind.push(entry);
    else this.entries.splice(entry.index - start, Infinity, entry);
  }

  leftOut(group: number, start: number): LeftOut[] {
    return this.behind.length === 0 ? [] : [{ group, from: start + this.entries.length, behind: this.behind }];
  }
}

interface Item {
  readonly group: number;
  readonly entry?: Entry;
  readonly vote?: Vote;
}

function* itemsOf(record: RecordPlace<Scanned>): IterableIterator<Item> {
  const data = readSpan(record.segment, record, dataStart(record), record.dataBytes);
  for (const { group, kind, copy, term, index, dataBytes, at } of entriesOf(data)) {
    const start = at + LOG_ENTRY.size;
    if (kind === KIND_VOTE) yield { group, vote: { term, vote: index } };
    // The original of a copy was read before, unless it is not needed.
    else if (copy === 0)
      yield { group, entry: { index, term, kind: kind as EntryKind, data: data.slice(start, start + dataBytes) } };
  }
}

function gapsOf(
  records: readonly RecordPlace<Scanned>[],
  { oldest, last }: Covered,
): Pick<Salvage, 'missing' | 'lastRecord'> {
  const missing: [number, number][] = [];
  let next = oldest;
  for (const { sequence } of records) {
    if (sequence > next) missing.push([next, sequence - 1]);
    next = sequence + 1;
  }
  if (next <= last) missing.push([next, last]);
  return { missing, lastRecord: next - 1 };
}
