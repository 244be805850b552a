/** Files and stdin as bytes, without holding more than a piece of them. */
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { Failure, Interrupted, UsageError, reasonOf } from '../../nodes/failure.ts';
import type { Io, Output } from '../io.ts';

const LINE_END = 0x0a;
const CARRIAGE_RETURN = 0x0d;
/** A request's body has at most this many. */
const LINE_BYTES_MAX = 32 * 1024 * 1024;
/** A piece of tiny lines has millions, and each is a Buffer of a hundred bytes. */
const LINES_MAX = 10_000;

export type Input = Pick<Io, 'stdin' | 'signal'>;

/** The bytes of a file from a position on, or those of stdin. */
export async function* piecesOf(path: string, { stdin, signal }: Input, from = 0): AsyncGenerator<Buffer, void> {
  // A start, even 0, is a seek, which pipes refuse: `--file <(...)`.
  const start = from === 0 ? {} : { start: from };
  const input = path === '-' ? stdin : createReadStream(path, { ...start, highWaterMark: 1024 * 1024 });
  const end = (): void => void input.destroy();
  signal.addEventListener('abort', end, { once: true });
  try {
    for await (const piece of input as AsyncIterable<Buffer>) yield piece;
  } catch (error) {
    if (signal.aborted) throw new Interrupted();
    throw new Failure(`${path === '-' ? 'stdin' : path} cannot be read: ${reasonOf(error)}`);
  } finally {
    signal.removeEventListener('abort', end);
    input.destroy();
  }
  if (signal.aborted) throw new Interrupted();
}

/** The lines of each piece, some at a time, without their ends; the last one may have none. Blank ones are left out. */
export async function* linesOf(pieces: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer[], void> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  const take = (part: Buffer): Buffer | undefined => {
    const line = held.length === 0 ? part : Buffer.concat([...held, part]);
    held = [];
    heldBytes = 0;
    const plain = line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line;
    return isBlank(plain) ? undefined : plain;
  };
  for await (const piece of pieces) {
    let lines: Buffer[] = [];
    let start = 0;
    for (let end = piece.indexOf(LINE_END); end >= 0; end = piece.indexOf(LINE_END, start)) {
      const line = take(piece.subarray(start, end));
      if (line !== undefined) lines.push(line);
      start = end + 1;
      if (lines.length < LINES_MAX) continue;
      yield lines;
      lines = [];
    }
    const rest = piece.subarray(start);
    if (rest.length > 0) held.push(rest);
    heldBytes += rest.length;
    if (heldBytes > LINE_BYTES_MAX) throw new Failure('a line is longer than the 32 MiB that a record may have');
    if (lines.length > 0) yield lines;
  }
  const last = take(Buffer.alloc(0));
  if (last !== undefined) yield [last];
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 0x20 || byte === 0x09);
}

export interface Question {
  readonly text: string;
  /** The answer that confirms. */
  readonly expected: string;
  /** A script gives this flag instead of an answer. */
  readonly flag: string;
}

/** Asks a person on the terminal. */
export async function confirm(
  { stdin, err, signal }: Input & { readonly err: Output },
  { text, expected, flag }: Question,
): Promise<boolean> {
  if (stdin.isTTY !== true || !err.isTerminal)
    throw new UsageError(`this asks first, and there is no terminal: give ${flag}`);
  const prompt = createInterface({ input: stdin, output: err.sink });
  try {
    // At the end of the input there is no answer.
    const ended = once(prompt, 'close').then(() => '');
    return (await Promise.race([prompt.question(`${text} `, { signal }), ended])).trim() === expected;
  } catch (error) {
    throw signal.aborted ? new Interrupted() : error;
  } finally {
    prompt.close();
  }
}

/** A file that is written piece by piece, from a position on. */
export class OutputFile {
  readonly #path: string;
  readonly #file: FileHandle;
  #at: number;

  private constructor(path: string, file: FileHandle, at: number) {
    this.#path = path;
    this.#file = file;
    this.#at = at;
  }

  static async open(path: string, from: number): Promise<OutputFile> {
    return new OutputFile(path, await telling(path, open(path, from === 0 ? 'w' : 'r+', 0o600)), from);
  }

  async write(bytes: Buffer): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await telling(
        this.#path,
        this.#file.write(bytes, done, bytes.length - done, this.#at + done),
      );
      done += bytesWritten;
    }
    this.#at += bytes.length;
  }

  /** All that was written is on disk. */
  async sync(): Promise<void> {
    await telling(this.#path, this.#file.datasync());
  }

  async close(): Promise<void> {
    await telling(this.#path, this.#file.close());
  }
}

async function telling<T>(path: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new Failure(`${path} cannot be written: ${reasonOf(error)}`);
  }
}
