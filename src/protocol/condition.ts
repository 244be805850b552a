/**
 * Preconditions of a write (If-Match, If-None-Match), decided where the write is applied. A state of a stream has a tag, which HEAD
 * shows as its ETag: the one that a read of the whole stream has too.
 *
 * In a command they are one text: what If-Match says, a blank, what If-None-Match says; each `-` when not sent, `*`, or tags
 * of 16 hexadecimal digits joined by commas, perhaps none.
 */
import { hash64Hex } from '../base/hash.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE } from './reply.ts';

/** Flags: those of a reply that reaches the tail, and what else makes the bytes of a read differ. */
export function rangeTag(incarnation: number, createdAtMs: number, from: number, to: number, flags: number): string {
  return hash64Hex([incarnation, createdAtMs, from, to, flags]);
}

/** The state of a stream: its creation, its tail and whether it is closed. */
export function streamTag(incarnation: number, createdAtMs: number, tail: number, closed: boolean): string {
  return rangeTag(incarnation, createdAtMs, 0, tail, REPLY_UP_TO_DATE | (closed ? REPLY_CLOSED : 0));
}

const NOT_SENT = '-';
const ANY = '*';
/** Ends the tag of a read that was sent compressed. It names the same state, so a write may be made to depend on it. */
export const GZIP_SUFFIX = '-gzip';
/** Digits of a tag. */
const TAG = /^"([0-9a-f]{16})(?:-gzip)?"$/;
/** Tags in one header: whoever sends more does not know what they want. */
const TAGS_MAX = 16;

/** The text for a command; '' for no condition, undefined when there are too many tags. Blank headers count as not sent. */
export function conditionText(ifMatch: string, ifNoneMatch: string): string | undefined {
  const match = tagsOf(ifMatch, 'strong');
  const noneMatch = tagsOf(ifNoneMatch, 'weak');
  if (match === undefined || noneMatch === undefined) return undefined;
  return match === NOT_SENT && noneMatch === NOT_SENT ? '' : `${match} ${noneMatch}`;
}

/** Tags that are none of ours match nothing, so they are left out. If-Match compares strongly: W/ never matches. */
function tagsOf(header: string, comparison: 'strong' | 'weak'): string | undefined {
  const value = header.trim();
  if (value === '') return NOT_SENT;
  if (value === ANY) return ANY;
  const items = value.split(',');
  if (items.length > TAGS_MAX) return undefined;
  const tags: string[] = [];
  for (const item of items) {
    const text = item.trim();
    const tag = TAG.exec(comparison === 'weak' && text.startsWith('W/') ? text.slice(2) : text)?.[1];
    if (tag !== undefined) tags.push(tag);
  }
  return tags.join(',');
}

/** `tag`: of the stream as it is; undefined when there is none. */
export function conditionHolds(condition: string, tag: string | undefined): boolean {
  const [match = NOT_SENT, noneMatch = NOT_SENT] = condition.split(' ');
  if (match !== NOT_SENT && !names(match, tag)) return false;
  return noneMatch === NOT_SENT || !names(noneMatch, tag);
}

function names(tags: string, tag: string | undefined): boolean {
  if (tag === undefined) return false;
  return tags === ANY || tags.split(',').includes(tag);
}
