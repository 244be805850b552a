/** An import reads from a source. Each kind of source has a file beside this one. */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Failure, reasonOf } from '../../nodes/failure.ts';
import { BODY_BYTES_MAX, checkedRecords } from '../streams/records.ts';
import { type Input, linesOf, piecesOf } from '../streams/pipes.ts';
import { isJsonType } from '../streams/reading.ts';

/** A record of a JSON stream; bytes of any other one. */
export type Unit = Buffer;

export interface ImportSource {
  /** The name of the source in messages. */
  readonly label: string;
  /** Tells it from other sources, in every run. */
  readonly identity: string;
  readonly contentType: string;
  readonly isJson: boolean;
  /** The lifetime that the new stream gets. */
  readonly createHeaders: Readonly<Record<string, string>>;
  /** The size in records or bytes, if it is known before the source is read. */
  readonly total: number | undefined;
  /** Yields everything from a position on, in records or bytes. Returns whether the stream is closed there. */
  read(from: number): AsyncGenerator<readonly Unit[], boolean>;
}

/** Headers with which a copy of a stream is made: the lifetimes among its headers. Other members are left out. */
export function lifetimeIn(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const lifetime: Record<string, string> = {};
  for (const name of ['stream-ttl', 'stream-expires-at']) {
    const value = headers[name];
    if (typeof value === 'string') lifetime[name] = value;
  }
  return lifetime;
}

export interface FileOptions {
  /** `-` for stdin. */
  readonly path: string;
  readonly contentType: string;
  /** Identifies the source in place of its path. */
  readonly identity: string | undefined;
  readonly isClosed: boolean;
  readonly createHeaders: Readonly<Record<string, string>>;
  readonly input: Input;
}

/** JSON Lines where the type is JSON, else the bytes as they are. */
export async function fileSource(options: FileOptions): Promise<ImportSource> {
  const { path, contentType, isClosed, createHeaders, input } = options;
  const isJson = isJsonType(contentType);
  const label = path === '-' ? 'stdin' : path;
  const total = path === '-' || isJson ? undefined : await sizeOf(path);
  const identity = options.identity ?? (path === '-' ? 'stdin' : `file:${resolve(path)}`);
  return {
    ...{ label, identity, contentType, isJson, createHeaders, total },
    async *read(from) {
      if (isJson) yield* without(from, checkedRecords(linesOf(piecesOf(path, input))));
      else if (path === '-') yield* bytesWithout(from, piecesOf(path, input));
      else for await (const piece of piecesOf(path, input, from)) yield [piece];
      return isClosed;
    },
  };
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    throw new Failure(`${path} cannot be read: ${reasonOf(error)}`);
  }
}

/** All but the first `skipped` records. */
export async function* without(
  skipped: number,
  all: AsyncIterable<readonly Unit[]>,
): AsyncGenerator<readonly Unit[], void> {
  let seen = 0;
  for await (const some of all) {
    const rest = some.slice(Math.max(0, skipped - seen));
    seen += some.length;
    if (rest.length > 0) yield rest;
  }
}

/** All but the first `skipped` bytes. */
export async function* bytesWithout(
  skipped: number,
  all: AsyncIterable<Buffer>,
): AsyncGenerator<readonly Unit[], void> {
  let seen = 0;
  for await (const piece of all) {
    const rest = piece.subarray(Math.max(0, skipped - seen));
    seen += piece.length;
    if (rest.length > 0) yield [rest];
  }
}

/** Bytes in pieces of the size of a request. */
export function* piecesOfSize(unit: Buffer): Generator<Buffer, void> {
  for (let at = 0; at < unit.length; at += BODY_BYTES_MAX) yield unit.subarray(at, at + BODY_BYTES_MAX);
}

/** A short name for something long. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
