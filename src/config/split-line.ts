/** A command line in parts. yargs only splits: what it would convert, complete, print or translate on its own is switched off. */
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
  const inherited = argv.map(flagOf).find((name) => name !== undefined && Reflect.has(Object.prototype, name));
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
function flagOf(word: string): string | undefined {
  return /^--([^=]+)/.exec(word)?.[1];
}
