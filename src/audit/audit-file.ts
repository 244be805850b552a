/**
 * A file of its own for the lines. They wait in memory for the moment that a write takes, so that a slow disk keeps no
 * request waiting; what waits is bounded. While the file cannot be written, up to the bound waits for the next attempt.
 * More lines are lost and counted, and the file says so as soon as it can: nothing is missing silently.
 */
import { close, closeSync, fstat, open, openSync, write as writeTo, writeSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Runtime } from '../base/runtime.ts';

/** Some 3,000 lines: what a minute of steady deletions leaves, or the flood of a moment. */
const WAITING_BYTES_MAX = 1024 * 1024;
const RETRY_MS = 1000;
/** A renamed file gets its last line this late at most; SIGHUP looks at once. */
const LOOK_MS = 1000;
/** A disk that does not answer must not keep the node from stopping. */
const CLOSE_MS = 2000;
const OWNER_ONLY = 0o600;

const write = promisify(writeTo);
const [openFile, closeFile, statOf] = [promisify(open), promisify(close), promisify(fstat)];

export interface AuditFileOptions {
  readonly path: string;
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'setTimer'>;
  /** The file can not be written, or can be again (undefined). Called once for each change. */
  readonly troubled: (error: unknown) => void;
  /** The line that tells of lost ones. */
  readonly lostLine: (lines: number) => string;
}

export class AuditFile {
  readonly #options: AuditFileOptions;
  /** Waiting, oldest first. */
  #lines: Buffer[] = [];
  #bytes = 0;
  #fd: number;
  /** Lost since the last line that told of it. */
  #untold = 0;
  #nextLookMs = 0;
  /** A rotation was announced: the path is looked at before the next line, whatever the time. */
  #mustLook = false;
  #writing: Promise<void> | undefined;
  #cancelRetry: (() => void) | undefined;
  #isTroubled = false;
  #isClosed = false;
  readonly counters = { lost: 0, errors: 0 };

  /** Throws when the file cannot be opened. */
  constructor(options: AuditFileOptions) {
    this.#options = options;
    this.#fd = openSync(options.path, 'a', OWNER_ONLY);
  }

  add(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#isClosed || this.#bytes + bytes.length > WAITING_BYTES_MAX) {
      this.counters.lost++;
      this.#untold++;
      return;
    }
    this.#lines.push(bytes);
    this.#bytes += bytes.length;
    if (!this.#isTroubled) this.#begin();
  }

  /** The path may name another file now. */
  reopen(): void {
    this.#mustLook = true;
    this.#begin();
  }

  /** Writes what waits, as far as the disk takes it, and closes the file. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#begin();
    const { runtime } = this.#options;
    let cancel: (() => void) | undefined;
    const hangs = new Promise<'hangs'>((resolve) => (cancel = runtime.setTimer(CLOSE_MS, () => resolve('hangs'))));
    const outcome = await Promise.race([this.#writing, hangs]);
    cancel?.();
    this.#isClosed = true;
    this.#cancelRetry?.();
    // A write that hangs still has it.
    if (outcome !== 'hangs') closeSync(this.#fd);
  }

  /** The process ends at once: what waits is written in this call. */
  flush(): void {
    if (this.#isClosed) return;
    try {
      for (const line of this.#lines.splice(0)) writeSync(this.#fd, line);
    } catch {
      // The process ends, and the log has told of the file before or cannot.
    }
  }

  #begin(): void {
    if (this.#isClosed || this.#writing !== undefined) return;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    // After this turn of the event loop: lines of one turn leave in one write.
    this.#writing = Promise.resolve().then(() => this.#writeAll());
  }

  /** Never rejects. */
  async #writeAll(): Promise<void> {
    try {
      // A rotation that comes while lines are written is looked at before the next ones.
      do {
        await this.#look();
        if (this.#lines.length > 0) await this.#writeSome();
        if (this.#untold > 0) this.#tellLost();
      } while (this.#lines.length > 0 || this.#mustLook);
      this.#trouble(undefined);
    } catch (error) {
      this.counters.errors++;
      this.#trouble(error);
      this.#cancelRetry = this.#options.runtime.setTimer(RETRY_MS, () => this.#begin());
    } finally {
      this.#writing = undefined;
    }
  }

  /** Opens the file again when its path names another one, or none: the one before was moved by a rotation. */
  async #look(): Promise<void> {
    const { path, runtime } = this.#options;
    if (!this.#mustLook && runtime.monotonicMs() < this.#nextLookMs) return;
    this.#mustLook = false;
    this.#nextLookMs = runtime.monotonicMs() + LOOK_MS;
    const opened = await statOf(this.#fd);
    const named = await stat(path).catch(() => undefined);
    if (named?.dev === opened.dev && named.ino === opened.ino) return;
    const before = this.#fd;
    this.#fd = await openFile(path, 'a', OWNER_ONLY);
    await closeFile(before);
  }

  /** Takes off what was written, which on a full disk may end within a line. */
  async #writeSome(): Promise<void> {
    const taken = this.#lines;
    this.#lines = [];
    const all = Buffer.concat(taken);
    let written = 0;
    try {
      while (written < all.length) {
        const { bytesWritten } = await write(this.#fd, all, written, all.length - written, null);
        written += bytesWritten;
      }
    } finally {
      this.#bytes -= written;
      if (written < all.length) this.#lines.unshift(all.subarray(written));
    }
  }

  #tellLost(): void {
    const line = Buffer.from(this.#options.lostLine(this.#untold));
    this.#untold = 0;
    this.#lines.push(line);
    this.#bytes += line.length;
  }

  #trouble(error: unknown): void {
    const isTroubled = error !== undefined;
    if (isTroubled === this.#isTroubled) return;
    this.#isTroubled = isTroubled;
    this.#options.troubled(error);
  }
}
