/** A text that is redrawn in its place. No setting of the terminal is changed, so none has to be put back. */
import { stripVTControlCharacters } from 'node:util';
import type { Output } from './io.ts';

const CLEAR_SCREEN = '\u001b[2J';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

export class LiveScreen {
  readonly #out: Output;
  #render: (columns: number) => readonly string[] = () => [];

  constructor(out: Output) {
    this.#out = out;
    out.sink.write(CLEAR_SCREEN);
    out.sink.on('resize', this.#resized);
  }

  /** The text for so many columns; asked for again when the window changes. */
  draw(render: (columns: number) => readonly string[]): void {
    this.#render = render;
    const columns = this.#out.columns;
    // The last row stays free: a line break there would scroll.
    const lines = crop(render(columns), this.#out.rows - 1);
    // Without a flicker: each line replaces the one that was there.
    const drawn = lines.map((line) => this.#out.inColours(cut(line, columns)) + CLEAR_LINE_END);
    this.#out.sink.write(HOME + drawn.join('\n') + CLEAR_BELOW);
  }

  /** The text stays; what comes next begins below it. */
  close(): void {
    this.#out.sink.off('resize', this.#resized);
    this.#out.sink.write('\n');
  }

  /** The terminal has rewrapped the lines by itself. */
  readonly #resized = (): void => {
    this.#out.sink.write(CLEAR_SCREEN);
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
