/**
 * The data directory of the reference server (npm: @durable-streams/server, file-backed): facts of the streams in LMDB under
 * `metadata.lmdb`, and for each a file of messages under `streams`. It is only read. Stop that server first.
 */
import { createReadStream, existsSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import { Failure, reasonOf } from '../failure.ts';
import { isObject } from '../report.ts';
import { valuesOf } from '../streams/array-splitter.ts';
import { isJsonType } from '../streams/reading.ts';
import { type ImportSource, type Unit, bytesWithout, without } from './import-source.ts';

const METADATA = 'metadata.lmdb';
const KEY = 'stream:';
/** Length before a message, and the line end behind it; offsets of the reference server count both. */
const HEAD_BYTES = 4;
const FRAME_BYTES = HEAD_BYTES + 1;
/** No request to it is larger. */
const MESSAGE_BYTES_MAX = 256 * 1024 * 1024;
const DEFAULT_TYPE = 'application/octet-stream';

export interface ReferenceStream {
  /** Of its URL on that server. */
  readonly path: string;
  readonly source: ImportSource;
}

interface Facts {
  readonly path: string;
  readonly contentType: string;
  readonly file: string;
  readonly isClosed: boolean;
  readonly createHeaders: Readonly<Record<string, string>>;
  readonly fork: { readonly of: string; readonly at: number } | undefined;
}

export function isReferenceFolder(folder: string): boolean {
  return existsSync(join(folder, METADATA));
}

/** All streams that still live, by path. */
export async function referenceStreams(folder: string): Promise<ReferenceStream[]> {
  const facts = await readFacts(folder);
  return [...facts.values()]
    .filter(({ isLive }) => isLive)
    .map(({ path }) => path)
    .toSorted()
    .map((path) => ({ path, source: sourceOf(folder, facts, path) }));
}

/** Deleted ones too: forks read what they inherit from them. */
async function readFacts(folder: string): Promise<Map<string, Facts & { isLive: boolean }>> {
  const found = new Map<string, Facts & { isLive: boolean }>();
  try {
    const structures = Symbol.for('structures');
    const db = open({
      path: join(folder, METADATA),
      readOnly: true,
      compression: true,
      sharedStructuresKey: structures,
    });
    try {
      for (const { key, value } of db.getRange({ start: KEY, end: `${KEY}\u00ff` })) {
        const facts: unknown = value;
        if (typeof key !== 'string' || !isObject(facts)) continue;
        const path = key.slice(KEY.length);
        found.set(path, { ...factsIn(path, facts), isLive: facts['softDeleted'] !== true && !hasExpired(facts) });
      }
    } finally {
      await db.close();
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(`${join(folder, METADATA)} cannot be read: ${reasonOf(error)}`);
  }
  return found;
}

function factsIn(path: string, facts: Readonly<Record<string, unknown>>): Facts {
  const { contentType, directoryName: file, ttlSeconds, expiresAt, forkedFrom, forkOffset } = facts;
  // It becomes part of a path.
  if (typeof file !== 'string' || !/^[\w~-]+$/.test(file))
    throw new Failure(`the stream ${path} has a file name that the reference server does not make`);
  return {
    path,
    contentType: typeof contentType === 'string' && contentType !== '' ? contentType : DEFAULT_TYPE,
    file: `${file}.log`,
    isClosed: facts['closed'] === true,
    createHeaders: {
      ...(typeof ttlSeconds === 'number' ? { 'stream-ttl': String(ttlSeconds) } : {}),
      ...(typeof expiresAt === 'string' && ttlSeconds === undefined ? { 'stream-expires-at': expiresAt } : {}),
    },
    fork: typeof forkedFrom === 'string' ? { of: forkedFrom, at: offsetIn(forkOffset) } : undefined,
  };
}

function hasExpired({ expiresAt, ttlSeconds, lastAccessedAt, createdAt }: Readonly<Record<string, unknown>>): boolean {
  const used = typeof lastAccessedAt === 'number' ? lastAccessedAt : createdAt;
  if (typeof expiresAt === 'string' && !(Date.parse(expiresAt) > Date.now())) return true;
  return typeof ttlSeconds === 'number' && typeof used === 'number' && used + ttlSeconds * 1000 <= Date.now();
}

/** The bytes of `0000000000000000_0000000000001234`. */
function offsetIn(text: unknown): number {
  const bytes = typeof text === 'string' ? Number(text.split('_')[1]) : Number.NaN;
  if (!Number.isSafeInteger(bytes)) throw new Failure(`${JSON.stringify(text)} is no offset of the reference server`);
  return bytes;
}

function sourceOf(folder: string, all: ReadonlyMap<string, Facts>, path: string): ImportSource {
  const facts = all.get(path);
  if (facts === undefined) throw new Failure(`there is no stream ${path} in ${folder}`);
  const { contentType, isClosed, createHeaders, file } = facts;
  const isJson = isJsonType(contentType);
  const messages = (): AsyncGenerator<Buffer, void> => messagesOf(folder, all, facts, Infinity);
  return {
    ...{ label: `${path} of ${folder}`, contentType, isJson, createHeaders, total: undefined },
    // The file has a name of its own for every stream that had this path.
    identity: `reference:${file}`,
    async *read(from) {
      if (isJson) yield* without(from, recordsOf(messages()));
      else yield* bytesWithout(from, messages());
      return isClosed;
    },
  };
}

/** Of a fork: what it inherits up to where it begins, which may be inherited too, then its own. */
async function* messagesOf(
  folder: string,
  all: ReadonlyMap<string, Facts>,
  { fork, file, path }: Facts,
  to: number,
): AsyncGenerator<Buffer, void> {
  let at = 0;
  if (fork !== undefined) {
    const origin = all.get(fork.of);
    if (origin === undefined) throw new Failure(`${path} is a fork of ${fork.of}, which is not there`);
    yield* messagesOf(folder, all, origin, Math.min(fork.at, to));
    at = fork.at;
  }
  for await (const message of framesOf(join(folder, 'streams', file))) {
    at += FRAME_BYTES + message.length;
    if (at > to) return;
    yield message;
  }
}

/** A frame that is not whole is one that was never acknowledged: that server ignores it too. */
async function* framesOf(path: string): AsyncGenerator<Buffer, void> {
  let held: Buffer = Buffer.alloc(0);
  try {
    for await (const piece of createReadStream(path, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
      held = held.length === 0 ? piece : Buffer.concat([held, piece]);
      let at = 0;
      while (held.length - at >= HEAD_BYTES) {
        const size = held.readUInt32BE(at);
        if (size > MESSAGE_BYTES_MAX) throw new Failure(`${path} is damaged: a message of ${size} bytes`);
        if (held.length - at < FRAME_BYTES + size) break;
        yield held.subarray(at + HEAD_BYTES, at + HEAD_BYTES + size);
        at += FRAME_BYTES + size;
      }
      held = held.subarray(at);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(`${path} cannot be read: ${reasonOf(error)}`);
  }
}

const [OPEN, CLOSE] = [Buffer.from('['), Buffer.from(']')];
const COMMA = 0x2c;

/** A message of a JSON stream is `value,value,`. */
async function* recordsOf(messages: AsyncIterable<Buffer>): AsyncGenerator<readonly Unit[], void> {
  for await (const message of messages) {
    const plain = message.at(-1) === COMMA ? message.subarray(0, -1) : message;
    yield valuesOf(Buffer.concat([OPEN, plain, CLOSE]));
  }
}
