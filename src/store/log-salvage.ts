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
  const found = new Map([...starts].map(([group, start]) => [group, new Found(start)] as const));
  for (const record of records) {
    for (const { group, entry, vote, isCopy } of itemsOf(record)) {
      const one = found.get(group);
      if (one === undefined || record.sequence <= (cuts.get(group) ?? 0)) continue;
      if (vote !== undefined) one.vote = vote;
      else if (entry !== undefined) one.take(entry, isCopy);
    }
  }
  const groups = new Map(
    [...found].map(([group, one]) => [group, { entries: one.entries(), vote: one.vote }] as const),
  );
  const leftOut = [...found].flatMap(([group, one]) => one.leftOut(group));
  return { ...gapsOf(records, covered), unreadable, leftOut, groups };
}

class Found {
  readonly #start: number;
  readonly #byIndex = new Map<number, Entry>();
  #last = 0;
  vote: Vote | undefined;

  constructor(start: number) {
    this.#start = start;
  }

  /** As a start does (GroupLog.load()). Copies come late, and their originals may be gone. */
  take(entry: Entry, isCopy: boolean): void {
    if (!isCopy) for (let index = entry.index; index <= this.#last; index++) this.#byIndex.delete(index);
    this.#last = isCopy ? Math.max(this.#last, entry.index) : entry.index;
    if (entry.index >= this.#start) this.#byIndex.set(entry.index, entry);
  }

  /** Those in front of the first that is missing. */
  entries(): Entry[] {
    const entries: Entry[] = [];
    for (let next = this.#byIndex.get(this.#start); next !== undefined; next = this.#byIndex.get(next.index + 1))
      entries.push(next);
    return entries;
  }

  leftOut(group: number): LeftOut[] {
    const from = this.#start + this.entries().length;
    const behind = [...this.#byIndex.values()].filter(({ index }) => index > from);
    return behind.length === 0 ? [] : [{ group, from, behind: behind.toSorted((a, b) => a.index - b.index) }];
  }
}

interface Item {
  readonly group: number;
  readonly isCopy: boolean;
  readonly entry?: Entry;
  readonly vote?: Vote;
}

function* itemsOf(record: RecordPlace<Scanned>): IterableIterator<Item> {
  const data = readSpan(record.segment, record, dataStart(record), record.dataBytes);
  for (const { group, kind, copy, term, index, dataBytes, at } of entriesOf(data)) {
    const start = at + LOG_ENTRY.size;
    const isCopy = copy === 1;
    if (kind === KIND_VOTE) yield { group, isCopy, vote: { term, vote: index } };
    else {
      const entry = { index, term, kind: kind as EntryKind, data: data.slice(start, start + dataBytes) };
      yield { group, isCopy, entry };
    }
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
