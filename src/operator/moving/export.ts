/**
 * Streams into files: the bytes of a stream, or a line for each record of a JSON stream, which is
 * how it is stored. So the length of a file is a position in its stream, and an export that was cut
 * off, or is repeated later, goes on at the end of the file.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { caughtCode } from '../../base/caught.ts';
import { Failure, reasonOf } from '../../nodes/failure.ts';
import { OutputFile } from '../streams/pipes.ts';
import { type StreamFacts, offsetText, readAll, readPiece } from '../streams/reading.ts';
import type { StreamClient } from '../streams/stream-client.ts';
import type { NamedStream } from '../streams/stream-name.ts';

const LINE_END = 0x0a;
/** As much of the end of a file is compared with the stream. */
const COMPARED_BYTES = 64 * 1024;
/** A record has at most as many, and its line end. */
const LAST_LINE_BYTES_MAX = 64 * 1024 * 1024;

/** Bytes that were written, and those that were there. */
export interface Exported {
  readonly brought: number;
  readonly before: number;
}

export async function exportToFile(
  client: StreamClient,
  name: NamedStream,
  facts: StreamFacts,
  path: string,
  tell: (bytes: number) => void,
): Promise<Exported> {
  const { floor, tail } = facts;
  const before = await resume(client, name, facts, path);
  const file = await OutputFile.open(path, before);
  let bytes = before;
  try {
    for await (const piece of readAll(client, name, floor + before, tail)) {
      await file.write(piece.bytes);
      bytes += piece.bytes.length;
      // An export relies on this: bytes and offsets agree.
      if (floor + bytes !== piece.next) throw new Failure(`${name.text} was changed while it was read; try again`);
      tell(bytes);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return { brought: bytes - before, before };
}

/** How much of the file is the beginning of the stream; what a kill left half-written is cut off. */
async function resume(client: StreamClient, name: NamedStream, facts: StreamFacts, path: string): Promise<number> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r+');
    const { size } = await file.stat();
    const last = facts.isJson ? await lastLine(file, size) : await lastBytes(file, size);
    const end = last.start + last.bytes.length;
    if (end > 0) await compare(client, name, facts, path, last);
    if (end < size) await file.truncate(end);
    return end;
  } catch (error) {
    if (caughtCode(error) === 'ENOENT' && file === undefined) return 0;
    if (error instanceof Failure) throw error;
    throw new Failure(`${path} cannot be written: ${reasonOf(error)}`);
  } finally {
    // The next write begins where it was cut off.
    await file?.close().catch(() => undefined);
  }
}

interface Part {
  readonly start: number;
  readonly bytes: Buffer;
}

async function lastBytes(file: FileHandle, size: number): Promise<Part> {
  return await partOf(file, Math.max(0, size - COMPARED_BYTES), size);
}

/** The last line that has its end. */
async function lastLine(file: FileHandle, size: number): Promise<Part> {
  for (let bytes = COMPARED_BYTES; ; bytes *= 4) {
    const part = await partOf(file, Math.max(0, size - bytes), size);
    const end = part.bytes.lastIndexOf(LINE_END) + 1;
    const start = end < 2 ? 0 : part.bytes.lastIndexOf(LINE_END, end - 2) + 1;
    const isWhole = start > 0 || part.start === 0;
    if (isWhole) return { start: part.start + start, bytes: part.bytes.subarray(start, end) };
    if (bytes > LAST_LINE_BYTES_MAX) throw new Failure('the file that is there has lines that no record has');
  }
}

async function partOf(file: FileHandle, start: number, end: number): Promise<Part> {
  const bytes = Buffer.alloc(end - start);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
  return { start, bytes: bytes.subarray(0, bytesRead) };
}

/** A file of another stream, or of one that was deleted and made again, is left alone. */
async function compare(
  client: StreamClient,
  name: NamedStream,
  { floor, tail, isJson }: StreamFacts,
  path: string,
  { start, bytes }: Part,
): Promise<void> {
  const wrong = new Failure(`${path} is not the beginning of ${name.text}; remove it, or take another name`);
  const from = floor + start;
  if (from + bytes.length > tail) throw wrong;
  const query = `offset=${offsetText(from)}&max_bytes=${isJson ? 1 : bytes.length}`;
  const { bytes: stored } = await readPiece(client, name, query).catch((error: unknown) => {
    // An offset inside a record.
    throw error instanceof Failure && error.message.includes('answered 400') ? wrong : error;
  });
  if (!stored.equals(bytes)) throw wrong;
}
