// Appends of all sizes whose bytes name their sender, in a byte stream or as JSON records, and the check of a node's
// content against what the clients were told. Only numbers are kept of an append, because its bytes can be generated
// again.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import type { Outcome } from './history.ts';
import { createRandom } from '../support/random.ts';

const NOISE_BYTES = 1024 * 1024;
const NOISE_SEED = 1;
/** Text, so that it fits into a JSON string; not compressible to nothing, and different at every position. */
const NOISE: Buffer = noise();
/** Head of a byte stream's message: `writer:number:length\n`, padded. */
const HEAD_BYTES = 32;

export interface BlobAppend {
  readonly writer: number;
  readonly number: number;
  /** Bytes of a byte message; of the text of each record in JSON. */
  readonly size: number;
  /** Records; 1 in a byte stream. */
  readonly records: number;
  outcome: Outcome;
  /** From the acknowledgement. */
  end: number;
}

export interface BlobStream {
  readonly path: string;
  readonly isJson: boolean;
  readonly appends: Map<string, BlobAppend>;
}

export interface BlobTally {
  acknowledged: number;
  bytes: number;
  refused: number;
  unknownPresent: number;
  unknownAbsent: number;
}

function noise(): Buffer {
  const random = createRandom(NOISE_SEED);
  const bytes = Buffer.alloc(NOISE_BYTES);
  for (let i = 0; i < NOISE_BYTES; i++) bytes[i] = random.int(97, 122);
  return bytes;
}

function filling({ writer, number }: BlobAppend, part: number, size: number): Buffer {
  const at = (writer * 7919 + number * 104_729 + part * 1_299_709) % (NOISE_BYTES - size);
  return NOISE.subarray(at, at + size);
}

export function blobBody(stream: BlobStream, append: BlobAppend): Buffer {
  if (stream.isJson) {
    const records = Array.from({ length: append.records }, (_, part) => recordOf(append, part));
    return Buffer.from(append.records === 1 ? (records[0] as string) : `[${records.join(', ')}]`);
  }
  const head = `${append.writer}:${append.number}:${append.size}`.padEnd(HEAD_BYTES - 1, ' ');
  return Buffer.concat([Buffer.from(`${head}\n`), filling(append, 0, append.size)]);
}

function recordOf(append: BlobAppend, part: number): string {
  const text = filling(append, part, append.size).toString('latin1');
  return `{"w":${append.writer},"n":${append.number},"part":${part},"text":"${text}"}`;
}

/** The stream's bytes as the append leaves them. */
function storedOf(stream: BlobStream, append: BlobAppend): Buffer {
  if (!stream.isJson) return blobBody(stream, append);
  return Buffer.from(Array.from({ length: append.records }, (_, part) => `${recordOf(append, part)}\n`).join(''));
}

/** The append that begins at `at`. */
function appendAt(stream: BlobStream, content: Buffer, at: number): BlobAppend | undefined {
  const match = stream.isJson
    ? /^\{"w":(\d+),"n":(\d+),"part":0,/.exec(content.toString('latin1', at, at + 80))
    : /^(\d+):(\d+):\d+ *\n/.exec(content.toString('latin1', at, at + HEAD_BYTES));
  return match === null ? undefined : stream.appends.get(`${match[1]}:${match[2]}`);
}

/** Every acknowledged append once, at the offset that was answered; others at most once; refused ones never. */
export function checkBlobs(stream: BlobStream, content: Buffer, tally: BlobTally): void {
  const found = new Set<BlobAppend>();
  const latest = new Map<number, number>();
  for (let at = 0; at < content.length;) {
    const append = appendAt(stream, content, at);
    assert(append !== undefined, `${stream.path}: at ${at} begins nothing that was sent`);
    const label = `${stream.path}: append ${append.writer}:${append.number} at ${at}`;
    const bytes = storedOf(stream, append);
    assert(content.subarray(at, at + bytes.length).equals(bytes), `${label} has other bytes than were sent`);
    assert(!found.has(append), `${label} is there twice`);
    assert(append.outcome !== 'refused', `${label} was refused with the promise that nothing was done`);
    found.add(append);
    at += bytes.length;
    if (append.outcome !== 'acknowledged') continue;
    assert.equal(append.end, at, `${label} was acknowledged with another offset`);
    assert(append.number > (latest.get(append.writer) ?? -1), `${label} comes too late`);
    latest.set(append.writer, append.number);
  }
  for (const append of stream.appends.values()) {
    const isThere = found.has(append);
    const label = `${stream.path}: append ${append.writer}:${append.number}`;
    assert(isThere || append.outcome !== 'acknowledged', `${label} was acknowledged and is lost`);
    if (append.outcome === 'acknowledged') tally.acknowledged++;
    else if (append.outcome === 'refused') tally.refused++;
    else if (isThere) tally.unknownPresent++;
    else tally.unknownAbsent++;
  }
  tally.bytes += content.length;
}
