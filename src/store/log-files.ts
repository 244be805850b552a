/**
 * The folder of a shard's segment files. A segment has its full size and is on disk before it gets its name,
 * so a write into it changes no metadata of the file system: `fdatasync` then costs one flush and needs no free space.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readSync,
  readdirSync,
  statSync,
  writeSync,
} from 'node:fs';
import { renameSync, rmSync, unlinkSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { caughtCode, caughtMessage } from '../base/caught.ts';
import { freshBytes } from './log-record.ts';

/** One segment; the simulator has its own. Every method throws what the system says. */
export interface SegmentFile {
  readonly name: string;
  readonly bytes: number;
  /** The system's number; undefined in a simulation. */
  readonly descriptor?: number;
  /** `bytes` from `at`; the file is that long. */
  read(at: number, bytes: number): Uint8Array;
  write(at: number, bytes: Uint8Array): void;
  /** Puts all writes on disk. After an error nothing is known about them, so it must not be repeated. */
  sync(): void;
  close(): void;
}

export interface LogFolder {
  /** Segments that were made completely. */
  names(): string[];
  open(name: string): SegmentFile;
  /** On disk, with its name and fresh for `log`, when it returns. */
  create(name: string, bytes: number, log: bigint): SegmentFile;
  /** The same in the background. Undefined: there is no room now. */
  createAhead(name: string, bytes: number, log: bigint): Promise<SegmentFile | Error | undefined>;
  remove(name: string): void;
  /** Moves the folder with all segments out of the way, beside what was moved before; returns where to. */
  setAside(): string;
}

const SEGMENT_NAME = /^segment-\d+$/;
/** The name of a segment that is being made ends in this. */
const NEW = '.new';
/** Written at once when a segment is made. */
const FILL_BYTES = 256 * 1024;

/** Nothing is known about the last record: the process has to end, and its next start finds out. */
export class LogSyncError extends Error {}

export class DiskFolder implements LogFolder {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
    this.#make();
  }

  #make(): void {
    try {
      mkdirSync(this.#path, { mode: 0o700 });
      syncPath(dirname(this.#path));
    } catch (error) {
      if (caughtCode(error) !== 'EEXIST') throw error;
    }
  }

  names(): string[] {
    const names = readdirSync(this.#path);
    for (const name of names) if (name.endsWith(NEW)) unlinkSync(join(this.#path, name));
    return names.filter((name) => SEGMENT_NAME.test(name));
  }

  open(name: string): SegmentFile {
    return new DiskFile(join(this.#path, name));
  }

  create(name: string, bytes: number, log: bigint): SegmentFile {
    const path = join(this.#path, name);
    const fill = freshBytes(log, FILL_BYTES);
    const descriptor = openSync(`${path}${NEW}`, 'w', 0o600);
    try {
      for (let at = 0; at < bytes; at += FILL_BYTES) writeAll(descriptor, at, fill.subarray(0, bytes - at));
      fsyncSync(descriptor);
    } catch (error) {
      rmSync(`${path}${NEW}`, { force: true });
      throw error;
    } finally {
      closeSync(descriptor);
    }
    return this.#finish(path);
  }

  async createAhead(name: string, bytes: number, log: bigint): Promise<SegmentFile | Error | undefined> {
    const path = join(this.#path, name);
    const fill = freshBytes(log, FILL_BYTES);
    try {
      const handle = await open(`${path}${NEW}`, 'w', 0o600);
      try {
        for (let at = 0; at < bytes; at += FILL_BYTES) await handle.writeFile(fill.subarray(0, bytes - at));
        await handle.sync();
      } finally {
        await handle.close();
      }
      return this.#finish(path);
    } catch (error) {
      rmSync(`${path}${NEW}`, { force: true });
      // The append that needs the segment makes it then, if there is room, and a file may be opened.
      const isLater = isOutOfSpace(error) || ['EMFILE', 'ENFILE'].includes(caughtCode(error));
      return isLater ? undefined : named(name, 'made', error);
    }
  }

  remove(name: string): void {
    unlinkSync(join(this.#path, name));
  }

  setAside(): string {
    const aside = freeAside(this.#path);
    renameSync(this.#path, aside);
    this.#make();
    return basename(aside);
  }

  #finish(path: string): SegmentFile {
    renameSync(`${path}${NEW}`, path);
    syncPath(this.#path);
    return new DiskFile(path);
  }
}

class DiskFile implements SegmentFile {
  readonly name: string;
  readonly bytes: number;
  readonly descriptor: number;
  #isClosed = false;

  constructor(path: string) {
    this.name = basename(path);
    this.bytes = statSync(path).size;
    this.descriptor = openSync(path, 'r+');
  }

  read(at: number, bytes: number): Uint8Array {
    // Not from Buffer's pool: what is kept of it would keep 8 KiB of others.
    const into = new Uint8Array(bytes);
    for (let done = 0; done < bytes;) {
      const read = readSync(this.descriptor, into, done, bytes - done, at + done);
      if (read === 0) throw new Error(`${this.name} of the log ends at ${at + done}, before ${at + bytes}`);
      done += read;
    }
    return into;
  }

  write(at: number, bytes: Uint8Array): void {
    try {
      writeAll(this.descriptor, at, bytes);
    } catch (error) {
      throw named(this.name, 'written', error);
    }
  }

  sync(): void {
    try {
      fdatasyncSync(this.descriptor);
    } catch (error) {
      // The system may have dropped what it could not write, so a second sync could succeed without it.
      throw new LogSyncError(`${this.name} of the log could not be synced: ${caughtMessage(error)}`, { cause: error });
    }
  }

  /** Once: the system gives the number of a closed file to the next one that is opened. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.descriptor);
  }
}

export function isOutOfSpace(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(caughtCode(error));
}

/** The system's error with the file that it is about. */
function named(name: string, what: string, error: unknown): Error {
  const message = `${name} of the log could not be ${what}: ${caughtMessage(error)}`;
  return Object.assign(new Error(message, { cause: error }), { code: caughtCode(error) });
}

function writeAll(descriptor: number, at: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(descriptor, bytes, done, bytes.length - done, at + done);
}

/** A name for what is damaged, beside it. Earlier ones stay. */
export function freeAside(path: string): string {
  let aside = `${path}.damaged`;
  for (let i = 2; existsSync(aside); i++) aside = `${path}.damaged-${i}`;
  return aside;
}

/** A file, or a folder: a new name is on disk once its folder is synced. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
