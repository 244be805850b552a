// Writers of bodies of all sizes that a cold store has to take away, and how their streams are read back.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { didNothing } from '../support/patient.ts';
import { createRandom, type Random } from '../support/random.ts';
import { RawClient, type RawResponse } from '../support/raw-client.ts';
import { type BlobAppend, type BlobStream, blobBody } from './cold-history.ts';
import { type Load, LostConnection, PAUSE_MS_MAX, RETRY_MS, RovingClient, pause } from './load.ts';

const KIB = 1024;
/** After a refusal; Retry-After says a second, but then nothing would wait at the door when the store comes back. */
const REFUSED_PAUSE_MS = 100;
const NOT_SENT = 'no connection';
const BACKPRESSURE = /wait for the cold store/;

/** Per group, what its writers were told last. */
export interface Doors {
  /** Back-pressure refusals. */
  readonly refused: number[];
  readonly acknowledged: number[];
  /** Why appends were not taken, and how often. */
  readonly sentences: Map<string, number>;
}

export function newDoors(groups: number): Doors {
  const zeros = (): number[] => Array.from({ length: groups }, () => 0);
  return { refused: zeros(), acknowledged: zeros(), sentences: new Map() };
}

export function newBlobStream(bucket: string, name: string, isJson: boolean): BlobStream {
  return { path: `/${bucket}/${name}`, isJson, appends: new Map() };
}

export function typeOf(stream: BlobStream): Record<string, string> {
  return { 'Content-Type': stream.isJson ? 'application/json' : 'application/octet-stream' };
}

function groupOf(stream: BlobStream, groups: number): number {
  const [, bucket, name] = stream.path.split('/') as [string, string, string];
  return fnv1a64mod(bucket, name, groups);
}

/** Most are small, some large, so that rows, packs, single-stream objects and several chunks all occur. */
function sizeOf(random: Random): number {
  if (random.chance(0.5)) return random.int(0, 500);
  if (random.chance(0.7)) return random.int(500, 5 * KIB);
  return random.int(5 * KIB, random.chance(0.1) ? 225 * KIB : 50 * KIB);
}

function newBlob(stream: BlobStream, writer: number, number: number, random: Random): BlobAppend {
  const size = sizeOf(random);
  const records = stream.isJson && random.chance(0.5) ? random.int(1, size > 5 * KIB ? 3 : 20) : 1;
  const append: BlobAppend = { writer, number, size, records, outcome: 'unknown', end: -1 };
  stream.appends.set(`${writer}:${number}`, append);
  return append;
}

/**
 * Appends to its streams as a producer, repeating each until it is told that it took effect. Plain writers try once.
 */
export async function writeBlobs(
  load: Load,
  doors: Doors,
  writer: number,
  streams: readonly BlobStream[],
  asProducer: boolean,
  seed: number,
): Promise<void> {
  const client = new RovingClient(load, seed);
  const random = createRandom(seed + 1);
  const groups = load.cluster.groupIds.length;
  const numbers = new Map<BlobStream, number>();
  while (!load.over.aborted) {
    const stream = random.pick(streams);
    const number = numbers.get(stream) ?? 0;
    numbers.set(stream, number + 1);
    const append = newBlob(stream, writer, number, random);
    const group = groupOf(stream, groups);
    const body = blobBody(stream, append);
    const producer = { 'Producer-Id': `p${writer}`, 'Producer-Epoch': 0, 'Producer-Seq': number };
    const headers = { ...typeOf(stream), ...(asProducer ? producer : {}) };
    for (;;) {
      const answer = await attempt(client, stream, headers, body);
      if (typeof answer !== 'string' && answer.status < 500) {
        const text = `${stream.path} ${writer}:${number}: ${answer.status} ${answer.body.toString('utf8')}`;
        assert(answer.status === 204 || (asProducer && answer.status === 200), text);
        append.outcome = 'acknowledged';
        append.end = Number(answer.headers.get('stream-next-offset'));
        (doors.acknowledged[group] as number)++;
        await pause(random.int(0, PAUSE_MS_MAX));
        break;
      }
      const told = typeof answer === 'string' ? answer : answer.body.toString('utf8').trim();
      doors.sentences.set(told, (doors.sentences.get(told) ?? 0) + 1);
      if (BACKPRESSURE.test(told)) {
        (doors.refused[group] as number)++;
      }
      await pause(BACKPRESSURE.test(told) ? REFUSED_PAUSE_MS : RETRY_MS);
      const isRefused = typeof answer === 'string' ? answer === NOT_SENT : didNothing(answer);
      if (!asProducer && isRefused) append.outcome = 'refused';
      if (!asProducer || load.over.aborted) break;
    }
  }
  client.leave();
}

async function attempt(
  client: RovingClient,
  stream: BlobStream,
  headers: Readonly<Record<string, string | number>>,
  body: Buffer,
): Promise<RawResponse | string> {
  try {
    return (await client.request('POST', stream.path, headers, body)) ?? 'no answer';
  } catch (error) {
    if (error instanceof LostConnection) return NOT_SENT;
    throw error;
  }
}

/** The whole stream as it is stored: JSON as lines. A store that has just come back may still be refusing. */
export async function readWhole(port: number, stream: BlobStream, query = ''): Promise<Buffer> {
  const client = await RawClient.connect(port);
  const parts: Buffer[] = [];
  let offset = '-1';
  for (;;) {
    const answer = await client.request('GET', `${stream.path}?offset=${offset}${query}`);
    if (answer.status === 503) {
      await pause(REFUSED_PAUSE_MS);
      continue;
    }
    const label = `GET ${stream.path}?offset=${offset}${query}`;
    assert.equal(answer.status, 200, `${label}: ${answer.body.toString('latin1').slice(0, 200)}`);
    parts.push(stream.isJson ? linesOf(answer.body) : answer.body);
    if (answer.headers.get('stream-up-to-date') === 'true') break;
    const next = answer.headers.get('stream-next-offset') as string;
    assert(offset === '-1' || next > offset, `${label} must advance`);
    offset = next;
  }
  client.destroy();
  return Buffer.concat(parts);
}

/** By ordinals instead of offsets. */
export async function readRecords(port: number, stream: BlobStream, maxRecords: number): Promise<Buffer> {
  const client = await RawClient.connect(port);
  const parts: Buffer[] = [];
  for (let record = 0; ;) {
    const answer = await client.request('GET', `${stream.path}?record=${record}&max_records=${maxRecords}`);
    if (answer.status === 503) {
      await pause(REFUSED_PAUSE_MS);
      continue;
    }
    assert.equal(answer.status, 200, `GET ${stream.path}?record=${record}`);
    parts.push(linesOf(answer.body));
    const next = Number(answer.headers.get('stream-record-next'));
    if (answer.headers.get('stream-up-to-date') === 'true') break;
    assert(next > record, `GET ${stream.path}?record=${record} must advance`);
    record = next;
  }
  client.destroy();
  return Buffer.concat(parts);
}

function linesOf(body: Buffer): Buffer {
  const records = JSON.parse(body.toString('utf8')) as unknown[];
  return Buffer.from(records.map((record) => `${JSON.stringify(record)}\n`).join(''));
}
