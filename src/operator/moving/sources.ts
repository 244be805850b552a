/** Resolves --from and --to of an import: which streams to read, and where each goes. */
import { statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Failure, UsageError, reasonOf } from '../../nodes/failure.ts';
import type { Input } from '../streams/pipes.ts';
import { DEFAULT_BUCKET, FLAT_ROUTE, type NamedStream, parseStreamName, streamName } from '../streams/stream-name.ts';
import { isExportFolder, readIndex } from './export-folder.ts';
import { type HttpSourceOptions, httpSource } from './http-source.ts';
import { type ImportSource, fileSource } from './import-source.ts';

export interface SourceOptions {
  readonly from: string;
  readonly to: string | undefined;
  readonly contentType: string | undefined;
  readonly identity: string | undefined;
  readonly closes: boolean;
  readonly http: HttpSourceOptions;
  readonly input: Input;
}

export interface Placed {
  readonly name: NamedStream;
  readonly source: ImportSource;
}

const JSON_TYPE = 'application/json';
const TEXT_TYPE = 'text/plain; charset=utf-8';
const BYTES_TYPE = 'application/octet-stream';

export async function sourcesOf(options: SourceOptions): Promise<Placed[]> {
  const { from } = options;
  if (/^https?:\/\//i.test(from)) return [await fromServer(options)];
  if (from === '-' || !isFolder(from)) return [await fromFile(options)];
  for (const flag of ['contentType', 'identity'] as const)
    if (options[flag] !== undefined) throw new UsageError(`import: ${from} is a folder, which says that itself`);
  if (isExportFolder(from)) return await fromExport(options);
  throw new Failure(`${from} is not the folder of an export`);
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (error) {
    throw new Failure(`${path} cannot be read: ${reasonOf(error)}`);
  }
}

async function fromFile({ from, to, contentType, identity, closes, input }: SourceOptions): Promise<Placed> {
  if (to === undefined) throw new UsageError(`import of ${from === '-' ? 'stdin' : from} needs --to BUCKET/STREAM`);
  const source = await fileSource({
    path: from,
    contentType: contentType ?? typeOf(from),
    identity,
    isClosed: closes,
    createHeaders: {},
    input,
  });
  return { name: parseStreamName(to), source };
}

/** By its ending; stdin is JSON Lines. */
function typeOf(path: string): string {
  if (path === '-' || /\.(jsonl|ndjson)$/i.test(path)) return JSON_TYPE;
  return /\.(txt|log|md|csv)$/i.test(path) ? TEXT_TYPE : BYTES_TYPE;
}

async function fromServer({ from, to, http }: SourceOptions): Promise<Placed> {
  if (!URL.canParse(from)) throw new UsageError(`${from} is not an address`);
  const { pathname } = new URL(from);
  return { name: placeOf(decodedPath(from, pathname), to), source: await httpSource(from, http) };
}

function decodedPath(from: string, path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw new UsageError(`${from}: its path has an escape (%) that is not one`);
  }
}

async function fromExport({ from, to, input }: SourceOptions): Promise<Placed[]> {
  const { bucket, streams } = readIndex(from);
  if (to?.includes('/') === true) throw new UsageError(`import: ${from} holds a bucket; give --to BUCKET`);
  const placed: Placed[] = [];
  for (const { stream, file, contentType, isClosed, createHeaders } of streams) {
    const path = join(from, file);
    const identity = `file:${resolve(path)}`;
    const source = await fileSource({ path, contentType, identity, isClosed, createHeaders, input });
    placed.push({ name: streamName(to ?? bucket, stream), source });
  }
  return placed;
}

/** Places a path of another server. `to` may name the bucket only; the stream is then all behind the route. */
function placeOf(path: string, to: string | undefined): NamedStream {
  if (to?.includes('/') === true) return parseStreamName(to);
  const plain = path.startsWith(FLAT_ROUTE) ? path.slice(FLAT_ROUTE.length) : path.replace(/^\/+/, '');
  if (plain === '') throw new UsageError('import: that address names no stream; --to gives one');
  if (to !== undefined) return streamName(to, plain);
  return plain.includes('/') ? parseStreamName(plain) : streamName(DEFAULT_BUCKET, plain);
}
