/** The content of a stream, piece by piece: a JSON stream as lines, one for each record, any other one as its bytes. */
import { asLines, valuesOf } from './array-splitter.ts';
import { type StreamAnswer, type StreamClient, expectStatus, headerOf } from './stream-client.ts';
import type { NamedStream } from './stream-name.ts';
import { Failure, NotThere } from '../../nodes/failure.ts';

export interface Piece {
  readonly bytes: Buffer;
  readonly records: number;
  /** The position at which to read on. */
  readonly next: number;
  readonly isAtTail: boolean;
  /** There, and nothing comes behind it. */
  readonly isClosed: boolean;
}

const LINE_END = 0x0a;
const OFFSET_DIGITS = 20;
/** How long a node lets a reader wait; it may be up to a minute. */
const LONG_POLL_MS = 20_000;
/** The last lines of bytes are looked for in steps, each twice as long, up to the last. */
const LAST_STEP_BYTES = 64 * 1024;
const LAST_BYTES_MAX = 16 * 1024 * 1024;

export const offsetText = (offset: number): string => String(offset).padStart(OFFSET_DIGITS, '0');

export function isJsonType(contentType: string): boolean {
  return /^application\/json\s*(;|$)/i.test(contentType.trim());
}

export async function factsOf(client: StreamClient, { path, text }: NamedStream): Promise<StreamFacts> {
  return factsIn(expectStatus(await client.call({ method: 'HEAD', path, mayRepeat: true }), text, 200));
}

/** A node's answer to HEAD. */
export type StreamFacts = Readonly<ReturnType<typeof factsIn>>;

export function factsIn(answer: StreamAnswer) {
  const contentType = headerOf(answer, 'content-type') ?? 'application/octet-stream';
  const next = numberIn(answer, 'stream-record-next');
  return {
    contentType,
    isJson: isJsonType(contentType),
    tail: numberIn(answer, 'stream-next-offset') ?? 0,
    /** The first byte that is still there. */
    floor: numberIn(answer, 'stream-retained-offset') ?? 0,
    /** Ordinals of a JSON stream; undefined elsewhere. */
    records: next === undefined ? undefined : { first: numberIn(answer, 'stream-record-first') ?? 0, next },
    isClosed: headerOf(answer, 'stream-closed') === 'true',
    headers: answer.headers,
  };
}

export const numberIn = (answer: StreamAnswer, name: string): number | undefined => wholeNumber(headerOf(answer, name));

/** As headers write it; what is none counts as absent. */
export function wholeNumber(text: unknown): number | undefined {
  const number = typeof text === 'string' && /^\d{1,20}$/.test(text) ? Number(text) : undefined;
  return number !== undefined && Number.isSafeInteger(number) ? number : undefined;
}

/** `query` says where to begin. */
export async function readPiece(client: StreamClient, name: NamedStream, query: string): Promise<Piece> {
  const answer = await client.call({ method: 'GET', path: `${name.path}?${query}`, mayRepeat: true });
  return pieceIn(expectStatus(answer, name.text, 200), name);
}

function pieceIn(answer: StreamAnswer, { text }: NamedStream): Piece {
  const next = numberIn(answer, 'stream-next-offset');
  if (next === undefined) throw new Failure(`${text}: what answered is not a node of this service`);
  const isJson = answer.status === 200 && isJsonType(headerOf(answer, 'content-type') ?? '');
  const values = isJson ? valuesOf(answer.body) : [];
  return {
    bytes: isJson ? asLines(values) : answer.body,
    records: values.length,
    next,
    isAtTail: headerOf(answer, 'stream-up-to-date') === 'true',
    isClosed: headerOf(answer, 'stream-closed') === 'true',
  };
}

/** From an offset up to the tail as it was at first: one that grows all the time has no other end. */
export async function* readAll(
  client: StreamClient,
  name: NamedStream,
  from: number,
  to: number,
): AsyncGenerator<Piece, void> {
  for (let at = from; at < to;) {
    const piece = await readPiece(client, name, `offset=${offsetText(at)}`);
    if (piece.next <= at) throw new Failure(`${name.text}: nothing can be read behind offset ${at}`);
    yield piece;
    at = piece.next;
  }
}

/** The same offsets are other bytes then. */
export function madeAgain(stream: string): NotThere {
  return new NotThere(`${stream}: it is gone, and another one of its name was made`);
}

/** Yields everything from an offset on until the stream is closed. Waits for nodes that go away. */
export async function* follow(client: StreamClient, name: NamedStream, from: number): AsyncGenerator<Piece, void> {
  let cursor = '';
  let incarnation: string | undefined;
  for (let at = from; ;) {
    const answer = await client.call({
      method: 'GET',
      path: `${name.path}?offset=${offsetText(at)}&live=long-poll&timeout_ms=${LONG_POLL_MS}${cursor}`,
      mayRepeat: true,
      waitsMs: LONG_POLL_MS,
      patienceMs: Infinity,
    });
    const piece = pieceIn(expectStatus(answer, name.text, 200, 204), name);
    const told = headerOf(answer, 'stream-incarnation') ?? incarnation;
    incarnation ??= told;
    if (told !== incarnation) throw madeAgain(name.text);
    if (piece.bytes.length > 0) yield piece;
    if (piece.isClosed) return;
    at = piece.next;
    const given = headerOf(answer, 'stream-cursor');
    cursor = given === undefined ? '' : `&cursor=${encodeURIComponent(given)}`;
  }
}

/** From where `query` says up to the tail as it was at first. */
export async function* readFrom(
  client: StreamClient,
  name: NamedStream,
  query: string,
  to: number,
): AsyncGenerator<Piece, void> {
  const first = await readPiece(client, name, query);
  yield first;
  yield* readAll(client, name, first.next, to);
}

/** The last records of a JSON stream, or lines of any other one, up to the tail as it was at first. */
export async function* lastLines(
  client: StreamClient,
  name: NamedStream,
  { tail, floor, isJson }: StreamFacts,
  count: number,
): AsyncGenerator<Pick<Piece, 'bytes' | 'next'>, void> {
  if (count === 0 || tail === floor) return;
  if (isJson) return yield* readFrom(client, name, `tail_records=${count}`, tail);
  for (let size = LAST_STEP_BYTES; ; size *= 2) {
    const from = Math.max(floor, tail - size);
    const pieces: Buffer[] = [];
    let next = from;
    for await (const piece of readAll(client, name, from, tail)) {
      pieces.push(piece.bytes);
      ({ next } = piece);
    }
    const bytes = Buffer.concat(pieces);
    const start = startOfLast(bytes, count);
    if (start === undefined && from > floor && size < LAST_BYTES_MAX) continue;
    return yield { bytes: bytes.subarray(start ?? 0), next };
  }
}

/** Where the last `count` lines begin; the last one may have no end. Undefined: there are not as many. */
function startOfLast(bytes: Buffer, count: number): number | undefined {
  let at = bytes.length - (bytes.at(-1) === LINE_END ? 1 : 0);
  for (let lines = 0; lines < count; lines++) {
    if (at <= 0) return undefined;
    at = bytes.lastIndexOf(LINE_END, at - 1);
    if (at < 0) return undefined;
  }
  return at + 1;
}
