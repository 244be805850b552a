// A client's beliefs about its streams after crashes. Each append carries its writer and number, so the bytes of
// a stream alone tell which appends took effect, how often, and where.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

/**
 * The knowledge about one append. `unknown` becomes `present` or `absent` at the first look after a restart and must
 * never change again: an append that was lost cannot come back, one that was seen cannot go.
 */
type Fate = 'unknown' | 'present' | 'absent';

export interface Append {
  readonly writer: number;
  readonly number: number;
  /** Records of the request: a JSON array makes several, and they take effect together or not at all. */
  readonly parts: number;
  /** The request also closes the stream. */
  readonly closes: boolean;
  fate: Fate;
  acknowledged: boolean;
  /** Offset after its last byte, from the acknowledgement or the first look. */
  end: number | undefined;
}

export interface ProducerState {
  readonly id: string;
  epoch: number;
  nextSeq: number;
  /** Sent, not answered: must be sent again before anything else of this producer. */
  open: { readonly epoch: number; readonly seq: number; readonly append: Append } | undefined;
  /** The last one that was answered, for deliberate repetition. */
  last: { readonly epoch: number; readonly seq: number; readonly append: Append } | undefined;
}

export interface StreamModel {
  readonly name: string;
  readonly isJson: boolean;
  readonly isShared: boolean;
  exists: boolean;
  /** A create or delete was not answered: the stream may be there or not. */
  maybeMissing: boolean;
  closed: boolean;
  /** A close was not answered. */
  maybeClosed: boolean;
  /** Numbers go on after a re-creation, so bytes of an earlier life are recognised as strangers. */
  nextNumber: number;
  readonly appends: Map<string, Append>;
  /** By writer. */
  readonly producers: Map<number, ProducerState>;
  /** Last known tail. */
  tail: number;
}

export interface Totals {
  acknowledged: number;
  unknownPresent: number;
  unknownAbsent: number;
  deduplicated: number;
  refused: number;
}

export function createStream(name: string, isJson: boolean, isShared: boolean): StreamModel {
  return {
    name,
    isJson,
    isShared,
    exists: false,
    maybeMissing: false,
    closed: false,
    maybeClosed: false,
    nextNumber: 0,
    appends: new Map(),
    producers: new Map(),
    tail: 0,
  };
}

/** The stream is gone: nothing that was written to it may ever be seen again. */
export function forget(stream: StreamModel): void {
  stream.exists = false;
  stream.maybeMissing = false;
  stream.closed = false;
  stream.maybeClosed = false;
  stream.appends.clear();
  stream.producers.clear();
  stream.tail = 0;
}

const key = (writer: number, number: number): string => `${writer}:${number}`;

export function newAppend(stream: StreamModel, writer: number, parts: number, closes: boolean): Append {
  const number = stream.nextNumber++;
  const append: Append = { writer, number, parts, closes, fate: 'unknown', acknowledged: false, end: undefined };
  stream.appends.set(key(writer, number), append);
  return append;
}

/** Length of the filler: mostly small, now and then across rows, seldom beyond what travels inside a mailbox ring. */
function fillerLength(stream: StreamModel, append: Append, part: number): number {
  const digest = createHash('md5').update(`${stream.name}/${append.writer}/${append.number}/${part}`).digest();
  const dice = digest[0] as number;
  const size = digest.readUInt16LE(1);
  if (stream.isShared || dice < 230) return size % 300;
  if (dice < 250) return 4000 + (size % 8000);
  return dice < 254 ? 64 * 1024 + (size % 9000) : 270 * 1024 + size;
}

/** The record as it is stored, with its final newline. */
export function recordText(stream: StreamModel, append: Append, part: number): string {
  const filler = 'x'.repeat(fillerLength(stream, append, part));
  const { writer, number, parts } = append;
  if (!stream.isJson) return `${writer}:${number}:${part}:${parts}:${filler}\n`;
  return `{"w":${writer},"n":${number},"part":${part},"of":${parts},"pad":"${filler}"}\n`;
}

export function requestBody(stream: StreamModel, append: Append): string {
  const records = Array.from({ length: append.parts }, (_, part) => recordText(stream, append, part));
  if (!stream.isJson) return records.join('');
  const values = records.map((record) => record.trimEnd());
  return append.parts === 1 ? (values[0] as string) : `[ ${values.join(' , ')} ]`;
}

interface Seen {
  readonly writer: number;
  readonly number: number;
  readonly part: number;
  readonly start: number;
  readonly text: string;
}

function recordsOf(stream: StreamModel, content: string): Seen[] {
  let start = 0;
  return content
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const text = `${line}\n`;
      const fields = stream.isJson
        ? (/^\{"w":(\d+),"n":(\d+),"part":(\d+),/.exec(line) ?? [])
        : (/^(\d+):(\d+):(\d+):/.exec(line) ?? []);
      const seen = { writer: Number(fields[1]), number: Number(fields[2]), part: Number(fields[3]), start, text };
      start += text.length;
      return seen;
    });
}

/** Compares what a stream holds after a restart with what its writers were told; settles what was unknown. */
export function checkContent(stream: StreamModel, content: string, closed: boolean, totals: Totals): void {
  const where = (detail: string): string => `${stream.name} (${stream.isJson ? 'JSON' : 'bytes'}): ${detail}`;
  assert(content === '' || content.endsWith('\n'), where('ends inside a record'));
  const latest = new Map<number, number>();
  const found = new Set<Append>();
  const records = recordsOf(stream, content);
  for (let i = 0; i < records.length;) {
    const first = records[i] as Seen;
    const append = stream.appends.get(key(first.writer, first.number));
    const label = `append ${first.writer}:${first.number} at offset ${first.start}`;
    assert(
      append !== undefined,
      where(`${label} was never sent in this life of the stream: ${first.text.slice(0, 80)}`),
    );
    assert(append.fate !== 'absent', where(`${label} was absent after an earlier restart and came back`));
    assert(!found.has(append), where(`${label} is there twice`));
    const before = latest.get(append.writer) ?? -1;
    assert(append.number > before, where(`${label} comes after ${append.writer}:${before}, but was sent earlier`));
    latest.set(append.writer, append.number);
    found.add(append);
    let end = first.start;
    for (let part = 0; part < append.parts; part++) {
      const text = records[i++]?.text;
      assert.equal(
        text,
        recordText(stream, append, part),
        where(`${label}, part ${part}, has other bytes than were sent`),
      );
      end += (text as string).length;
    }
    assert(
      append.end === undefined || append.end === end,
      where(`${label} ends at ${end}, was acknowledged at ${append.end}`),
    );
    append.end = end;
  }
  checkClosed(stream, closed, found, where);
  for (const append of stream.appends.values()) {
    const label = `append ${append.writer}:${append.number}`;
    const isFound = found.has(append);
    assert(isFound || append.fate !== 'present', where(`${label} (acknowledged: ${append.acknowledged}) is lost`));
    if (append.fate !== 'unknown') continue;
    append.fate = isFound ? 'present' : 'absent';
    if (isFound) totals.unknownPresent++;
    else totals.unknownAbsent++;
  }
  stream.tail = content.length;
}

function checkClosed(
  stream: StreamModel,
  closed: boolean,
  found: ReadonlySet<Append>,
  where: (detail: string) => string,
): void {
  if (!stream.maybeClosed) assert.equal(closed, stream.closed, where('closed state'));
  for (const append of stream.appends.values()) {
    if (append.closes && append.fate !== 'absent') {
      assert.equal(
        found.has(append),
        closed,
        where('an append that closes took effect without closing, or the other way'),
      );
    }
  }
  stream.closed = closed;
  stream.maybeClosed = false;
}
