/**
 * A log file that is opened again when its path names another file, as after a rotation. Each thread has it open for
 * itself and looks for itself, so no thread has to be told.
 */
import { statSync } from 'node:fs';
import { type DestinationStream, destination } from 'pino';
import { ConfigError } from '../config/error.ts';

/** A line costs two system calls more once in this time; a rotated file gets its last line this late at most. */
const LOOK_PAUSE_MS = 1000;
const OWNER_ONLY = 0o600;

export class LogFile implements DestinationStream {
  readonly #path: string;
  readonly #monotonicMs: () => number;
  readonly #file: ReturnType<typeof destination>;
  #nextLookMs = 0;
  /** Device and inode of the open file; undefined: not known for sure. */
  #opened: string | undefined;

  /** Throws ConfigError when the file cannot be opened. */
  constructor(path: string, monotonicMs: () => number) {
    this.#path = path;
    this.#monotonicMs = monotonicMs;
    const before = this.#named();
    try {
      this.#file = destination({ dest: path, append: true, sync: true, mode: OWNER_ONLY });
    } catch (error) {
      throw new ConfigError(`MILLRACE_LOG_FILE: ${path} cannot be opened (${String(error)})`);
    }
    this.#opened = this.#since(before);
    // As with stderr: a log that cannot be written ends no node.
    this.#file.on('error', () => undefined);
  }

  /** The next line checks, regardless of the time. */
  lookNow(): void {
    this.#nextLookMs = 0;
  }

  write(line: string): void {
    const clockMs = this.#monotonicMs();
    if (clockMs >= this.#nextLookMs) {
      this.#nextLookMs = clockMs + LOOK_PAUSE_MS;
      const named = this.#named();
      if (named === undefined || named !== this.#opened) this.#reopen();
    }
    this.#file.write(line);
  }

  /** The file that the path names now; undefined: none, or none that this process may see. */
  #named(): string | undefined {
    try {
      const { dev, ino } = statSync(this.#path);
      return `${dev}:${ino}`;
    } catch {
      return undefined;
    }
  }

  /** The file that was opened; undefined when the path named another or none before: a later line looks again. */
  #since(before: string | undefined): string | undefined {
    const now = this.#named();
    return now === before ? now : undefined;
  }

  /**
   * The file before stays when that fails. Its close waits for the event `ready`; left there by an attempt that failed,
   * it would come once more after the next one, when the descriptor may be a socket or a data file.
   */
  #reopen(): void {
    const waiting = new Set(this.#file.rawListeners('ready'));
    try {
      const before = this.#named();
      this.#file.reopen();
      this.#opened = this.#since(before);
    } catch {
      // It is tried again with a later line.
      for (const late of this.#file.rawListeners('ready'))
        if (!waiting.has(late)) this.#file.off('ready', late as () => void);
    }
  }
}
