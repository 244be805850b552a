/**
 * Tells a log that ends from one that lost its end. Record N is the first that is not whole, and nothing shows that a
 * later one was written. If the write of N was cut off, a sector of it still carries an older stamp: its
 * sync did not return, no client was told, and it is cut. Without such a sector N was whole and has changed. The table of all cases is in the
 * room's README.
 */
import { viewOf } from '../base/bytes.ts';
import { planted } from '../base/planted.ts';
import { type LogItem, wholeItems } from './log-entry.ts';
import { LOG_PAGE_BYTES, LogDamage, SECTOR_BYTES, pagesOf, readHead, stampOf, toPages } from './log-record.ts';

/** A record whose write did not end. */
export interface Cut {
  readonly sequence: number;
  readonly segment: string;
  readonly at: number;
  /** Up to the last page that has anything of it. */
  readonly bytes: number;
  /** The entries and votes that are whole, from the first on. */
  readonly items: readonly Omit<LogItem, 'data'>[];
}

interface Place {
  readonly segment: { readonly name: string };
  readonly at: number;
}

/** Judges the place where record `sequence` would begin. Undefined: it was never written. Throws LogDamage. */
export function judgeEnd(content: Uint8Array, { segment, at }: Place, log: bigint, sequence: number): Cut | undefined {
  const { name } = segment;
  const view = viewOf(content);
  const stamps: ReturnType<typeof stampOf>[] = [];
  for (let sector = at; sector < content.length; sector += SECTOR_BYTES)
    stamps.push(stampOf(view, sector, log, sequence));
  const found = readHead(content, at, log);
  const head = found?.sequence === sequence && found.version !== 1 ? found : undefined;
  const written = stamps.lastIndexOf('own') + 1;
  const bytes = Math.max(toPages(written * SECTOR_BYTES), head === undefined ? 0 : pagesOf(head));
  const damaged = (what: string): void => {
    if (!planted('rot-taken-for-torn')) throw new LogDamage(`record ${sequence} in ${name} at byte ${at} ${what}`);
  };
  if (stamps.includes('later') && !planted('later-record-ignored'))
    damaged(`is not readable, and record ${sequence + 1} was written behind it`);
  if (bytes === 0) {
    const page = stamps.slice(0, LOG_PAGE_BYTES / SECTOR_BYTES);
    if (page.length > 0 && page.every((stamp) => stamp === 'none'))
      damaged('is lost: the page holds nothing that the log wrote');
    return undefined;
  }
  // A sector with an older stamp was not written: then the sync of the record never returned.
  const sectors = stamps.slice(0, head === undefined ? written : bytes / SECTOR_BYTES);
  if (!sectors.includes('older') || planted('torn-taken-for-rot'))
    damaged('was written to its end, and has changed since');
  const items = head === undefined ? [] : wholeItems(content, { ...head, at });
  return { sequence, segment: name, at, bytes, items };
}

/** Whether every sector carries a stamp of the log, so that a record that is torn there can be told. */
export function isUnwritten(content: Uint8Array, log: bigint): boolean {
  const view = viewOf(content);
  for (let sector = 0; sector < content.length; sector += SECTOR_BYTES)
    if (stampOf(view, sector, log, 0) === 'none') return false;
  return true;
}
