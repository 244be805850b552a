/** Reads of one stream, each bounded: a page of it from either end, or what comes next. */
import { type Form, type Line, linesOfBytes, linesOfRecords, looksBinary } from '../model/content.ts';
import { streamPath } from '../model/actions.ts';
import { type PageAnswer, type Api, NoAnswer, joinBytes, sentenceOf, textOf } from './api.ts';

/** A node's answer to HEAD. */
export interface Facts {
  readonly contentType: string;
  readonly tail: number;
  readonly floor: number;
  readonly isClosed: boolean;
  /** Ordinals of a JSON stream: the first that is kept, and the next. */
  readonly records: { readonly first: number; readonly next: number } | undefined;
  /** As the headers have it, for what is only shown. */
  readonly header: (name: string) => string | null;
}

export interface Page {
  readonly lines: readonly Line[];
  /** Offsets, or ordinals of records: what the page begins with, and where the next one begins. */
  readonly from: number;
  readonly to: number;
  readonly isCut: boolean;
  readonly isBinary: boolean;
  /** The stream ends behind it. */
  readonly isClosed: boolean;
}

/** Nothing there, or nothing yet. */
export function emptyPage(from: number, isClosed = false): Page {
  return { lines: [], from, to: from, isCut: false, isBinary: false, isClosed };
}

export interface Place {
  readonly api: Api;
  readonly node: number;
  readonly bucket: string;
  readonly stream: string;
}

export const PAGE_BYTES = 64 * 1024;
export const PAGE_RECORDS = 100;
/** Requests for one page. */
const PIECES_MAX = 8;
/** A record may be larger; only its beginning is shown. */
const ANSWER_BYTES_MAX = 2 * 1024 * 1024;
/** Shorter than what proxies give a quiet request. */
const TAIL_MS = 25_000;
const TAIL_SLACK_MS = 10_000;

export async function readFacts({ api, node, bucket, stream }: Place, signal: AbortSignal): Promise<Facts> {
  const answer = await api.node(node, streamPath(bucket, stream), { method: 'HEAD', signal });
  if (answer.status === 404) throw new NoAnswer(`there is no stream ${bucket}/${stream}`);
  if (answer.status !== 200) {
    // An answer to HEAD has no sentence; the same refusal of a read has.
    const told = await api.node(node, `${streamPath(bucket, stream)}?offset=now&max_bytes=0`, { signal });
    throw new NoAnswer(`it answered ${sentenceOf(told)}`);
  }
  const { headers } = answer;
  const number = (name: string): number => Number(headers.get(name) ?? 0);
  return {
    contentType: headers.get('content-type') ?? '',
    tail: number('stream-next-offset'),
    floor: number('stream-retained-offset'),
    isClosed: headers.get('stream-closed') === 'true',
    records: headers.has('stream-record-next')
      ? { first: number('stream-record-first'), next: number('stream-record-next') }
      : undefined,
    header: (name) => headers.get(name),
  };
}

/** Where the first and the last page begin. */
export function ends({ records, floor, tail }: Facts): {
  readonly first: number;
  readonly last: number;
  readonly end: number;
} {
  if (records === undefined) return { first: floor, last: Math.max(floor, tail - PAGE_BYTES), end: tail };
  return { first: records.first, last: Math.max(records.first, records.next - PAGE_RECORDS), end: records.next };
}

export function pageSize({ records }: Facts): number {
  return records === undefined ? PAGE_BYTES : PAGE_RECORDS;
}

export async function readPage(
  place: Place,
  facts: Facts,
  from: number,
  form: Form,
  signal: AbortSignal,
): Promise<Page> {
  if (from >= ends(facts).end) return emptyPage(from);
  const ask = { signal, timeoutMs: TAIL_SLACK_MS };
  if (facts.records !== undefined) return pageOf(await read(place, records(from), ask), facts, from, form);
  const wanted = Math.min(PAGE_BYTES, ends(facts).end - from);
  let answer = await read(place, `offset=${offset(from)}&max_bytes=${wanted}`, ask);
  // An answer ends early where an object of the cold store ends.
  for (let piece = 1; piece < PIECES_MAX && answer.bytes.length < wanted; piece++) {
    const at = from + answer.bytes.length;
    const next = await read(place, `offset=${offset(at)}&max_bytes=${wanted - answer.bytes.length}`, ask);
    if (next.bytes.length === 0) break;
    answer = { ...next, bytes: joinBytes([answer.bytes, next.bytes]) };
  }
  return pageOf(answer, facts, from, form);
}

/** Waits for what is appended at `from`; an empty page when nothing came for a while. */
export async function readNext(
  place: Place,
  facts: Facts,
  from: number,
  form: Form,
  signal: AbortSignal,
): Promise<Page> {
  const position = facts.records === undefined ? `offset=${offset(from)}&max_bytes=${PAGE_BYTES}` : records(from);
  const query = `${position}&live=long-poll&timeout_ms=${TAIL_MS}`;
  const answer = await read(place, query, { signal, timeoutMs: TAIL_MS + TAIL_SLACK_MS });
  if (answer.status === 204) return emptyPage(from, answer.headers.get('stream-closed') === 'true');
  return pageOf(answer, facts, from, form);
}

function offset(value: number): string {
  return String(value).padStart(20, '0');
}

function records(from: number): string {
  return `record=${from}&max_records=${PAGE_RECORDS}&record_view=envelope`;
}

async function read(
  { api, node, bucket, stream }: Place,
  query: string,
  ask: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<PageAnswer> {
  const answer = await api.node(node, `${streamPath(bucket, stream)}?${query}`, { ...ask, bytesMax: ANSWER_BYTES_MAX });
  if (answer.status === 200 || answer.status === 204) return answer;
  throw new NoAnswer(`it answered ${sentenceOf(answer)}`);
}

/** Shows the beginning of a record that is longer than the page takes. */
function beginningOf(answer: string, at: number): Line {
  return { at, text: `${answer.slice(0, PAGE_BYTES).replace(/^\[\{"record":\d+,"value":/, '')} …` };
}

function pageOf(answer: PageAnswer, { records: ordinals }: Facts, from: number, form: Form): Page {
  const { bytes, isCut, headers } = answer;
  const isClosed = headers.get('stream-closed') === 'true';
  if (ordinals === undefined) {
    const isBinary = looksBinary(headers.get('content-type') ?? '', bytes);
    const lines = linesOfBytes(bytes, from, form === 'hex' ? 'hex' : 'text');
    return { lines, from, to: from + bytes.length, isCut, isBinary, isClosed };
  }
  const found = linesOfRecords(textOf(answer));
  const last = found.at(-1);
  const lines = last === undefined && isCut ? [beginningOf(textOf(answer), from)] : found;
  const to = last === undefined ? from + (isCut ? 1 : 0) : last.at + 1;
  if (form !== 'hex') return { lines, from, to, isCut, isBinary: false, isClosed };
  const shown = lines.flatMap(({ at, text }) =>
    linesOfBytes(new TextEncoder().encode(text), 0, 'hex').map((line) => ({ at, text: line.text })),
  );
  return { lines: shown, from, to, isCut, isBinary: false, isClosed };
}
