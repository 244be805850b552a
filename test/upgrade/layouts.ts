// layouts.json: the bytes of every frame between nodes and of everything durable, as commit 4b63d0f wrote them. Tests
// encode the same inputs and compare byte for byte. Code may be reorganised, these bytes may not
// change: a mismatch is a bug, or a new version of a format. WRITE_GOLDEN=1 adds what is
// missing (one test file at a time) and never replaces anything.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPO_ROOT } from '../support/paths.ts';

const FILE = join(REPO_ROOT, 'test', 'upgrade', 'layouts.json');
const WRITES = process.env['WRITE_GOLDEN'] !== undefined;

type Sections = Record<string, Record<string, string>>;

const load = (): Sections => JSON.parse(readFileSync(FILE, 'utf8')) as Sections;

/** The layouts that one test is about. */
export class Layouts {
  readonly #section: string;
  readonly #known: Record<string, string>;
  readonly #met = new Set<string>();
  #grew = false;

  constructor(section: string) {
    this.#section = section;
    this.#known = load()[section] ?? {};
  }

  /** The bytes are what they ever were. Returns those of the file, for the decoder. */
  same(name: string, bytes: Uint8Array): Uint8Array {
    const hex = this.sameText(name, Buffer.from(bytes).toString('hex'));
    return new Uint8Array(Buffer.from(hex, 'hex'));
  }

  /** For what is text on the disk: JSON. */
  sameText(name: string, text: string): string {
    assert(!this.#met.has(name), `${this.#section}: ${name} is compared once`);
    this.#met.add(name);
    if (WRITES && this.#known[name] === undefined) {
      this.#known[name] = text;
      this.#grew = true;
    }
    const expected = this.#known[name];
    assert(expected !== undefined, `${this.#section}: layouts.json has no ${name}`);
    assert.equal(text, expected, `${this.#section}: ${name} has another layout than before`);
    return expected;
  }

  /** Names of what the file holds. */
  get names(): readonly string[] {
    return Object.keys(this.#known);
  }

  /** Layouts that only earlier versions wrote, for the decoder. */
  earlier(name: string): Uint8Array {
    return new Uint8Array(Buffer.from(this.earlierText(name), 'hex'));
  }

  earlierText(name: string): string {
    const known = this.#known[name];
    assert(known !== undefined, `${this.#section}: layouts.json has no ${name}`);
    this.#met.add(name);
    return known;
  }

  /** Everything of the section was compared. */
  end(): void {
    if (this.#grew) {
      const sections = { ...load(), [this.#section]: this.#known };
      writeFileSync(FILE, `${JSON.stringify(sections, null, 2)}\n`);
    }
    assert.deepEqual([...this.#met].sort(), Object.keys(this.#known).sort(), `${this.#section}: all are compared`);
  }
}

/** `size` bytes that differ from each other, and from those of another `first`. */
export function bytesFrom(first: number, size: number): Uint8Array {
  return Uint8Array.from({ length: size }, (_, i) => (first + i) % 256);
}

export const utf8 = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
