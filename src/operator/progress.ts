/** What a verb says while it works, on stderr: a bar on a terminal, a line for each change of the situation elsewhere. */
import process from 'node:process';
import { SingleBar } from 'cli-progress';

/** A line about the same state of things at most so often, where nobody overwrites it. */
const LINE_INTERVAL_MS = 5000;

export class Progress {
  readonly #isTerminal: boolean;
  #bar: SingleBar | undefined;
  #lastLine = '';
  #lastLineMs = -Infinity;

  constructor(isTerminal: boolean = process.stderr.isTTY) {
    this.#isTerminal = isTerminal;
  }

  /** Something was done. */
  note(text: string): void {
    this.end();
    process.stderr.write(`${text}\n`);
    this.#lastLineMs = -Infinity;
  }

  /** So many of so many; `text` says what is missing. */
  step(done: number, total: number, text: string): void {
    if (!this.#isTerminal) return this.#line(`${done} of ${total}: ${text}`);
    if (this.#bar === undefined) {
      this.#bar = new SingleBar({
        format: '[{bar}] {value}/{total} {text}',
        barCompleteChar: '=',
        barIncompleteChar: ' ',
        barsize: 24,
        hideCursor: true,
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
    if (this.#bar !== undefined) this.#bar.update({ text });
    else this.#line(`waiting: ${text}`);
  }

  /** Leaves the terminal as it was. */
  end(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }

  #line(text: string): void {
    const nowMs = performance.now();
    if (text === this.#lastLine || nowMs - this.#lastLineMs < LINE_INTERVAL_MS) return;
    this.#lastLine = text;
    this.#lastLineMs = nowMs;
    process.stderr.write(`${text}\n`);
  }
}
