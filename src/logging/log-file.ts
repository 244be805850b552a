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
/** @internal Lines that a full disk does not take wait for the next that it takes; more are dropped. */
export const HELD_BYTES_MAX = 256 * 1024;

/** Takes lines at once. A log that cannot be written, on a full disk or because its reader is gone, ends no node. */
export function openDestination(
  to: { readonly fd: number } | { readonly dest: string; readonly append: true; readonly mode: number },
): ReturnType<typeof destination> {
  const stream = destination({ ...to, sync: true, maxLength: HELD_BYTES_MAX });
  stream.on('error', () => undefined);
  let isRepeat = false;
  // The library tries the disk with lines that it has room for. An empty one makes room when the disk takes what waits.
  stream.on('drop', (line: string) => {
    if (isRepeat) return;
    isRepeat = true;
    stream.write('');
    stream.write(line);
    isRepeat = false;
  });
  return stream;
}

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
      this.#file = openDestination({ dest: path, append: true, mode: OWNER_ONLY });
    } catch (error) {
      throw new ConfigError(`MILLRACE_LOG_FILE: ${path} cannot be opened (${String(error)})`);
    }
    this.#opened = this.#since(before);
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
