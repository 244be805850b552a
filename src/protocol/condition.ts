/**
 * Preconditions of a write (If-Match, If-None-Match), decided where the write is applied. A stream's state has a tag,
 * which HEAD shows as its ETag, the same as that of a read of the whole stream.
 *
 * In a command they are one text: If-Match, a space, If-None-Match; each is `-` when not sent, `*`, or tags of 16
 * hexadecimal digits joined by commas, possibly none.
 */
import { hash64Hex } from '../base/hash.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE } from './reply.ts';

/** Flags: those of a reply that reaches the tail, and whatever else changes the bytes of a read. */
export function rangeTag(incarnation: number, createdAtMs: number, from: number, to: number, flags: number): string {
  return hash64Hex([incarnation, createdAtMs, from, to, flags]);
}

/** The state of a stream: its creation, its tail and whether it is closed. */
export function streamTag(incarnation: number, createdAtMs: number, tail: number, closed: boolean): string {
  return rangeTag(incarnation, createdAtMs, 0, tail, REPLY_UP_TO_DATE | (closed ? REPLY_CLOSED : 0));
}

const NOT_SENT = '-';
const ANY = '*';
/** Suffix of the tag of a compressed read. It names the same state, so a write may depend on it. */
export const GZIP_SUFFIX = '-gzip';
/** Digits of a tag. */
const TAG = /^"([0-9a-f]{16})(?:-gzip)?"$/;
/** Tags in one header; more are a client error. */
const TAGS_MAX = 16;

/**
 * The text for a command; '' for no condition, undefined when there are too many tags. A blank If-Match is an empty list,
 * which nothing matches: a writer whose tag got lost must not write over others. A blank If-None-Match excludes nothing.
 */
export function conditionText(ifMatch: string | undefined, ifNoneMatch: string): string | undefined {
  const match = ifMatch === undefined ? NOT_SENT : tagsOf(ifMatch, 'strong');
  const noneMatch = ifNoneMatch.trim() === '' ? NOT_SENT : tagsOf(ifNoneMatch, 'weak');
  if (match === undefined || noneMatch === undefined) return undefined;
  return match === NOT_SENT && noneMatch === NOT_SENT ? '' : `${match} ${noneMatch}`;
}

/** Foreign tags match nothing, so they are omitted. If-Match compares strongly: W/ never matches. */
function tagsOf(header: string, comparison: 'strong' | 'weak'): string | undefined {
  const value = header.trim();
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

/** `tag` is that of the current stream; undefined when there is none. */
export function conditionHolds(condition: string, tag: string | undefined): boolean {
  const [match = NOT_SENT, noneMatch = NOT_SENT] = condition.split(' ');
  if (match !== NOT_SENT && !names(match, tag)) return false;
  return noneMatch === NOT_SENT || !names(noneMatch, tag);
}

function names(tags: string, tag: string | undefined): boolean {
  if (tag === undefined) return false;
  return tags === ANY || tags.split(',').includes(tag);
}

/** If-None-Match: `*`, or a list of tags; a weak tag matches its strong twin (RFC 9110 13.1.2). */
export function etagMatches(ifNoneMatch: string, etag: string): boolean {
  if (ifNoneMatch === '') return false;
  if (ifNoneMatch === etag || ifNoneMatch.trim() === '*') return true;
  if (!ifNoneMatch.includes(etag)) return false;
  // Tags of ours hold no comma and no quote inside, so a split at commas cannot tear one apart.
  return ifNoneMatch.split(',').some((item) => {
    const tag = item.trim();
    return tag === etag || (tag.startsWith('W/') && tag.slice(2) === etag);
  });
}
