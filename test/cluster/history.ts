// The answers to a cluster's clients about their appends, checked against what the nodes hold in the end.
// Each append names its writer and number, so the bytes of a stream alone tell which appends took effect, how often,
// and where. The bytes follow from these names, so they are not kept.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { crc32 } from 'node:zlib';

/** `refused`: the answer promised that nothing was done. `unknown`: no answer, or one that says so. */
export type Outcome = 'acknowledged' | 'refused' | 'unknown';

export interface SentAppend {
  readonly writer: number;
  readonly number: number;
  readonly padBytes: number;
  outcome: Outcome;
  /** Offset behind its last byte, from the acknowledgement. */
  end: number;
}

export interface StreamHistory {
  readonly name: string;
  readonly path: string;
  /** Then each append is one record, stored as one line. */
  readonly isJson: boolean;
  readonly appends: Map<string, SentAppend>;
}

export interface Tally {
  acknowledged: number;
  refused: number;
  unknownPresent: number;
  unknownAbsent: number;
  /** Bytes that readers were shown while the stream was written. */
  reads: number;
}

/** A complaint shows so much of a line. */
const LINE_CHARS = 80;
/** Padding names its place this often, so that pieces of large bodies cannot change places unnoticed. */
const MARK_BYTES = 1024;
/** Room for a mark: a writer, a number and a place. */
const MARK_BYTES_MAX = 40;
const LINE_END = 10;
const NAMES = /^(?:\{"append":")?(\d+):(\d+):/;

export const newTally = (): Tally => ({ acknowledged: 0, refused: 0, unknownPresent: 0, unknownAbsent: 0, reads: 0 });

export function newStream(bucket: string, name: string, isJson = false): StreamHistory {
  return { name, path: `/${bucket}/${name}`, isJson, appends: new Map() };
}

export function typeOf({ isJson }: StreamHistory): { readonly 'Content-Type': string } {
  return { 'Content-Type': isJson ? 'application/json' : 'text/plain' };
}

export function newAppend(stream: StreamHistory, writer: number, number: number, padBytes: number): SentAppend {
  const append: SentAppend = { writer, number, padBytes, outcome: 'unknown', end: -1 };
  stream.appends.set(`${writer}:${number}`, append);
  return append;
}

/** The line that the stream then holds. */
export function lineOf({ isJson }: StreamHistory, { writer, number, padBytes }: SentAppend): Buffer {
  const head = `${isJson ? '{"append":"' : ''}${writer}:${number}:`;
  const tail = isJson ? '"}\n' : '\n';
  const line = Buffer.alloc(head.length + padBytes + tail.length, 'x');
  line.write(head, 'latin1');
  for (let at = MARK_BYTES; at + MARK_BYTES_MAX < padBytes; at += MARK_BYTES) {
    line.write(`[${writer}:${number}:${at}]`, head.length + at, 'latin1');
  }
  line.write(tail, line.length - tail.length, 'latin1');
  return line;
}

export function bodyOf(stream: StreamHistory, append: SentAppend): Buffer {
  const line = lineOf(stream, append);
  return stream.isJson ? line.subarray(0, -1) : line;
}

/** Every acknowledged append once, at the offset that was answered; refused ones never; others at most once. */
export function checkStream(stream: StreamHistory, content: Buffer, tally: Tally): void {
  const found = new Set<SentAppend>();
  const latest = new Map<number, number>();
  let at = 0;
  while (at < content.length) {
    const lineEnd = content.indexOf(LINE_END, at) + 1;
    assert(lineEnd > 0, `${stream.name} ends inside an append`);
    const line = content.subarray(at, lineEnd);
    const [, writer, number] = NAMES.exec(line.toString('latin1', 0, LINE_CHARS)) ?? [];
    const append = stream.appends.get(`${writer}:${number}`);
    const label = `${stream.name}: append ${writer}:${number} at ${at}`;
    assert(append !== undefined, `${label} was never sent: ${line.toString('latin1', 0, LINE_CHARS)}`);
    assert(line.equals(lineOf(stream, append)), `${label} has other bytes than were sent`);
    assert(!found.has(append), `${label} is there twice (${append.outcome})`);
    assert(append.outcome !== 'refused', `${label} was refused with the promise that nothing was done`);
    found.add(append);
    at = lineEnd;
    if (append.outcome !== 'acknowledged') continue;
    assert.equal(append.end, at, `${label} was acknowledged with another offset`);
    const before = latest.get(append.writer) ?? -1;
    assert(append.number > before, `${label} comes after ${append.writer}:${before}, which was acknowledged later`);
    latest.set(append.writer, append.number);
  }
  for (const append of stream.appends.values()) {
    const isThere = found.has(append);
    assert(
      isThere || append.outcome !== 'acknowledged',
      `${stream.name}: append ${append.writer}:${append.number} was acknowledged (end ${append.end} of ${at}) and is lost`,
    );
    if (append.outcome === 'acknowledged') tally.acknowledged++;
    else if (append.outcome === 'refused') tally.refused++;
    else if (isThere) tally.unknownPresent++;
    else tally.unknownAbsent++;
  }
}

interface Mark {
  readonly offset: number;
  readonly checksum: number;
}

/** The bytes that one reader was shown, from the first on, as a checksum at the end of each answer. */
export class Shown {
  readonly how: string;
  readonly #marks: Mark[] = [];

  constructor(how: string) {
    this.how = how;
  }

  /** Where the reader goes on. */
  get offset(): number {
    return this.#marks.at(-1)?.offset ?? 0;
  }

  take(bytes: Buffer): void {
    const { offset, checksum } = this.#marks.at(-1) ?? { offset: 0, checksum: 0 };
    this.#marks.push({ offset: offset + bytes.length, checksum: crc32(bytes, checksum) });
  }

  /** All of it is there in the end, at the same place, and was shown once. */
  check({ name }: StreamHistory, content: Buffer, tally: Tally): void {
    let before: Mark = { offset: 0, checksum: 0 };
    for (const mark of this.#marks) {
      const label = `${name}: ${this.how} showed bytes ${before.offset} to ${mark.offset}`;
      assert(mark.offset <= content.length, `${label}; in the end there are ${content.length}`);
      const checksum = crc32(content.subarray(before.offset, mark.offset), before.checksum);
      assert(checksum === mark.checksum, `${label}, which are not there in the end`);
      before = mark;
    }
    tally.reads += this.offset;
  }
}
