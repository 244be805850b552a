/** The tool's surroundings: the process gives it its own streams, signals and environment, a test gives it others. */
import { stripVTControlCharacters } from 'node:util';
import type { StartVerifiers } from '../backup/tool/verify.ts';
import type { EnvironmentVariables } from '../config/environment.ts';

type Source = NodeJS.ReadableStream & { readonly isTTY?: boolean; destroy(): unknown };
/** The size is that of a terminal's window. */
export type Sink = NodeJS.WritableStream & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

export interface Io {
  readonly stdin: Source;
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly env: EnvironmentVariables;
  /** Aborted by Ctrl-C. Verbs then clean up behind themselves and fail with `Interrupted`. */
  readonly signal: AbortSignal;
  /** Called before work on backups, which leaves the processor to a node on the same machine. */
  readonly giveWay?: () => void;
  /** Those that verify backups; by default threads that end with the verb. */
  readonly startVerifiers?: StartVerifiers;
}

/** Sizes of terminals that do not tell theirs. */
const COLUMNS = 80;
const ROWS = 24;

/** A stream for people or programs: text loses its colours where they are not wanted. */
export class Output {
  readonly sink: Sink;
  readonly #hasColours: boolean;

  /** Leaves out colours where no terminal shows them, or NO_COLOR is set (https://no-color.org). */
  constructor(sink: Sink, env: EnvironmentVariables) {
    this.sink = sink;
    this.#hasColours = sink.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';
  }

  get isTerminal(): boolean {
    return this.sink.isTTY === true;
  }

  /** The columns to write for; unlimited where no terminal is attached. */
  get columns(): number {
    return this.isTerminal ? this.sink.columns || COLUMNS : Infinity;
  }

  get rows(): number {
    return this.sink.rows || ROWS;
  }

  /** The text as this stream shows it. */
  inColours(text: string): string {
    return this.#hasColours ? text : stripVTControlCharacters(text);
  }

  /** Returns false when the reader is slow. */
  text(text: string): boolean {
    return this.sink.write(this.inColours(text));
  }

  say(line: string): void {
    this.text(`${line}\n`);
  }

  /** Resolves when the next piece may come. */
  async write(piece: Uint8Array | string): Promise<void> {
    if (piece.length === 0 || (typeof piece === 'string' ? this.text(piece) : this.sink.write(piece))) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.sink.off('drain', done).off('close', done);
        resolve();
      };
      this.sink.once('drain', done).once('close', done);
    });
  }
}
