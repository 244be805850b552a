/**
 * A command line in parts, and what a mistyped name was meant to be. yargs only splits: what it would convert, complete, print or
 * translate on its own is switched off.
 */
import yargs from 'yargs';

export interface SplitLine {
  readonly [name: string]: unknown;
  readonly _: readonly (string | number)[];
  readonly $0: string;
}

/** `texts` take a value, `switches` do not; -h is --help. Throws what `fail` makes of a sentence. */
export function splitLine(
  argv: readonly string[],
  texts: readonly string[],
  switches: readonly string[],
  fail: (message: string) => Error,
): SplitLine {
  const inherited = inheritedFlag(argv);
  if (inherited !== undefined) throw fail(`--${inherited}: unknown flag; see --help`);
  return yargs()
    .locale('en')
    .help(false)
    .version(false)
    .exitProcess(false)
    .parserConfiguration({
      'boolean-negation': false,
      'camel-case-expansion': false,
      'dot-notation': false,
      'duplicate-arguments-array': true,
      'parse-numbers': false,
      'parse-positional-numbers': false,
    })
    .string(texts)
    .boolean(switches)
    .fail((message, error) => {
      throw error ?? fail(message);
    })
    .parseSync(argv.map((word) => (word === '-h' ? '--help' : word)));
}

/** yargs looks names of flags up in object literals, and takes what it finds there for a setting of its own. */
export function inheritedFlag(argv: readonly string[]): string | undefined {
  const names = argv.map((word) => /^--([^=]+)/.exec(word)?.[1]);
  return names.find((name) => name !== undefined && Reflect.has(Object.prototype, name));
}

/** "Did you mean": the known name nearest to a mistyped one, when it is near enough to be a help. */
export function suggest(written: string, known: readonly string[]): string {
  const best = nearest(written, known);
  return best === undefined ? '' : `; did you mean ${best}?`;
}

export function nearest<T extends string>(written: string, known: readonly T[]): T | undefined {
  let best: T | undefined;
  // A third of the letters may differ; beyond that a suggestion is a guess.
  let bestDistance = Math.max(2, Math.floor(written.length / 3)) + 1;
  for (const name of known) {
    // `storage.cold.bucket` is far from `storage.cold.s3.bucket` in letters, near in meaning.
    const sameEnding = name.slice(name.lastIndexOf('.') + 1) === written.slice(written.lastIndexOf('.') + 1);
    const distance = Math.min(sameEnding ? 2 : Infinity, editDistance(written, name));
    if (distance < bestDistance) {
      bestDistance = distance;
      best = name;
    }
  }
  return best;
}

/** Levenshtein's distance by rows. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const substitution = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
