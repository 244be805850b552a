/** Verbs report progress on stderr: by a bar on a terminal, elsewhere by a line for each change of the situation. */
import { printable } from '../nodes/failure.ts';
import { SingleBar } from 'cli-progress';
import type { EnvironmentVariables } from '../config/environment.ts';
import type { Sink } from './io.ts';
import { cut } from './live-screen.ts';

/** A line about the same state of things at most so often, where lines are not overwritten. */
const LINE_INTERVAL_MS = 5000;
const BAR_CHARS_MAX = 24;
/** A shorter one shows nothing. */
const BAR_CHARS_MIN = 4;
/** The terminal writes ^C behind the line, which must not wrap either. */
const CTRL_C_CHARS = 2;
const SAVE_PLACE = '\u001b7';
const RESTORE_PLACE = '\u001b8';

export class ProgressBar {
  readonly #sink: Sink;
  /** A line for each change where a bar cannot be drawn. */
  readonly #isTerminal: boolean;
  #bar: SingleBar | undefined;
  #lastLine = '';
  #lastLineMs = -Infinity;

  constructor(sink: Sink, env: EnvironmentVariables) {
    this.#sink = sink;
    this.#isTerminal = sink.isTTY === true && env['TERM'] !== 'dumb';
  }

  /** Something was done. */
  note(text: string): void {
    this.end();
    this.#sink.write(`${printable(text)}\n`);
    this.#lastLineMs = -Infinity;
  }

  /** So many of so many; `text` says what is missing. */
  step(done: number, total: number, about: string): void {
    const text = printable(about);
    if (!this.#isTerminal) return this.#line(`${done} of ${total}: ${text}`);
    if (this.#bar === undefined) {
      this.#bar = new SingleBar({
        format: (_, { value, total: all, maxWidth }, { text: words }) => barLine(value, all, String(words), maxWidth),
        // The terminal's settings are left alone, so nothing has to be put back, whatever ends this process.
        hideCursor: false,
        linewrap: true,
        stream: withoutPlaces(this.#sink),
        clearOnComplete: true,
        stopOnComplete: false,
        // Ctrl-C is main's.
        gracefulExit: false,
      });
      this.#bar.start(total, done, { text });
    }
    this.#bar.setTotal(total);
    this.#bar.update(done, { text });
  }

  /** Nothing moves yet, because of that. */
  waiting(text: string): void {
    if (this.#bar !== undefined) this.#bar.update({ text: printable(text) });
    else this.#line(`waiting: ${printable(text)}`);
  }

  /** Leaves the terminal as it was. */
  end(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }

  #line(text: string): void {
    const clockMs = performance.now();
    if (text === this.#lastLine || clockMs - this.#lastLineMs < LINE_INTERVAL_MS) return;
    this.#lastLine = text;
    this.#lastLineMs = clockMs;
    this.#sink.write(`${text}\n`);
  }
}

/** One line, whatever the width: a longer one would wrap, and what is left of it would stay behind. */
export function barLine(done: number, total: number, text: string, width: number): string {
  const size = Math.max(0, Math.min(BAR_CHARS_MAX, Math.floor(width / 3) - 2));
  const filled = total === 0 ? size : Math.round((size * Math.min(done, total)) / total);
  const bar = size < BAR_CHARS_MIN ? '' : `[${'='.repeat(filled)}${' '.repeat(size - filled)}] `;
  return cut(`${bar}${done}/${total} ${text}`, width - CTRL_C_CHARS);
}

/**
 * The library remembers where the cursor was and goes back there at the end; but that is another
 * place when the window has scrolled or changed its size.
 */
function withoutPlaces(terminal: Sink): Sink {
  const write = (text: string): boolean => text === SAVE_PLACE || text === RESTORE_PLACE || terminal.write(text);
  return Object.assign(Object.create(terminal) as Sink, { write });
}
