/**
 * One line per event: JSON for machines, a readable form when stderr is a terminal. Writes are synchronous (no
 * worker-thread transport), so the line that explains a crash is written before the process is gone.
 */
import { isatty } from 'node:tty';
import { type DestinationStream, type Logger, pino } from 'pino';
import { ConfigError } from '../config/error.ts';
import { LogFile, openDestination } from './log-file.ts';

export type { Logger } from 'pino';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
type Level = (typeof LEVELS)[number];

export interface Verbosity {
  readonly level: Level;
  readonly components: ReadonlyMap<string, Level>;
}

const STDERR_FD = 2;

/** @internal Throws ConfigError when `text` is not a verbosity; unset or empty means `info`. */
export function parseVerbosity(text: string | undefined): Verbosity {
  let level: Level = 'info';
  const components = new Map<string, Level>();
  for (const item of (text ?? '').split(',')) {
    const written = item.trim();
    if (written === '') continue;
    const equals = written.indexOf('=');
    const name = equals < 0 ? '' : written.slice(0, equals).trim();
    const wanted = written
      .slice(equals + 1)
      .trim()
      .toLowerCase();
    const known = LEVELS.find((one) => one === wanted);
    if (known === undefined || (equals >= 0 && name === '')) {
      throw new ConfigError(
        `MILLRACE_LOG: ${JSON.stringify(written)} is not a verbosity; expected a level (${LEVELS.join(', ')}) or component=level, separated by commas`,
      );
    }
    if (equals < 0) level = known;
    else components.set(name, known);
  }
  return { level, components };
}

export type OpenLogger = (component: string) => Logger;

/** Tells a thread how to log as the main thread does; plain data. `node`: the main thread writes the lines. */
export interface ThreadLog {
  readonly verbosity: Verbosity;
  readonly to: 'stderr' | 'node' | { readonly file: string };
}

/** The log of one node: of its main thread, and what its threads need for theirs. */
export class NodeLog {
  readonly threads: ThreadLog;
  readonly #stream: DestinationStream;

  private constructor(threads: ThreadLog, stream: DestinationStream) {
    this.threads = threads;
    this.#stream = stream;
  }

  /** Logs to stderr, or to `file` when it is named. Throws ConfigError. */
  static open(verbosity: string | undefined, file = ''): NodeLog {
    const to = file === '' ? 'stderr' : { file };
    return new NodeLog({ verbosity: parseVerbosity(verbosity), to }, openStream(to));
  }

  /** Logs to `stream`, the lines of the threads included. Throws ConfigError. */
  static to(stream: DestinationStream, verbosity?: string): NodeLog {
    return new NodeLog({ verbosity: parseVerbosity(verbosity), to: 'node' }, stream);
  }

  /** A logger whose lines carry the component's name. */
  readonly logger: OpenLogger = (component) => loggerTo(this.#stream, this.threads.verbosity, component);

  /** Writes a line that a thread has posted. */
  write(line: string): void {
    this.#stream.write(line);
  }

  /** Opens the log file again, since its path may name another now. Returns the path, or undefined without a file. */
  reopen(): string | undefined {
    if (this.#stream instanceof LogFile) this.#stream.lookNow();
    const { to } = this.threads;
    return typeof to === 'object' ? to.file : undefined;
  }
}

/** The logger of a thread; `post` takes lines that the main thread writes. */
export function threadLogger({ verbosity, to }: ThreadLog, component: string, post: (line: string) => void): Logger {
  return loggerTo(to === 'node' ? { write: post } : openStream(to), verbosity, component);
}

/** @internal The same on any stream, for tests. */
export function loggerTo(stream: DestinationStream, verbosity: Verbosity, component: string): Logger {
  return pino(
    {
      level: verbosity.components.get(component) ?? verbosity.level,
      base: { component },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
}

function openStream(to: 'stderr' | { readonly file: string }): DestinationStream {
  return to === 'stderr' ? openStderr() : new LogFile(to.file, () => performance.now());
}

function openStderr(): DestinationStream {
  const stderr = openDestination({ fd: STDERR_FD });
  // process.stderr.isTTY is undefined in worker threads; the descriptor is the same in all.
  const shown = isatty(STDERR_FD) ? readable : (line: string): string => line;
  // Nothing but `write`: at a fatal line pino has a stream of the library flushed, which on a full disk never ends.
  return { write: (line) => stderr.write(shown(line)) };
}

/** Every line has these; further fields are the caller's. */
interface Line {
  readonly [name: string]: unknown;
  readonly time: string;
  readonly level: string;
  readonly component: string;
  readonly msg?: string;
  readonly err?: { readonly message?: string; readonly stack?: string };
}

/** @internal `12:03:04.123 WARN  raft: lost the leader group=3 term=12`, and the stack of an error below. */
export function readable(line: string): string {
  const { time, level, component, msg, err, ...fields } = JSON.parse(line) as Line;
  const clock = time.slice('2026-01-01T'.length, -1);
  let text = `${clock} ${level.toUpperCase().padEnd(5)} ${component}: ${oneLine(msg ?? '')}`;
  for (const [name, value] of Object.entries(fields)) {
    text += ` ${name}=${typeof value === 'string' && /^[\w./:@-]+$/.test(value) ? value : oneLine(JSON.stringify(value))}`;
  }
  if (err?.stack !== undefined) text += `\n${err.stack.split('\n').map(oneLine).join('\n')}`;
  else if (err !== undefined) text += ` err=${oneLine(JSON.stringify(err))}`;
  return `${text}\n`;
}

/** Names of streams come from clients: control characters must not reach the terminal. */
function oneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
