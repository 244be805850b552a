/**
 * Uploaded data that is not yet validated. uWebSockets.js reads a socket as long as it delivers full buffers (512 KiB),
 * even when paused, so a client on the same machine has sent hundreds of megabytes before the first one is in the log.
 * Therefore anything beyond some megabytes waits in a file, and memory stays bounded.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readSync, statfsSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { caughtCode, caughtMessage } from '../../base/caught.ts';

/** Error codes of a full file system or an exceeded user quota. */
const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Buffered data cannot be kept, or not be read back; the message is a sentence. */
export class SpoolError extends Error {
  readonly code: 'DISK_FULL' | 'INTERNAL';

  constructor(code: 'DISK_FULL' | 'INTERNAL', sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.code = code;
  }
}

/**
 * More than the system holds for a socket (6 MiB unless told otherwise) and what arrives while that is read. So no upload
 * over a network comes to the file, whose calls hold up all other requests of the node when its disk is slow.
 */
const HELD_BYTES_MAX = 16 * 1024 * 1024;
/** All uploads of a node together: a tool sends four at once. */
const NODE_HELD_BYTES_MAX = 4 * HELD_BYTES_MAX;
/** Small pieces share a block, because each of their own would take 200 bytes more. */
const BLOCK_BYTES = 64 * 1024;
const READ_BYTES = 512 * 1024;

/** The memory in which uploads of a node wait. */
export class SpoolMemory {
  #freeBytes = NODE_HELD_BYTES_MAX;

  take(bytes: number): boolean {
    if (bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#freeBytes += bytes;
  }
}

interface Block {
  readonly bytes: Uint8Array;
  end: number;
}

export class Spool {
  readonly #directory: string;
  readonly #memory: SpoolMemory;
  #held: Block[] = [];
  #heldBytes = 0;
  /** Undefined: nothing is in a file. */
  #file: number | undefined;
  #written = 0;
  #read = 0;
  readonly #roomOf: (directory: string) => number;
  #roomBytes = 0;

  /** `roomOf`: bytes that the file may have, evaluated when it is created. */
  constructor(directory: string, memory: SpoolMemory, roomOf = halfOfFree) {
    this.#directory = directory;
    this.#memory = memory;
    this.#roomOf = roomOf;
  }

  get isEmpty(): boolean {
    return this.#held.length === 0 && this.#file === undefined;
  }

  /** The piece may be reused afterwards. After a SpoolError only close() is allowed. */
  push(piece: Uint8Array): void {
    if (this.#file === undefined && this.#hold(piece)) return;
    this.#guarded('cannot be kept', () => this.#write(piece));
  }

  /** The next piece in order of arrival; undefined when nothing waits. Throws a SpoolError. */
  shift(): Uint8Array | undefined {
    const block = this.#held.shift();
    if (block !== undefined) {
      this.#give(block.bytes.length);
      return block.bytes.subarray(0, block.end);
    }
    if (this.#file === undefined) return undefined;
    const bytes = new Uint8Array(Math.min(READ_BYTES, this.#written - this.#read));
    const file = this.#file;
    const size = this.#guarded('cannot be read', () => readSync(file, bytes, 0, bytes.length, this.#read));
    this.#read += size;
    if (this.#read === this.#written) this.close();
    return bytes.subarray(0, size);
  }

  close(): void {
    this.#held = [];
    this.#give(this.#heldBytes);
    const file = this.#file;
    if (file === undefined) return;
    this.#file = undefined;
    this.#written = 0;
    this.#read = 0;
    try {
      closeSync(file);
    } catch {
      // It is closed all the same, and nothing of it is needed.
    }
  }

  #hold(piece: Uint8Array): boolean {
    const last = this.#held.at(-1);
    if (last !== undefined && last.end + piece.length <= last.bytes.length) {
      last.bytes.set(piece, last.end);
      last.end += piece.length;
      return true;
    }
    const size = Math.max(piece.length, BLOCK_BYTES);
    if (this.#heldBytes + size > HELD_BYTES_MAX || !this.#memory.take(size)) return false;
    this.#heldBytes += size;
    const bytes = new Uint8Array(size);
    bytes.set(piece);
    this.#held.push({ bytes, end: piece.length });
    return true;
  }

  #give(bytes: number): void {
    this.#heldBytes -= bytes;
    this.#memory.give(bytes);
  }

  #write(piece: Uint8Array): void {
    this.#file ??= this.#open();
    if (this.#written + piece.length > this.#roomBytes) {
      const waits = `what waits has ${this.#written} bytes`;
      throw new SpoolError('DISK_FULL', `${waits}, and the volume has no room for more besides the log`);
    }
    // Behind the piece before: reads name their own position.
    writeFileSync(this.#file, piece);
    this.#written += piece.length;
  }

  /** Unlinked: the file disappears with this process, however that ends. */
  #open(): number {
    this.#roomBytes = this.#roomOf(this.#directory);
    const path = join(this.#directory, `import-${randomBytes(8).toString('hex')}.tmp`);
    const file = openSync(path, 'wx+', 0o600);
    try {
      unlinkSync(path);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    return file;
  }

  #guarded<T>(what: string, action: () => T): T {
    try {
      return action();
    } catch (error) {
      if (error instanceof SpoolError) throw error;
      const [code, message] = [caughtCode(error), caughtMessage(error)];
      const sentence = `what waits of the upload in ${this.#directory} ${what} (${message})`;
      throw new SpoolError(FULL.has(code) ? 'DISK_FULL' : 'INTERNAL', sentence, { cause: error });
    }
  }
}

/** The rest is for the log, which receives all of the data too, and for other users of the disk. */
function halfOfFree(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return (bavail * bsize) / 2;
}
