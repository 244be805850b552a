/** A text that is drawn again and again in the same place. No setting of the terminal is changed, so none has to be put back. */
import type { WriteStream } from 'node:tty';
import { stripVTControlCharacters } from 'node:util';

const CLEAR_SCREEN = '\u001b[2J';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** Of terminals that do not tell their size. */
const COLUMNS = 80;
const ROWS = 24;

/** For how many columns to write; without a limit where no terminal is attached. */
export function columnsOf(out: WriteStream): number {
  return out.isTTY ? out.columns || COLUMNS : Infinity;
}

export class LiveScreen {
  readonly #out: WriteStream;
  #render: (columns: number) => readonly string[] = () => [];

  constructor(out: WriteStream) {
    this.#out = out;
    out.write(CLEAR_SCREEN);
    out.on('resize', this.#resized);
  }

  /** The text for so many columns; asked for again when the window changes. */
  draw(render: (columns: number) => readonly string[]): void {
    this.#render = render;
    const columns = columnsOf(this.#out);
    // The last row stays free: a line break there would scroll.
    const lines = crop(render(columns), (this.#out.rows || ROWS) - 1);
    // Without a flicker: each line replaces the one that was there.
    this.#out.write(HOME + lines.map((line) => cut(line, columns) + CLEAR_LINE_END).join('\n') + CLEAR_BELOW);
  }

  /** The text stays; what comes next begins below it. */
  close(): void {
    this.#out.off('resize', this.#resized);
    this.#out.write('\n');
  }

  /** The terminal has rewrapped the lines by itself. */
  readonly #resized = (): void => {
    this.#out.write(CLEAR_SCREEN);
    this.draw(this.#render);
  };
}

const MORE = '…';

/** The last column stays free: terminals differ in what they do when it is written to. */
export function cut(line: string, columns: number): string {
  const room = Math.max(1, columns - 1);
  // Colours take no room; what is cut has none.
  const plain = stripVTControlCharacters(line);
  return plain.length <= room ? line : plain.slice(0, room - 1) + MORE;
}

/** Broken between words; a word that is too long is cut. Further lines are set in. */
export function wrap(line: string, columns: number): string[] {
  const INDENT = '  ';
  const room = Math.max(1, columns - 1);
  const lines: string[] = [];
  let rest = line;
  while (rest.length > room) {
    const at = rest.lastIndexOf(' ', room);
    if (at <= INDENT.length) break;
    lines.push(rest.slice(0, at));
    rest = INDENT + rest.slice(at + 1);
  }
  return [...lines, cut(rest, columns)];
}

/** At most so many lines; the last one says how many are missing. */
export function crop(lines: readonly string[], rows: number): string[] {
  if (lines.length <= rows) return [...lines];
  const kept = Math.max(0, rows - 1);
  return [...lines.slice(0, kept), `${MORE} ${lines.length - kept} more lines`];
}
