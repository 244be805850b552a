// A server under strace, and what its disk may hold when the power fails at any line of the trace.
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { Random } from '../support/random.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { DiskImage } from './disk-image.ts';
import { straced } from './strace.ts';
import { type Call, parseTrace, timesOf } from './trace.ts';

const DISK_CALLS = 'openat,rename,unlink,mkdir,rmdir,ftruncate,pwrite64,pwritev,write,writev,lseek,fdatasync,fsync';
const CALLS = `${DISK_CALLS},sendto,sendmsg`;
/** Longer writes are not shown in full, which the image says. */
const SHOWN_BYTES = 4 * 1024 * 1024;

/** Images of a long run, over all files of power losses; undefined: a fixed, small set. */
const IMAGES = process.env['IMAGES'];

/** How many images a test takes: `fixed` of them, or its share in a long run. */
export const imagesOf = (fixed: number, share: number): number =>
  IMAGES === undefined ? fixed : Math.ceil(Number(IMAGES) * share);

/** Some text as strace -xx shows it. */
const shown = (text: string): string => [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16)}`).join('');

export class Recording {
  /** A folder of its own, with all images. */
  readonly folder: string = temporaryFolder('power');
  readonly #dataDir: string;
  #calls: readonly Call[] = [];
  #disk: DiskImage | undefined;
  #times: readonly number[] = [];
  #images = 0;

  /** The server has this data directory; everything in it is on disk now. */
  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    mkdirSync(this.#before);
    if (existsSync(dataDir)) cpSync(dataDir, this.#before, { recursive: true });
    else mkdirSync(dataDir);
  }

  get #before(): string {
    return join(this.folder, 'before');
  }

  get #file(): string {
    return join(this.folder, 'trace');
  }

  /** In front of the command of the server. */
  get wrapper(): string[] {
    return straced(this.#file, '-tt', '-yy', '-xx', '-s', String(SHOWN_BYTES), '-e', `trace=${CALLS}`);
  }

  /** The server has ended. */
  read(): void {
    const trace = readFileSync(this.#file, 'utf8');
    rmSync(this.#file);
    this.#calls = parseTrace(trace);
    this.#times = timesOf(trace);
    this.#disk = new DiskImage(this.#before, this.#dataDir);
    for (const call of this.#calls) this.#disk.take(call);
  }

  /** Lines at which answers that begin so began to leave, in order. */
  answers(start: string): number[] {
    const sent = this.#calls.filter(({ name, args }) => args.includes(shown(start)) && !name.startsWith('p'));
    return sent.map((call) => call.start);
  }

  /** Lines at which something happened to the disk. */
  get diskLines(): readonly number[] {
    return this.#disk?.lines ?? [];
  }

  get lastLine(): number {
    return this.#calls.at(-1)?.end ?? 0;
  }

  timeOf(line: number): number {
    return this.#times[line] ?? Infinity;
  }

  /** The first line that was written after this time. */
  lineAt(timeMs: number): number {
    const line = this.#times.findIndex((time) => time > timeMs);
    return line < 0 ? this.lastLine + 1 : line;
  }

  /** Most at a call that reaches the disk, some anywhere; not before `from`. */
  momentAfter(from: number, random: Random): number {
    if (random.chance(0.1)) return random.int(from, this.lastLine);
    const first = this.diskLines.findIndex((line) => line >= from);
    return (this.diskLines[random.int(Math.max(first, 0), this.diskLines.length - 1)] ?? from) + random.int(0, 1);
  }

  /** A data directory as the power may leave it at that line. */
  image(line: number, random: Random): string {
    const target = join(this.folder, `image-${++this.#images}`);
    mkdirSync(target);
    this.#disk?.leave(target, line, random);
    return target;
  }

  remove(): void {
    removeFolder(this.folder);
  }
}
