// A program under a real pseudo-terminal (util-linux' script), and what a person would see of it: enough of a
// terminal's behaviour for what the operator's tool writes. A sequence that is not known here fails the test.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { within } from './server.ts';
import { PATIENCE_MS } from './until.ts';

export function scriptMissing(): string | undefined {
  return spawnSync('script', ['--version']).status === 0 ? undefined : 'util-linux script is not installed';
}

const ESCAPE = '\u001b';
const running = new Set<ChildProcess>();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/** Characters and cursor. Lines that scroll out are kept. */
class Screen {
  columns: number;
  rows: number;
  readonly gone: string[] = [];
  #lines: string[] = [''];
  #x = 0;
  #y = 0;
  #rest = '';

  constructor(columns: number, rows: number) {
    this.columns = columns;
    this.rows = rows;
  }

  get text(): string {
    return [...this.gone, ...this.#lines].map((line) => line.trimEnd()).join('\n');
  }

  feed(text: string): void {
    this.#rest += text;
    while (this.#rest.length > 0) {
      const used = this.#one(this.#rest);
      if (used === 0) return;
      this.#rest = this.#rest.slice(used);
    }
  }

  /** How many characters were understood; 0: more are needed. */
  #one(text: string): number {
    const first = text[0] as string;
    if (first === '\r') this.#x = 0;
    else if (first === '\n') this.#down();
    else if (first === ESCAPE) return this.#sequence(text);
    else this.#put(first);
    return 1;
  }

  #sequence(text: string): number {
    // oxlint-disable-next-line no-control-regex
    const found = /^\u001b\[([\d;]*)([A-Za-z])/.exec(text);
    if (found === null) {
      // oxlint-disable-next-line no-control-regex
      assert.match(text, /^\u001b(\[[\d;]*)?$/, `an unknown sequence: ${JSON.stringify(text.slice(0, 10))}`);
      return 0;
    }
    const [whole, numbers, letter] = found as unknown as [string, string, string];
    const line = this.#lines[this.#y] ?? '';
    switch (letter + numbers) {
      case 'H':
        [this.#x, this.#y] = [0, 0];
        break;
      case 'J':
      case 'J0':
        this.#lines = [...this.#lines.slice(0, this.#y), line.slice(0, this.#x)];
        break;
      case 'J2':
        this.#lines = this.#lines.map(() => '');
        break;
      case 'K':
      case 'K0':
        this.#lines[this.#y] = line.slice(0, this.#x);
        break;
      case 'K2':
        this.#lines[this.#y] = '';
        break;
      default:
        // Colours.
        if (letter === 'm') break;
        assert.equal(letter, 'G', `an unknown sequence: ${JSON.stringify(whole)}`);
        this.#x = Number(numbers) - 1;
    }
    return whole.length;
  }

  #put(character: string): void {
    if (this.#x >= this.columns) {
      this.#x = 0;
      this.#down();
    }
    const line = (this.#lines[this.#y] ?? '').padEnd(this.#x);
    this.#lines[this.#y] = line.slice(0, this.#x) + character + line.slice(this.#x + 1);
    this.#x++;
  }

  #down(): void {
    this.#y++;
    while (this.#lines.length <= this.#y) this.#lines.push('');
    if (this.#y < this.rows) return;
    this.gone.push(this.#lines.shift() as string);
    this.#y--;
  }
}

/** The program, between two looks at the terminal's settings. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #screen: Screen;
  readonly #watchers = new Set<() => void>();
  /** Everything that came. */
  #raw = '';
  readonly ended: Promise<void>;

  constructor(command: readonly string[], columns: number, rows: number) {
    this.#screen = new Screen(columns, rows);
    const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    const shell = [
      `stty cols ${columns} rows ${rows}`,
      'tty; stty -g',
      // The shell is in the foreground too, and Ctrl-C is for both.
      'trap : INT',
      quoted,
      'echo "exit $?"; stty -g',
    ].join('; ');
    this.#child = spawn('script', ['-q', '-c', shell, '/dev/null'], { env: { ...process.env, TERM: 'xterm' } });
    running.add(this.#child);
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#raw += text;
      this.#screen.feed(text);
      for (const look of this.#watchers) look();
    });
    this.#child.stdin?.on('error', () => undefined);
    this.ended = new Promise((resolve) => {
      this.#child.once('close', () => {
        running.delete(this.#child);
        for (const look of this.#watchers) look();
        resolve();
      });
    });
  }

  /** Everything that came, with the sequences. */
  get raw(): string {
    return this.#raw;
  }

  /** The visible text, with what has scrolled out. */
  get text(): string {
    return this.#screen.text;
  }

  /** The last lines, once the program has ended. The settings of the terminal are what they were before. */
  async lastLines(): Promise<string[]> {
    await this.ended;
    const settings = this.#raw.match(/^[\da-f]+(:[\da-f]+){10,}(?=\r$)/gm);
    assert.equal(settings?.length, 2, this.text);
    assert.equal(settings[1], settings[0], 'the settings of the terminal');
    const lines = this.text.trimEnd().split('\n');
    // They may have been broken.
    return lines.filter((line) => !/^[\da-f]*(:[\da-f]+)+:?$/.test(line) && !line.startsWith('/dev/pts/'));
  }

  async shows(pattern: RegExp): Promise<string> {
    const found = new Promise<void>((resolve, reject) => {
      const look = (): void => {
        const isThere = pattern.test(this.text);
        if (!isThere && running.has(this.#child)) return;
        this.#watchers.delete(look);
        if (isThere) resolve();
        else reject(new Error(`the program ended without ${String(pattern)}:\n${this.text}`));
      };
      this.#watchers.add(look);
      look();
    });
    await within(found, PATIENCE_MS, `${String(pattern)} on the terminal`).catch((error: unknown) => {
      throw new Error(this.text, { cause: error });
    });
    return this.text;
  }

  /** As if it was typed. */
  type(text: string): void {
    this.#child.stdin?.write(text);
  }

  resize(columns: number, rows: number): void {
    const device = /\/dev\/pts\/\d+/.exec(this.#raw)?.[0];
    assert(device !== undefined, this.text);
    [this.#screen.columns, this.#screen.rows] = [columns, rows];
    execFileSync('stty', ['-F', device, 'cols', String(columns), 'rows', String(rows)]);
  }
}
