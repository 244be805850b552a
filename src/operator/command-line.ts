/**
 * The command line: yargs finds verbs, flags and what is wrong, and writes help. It cannot say what a mistyped flag
 * was meant to be, nor which verb a flag is unknown to, so every refusal is a sentence of ours.
 */
import yargs, { type Argv } from 'yargs';
import { EXIT_CODES, UsageError } from '../nodes/failure.ts';
import { type Flag, type VerbDescription, placeholder } from './flags.ts';
import { suggestFor } from './guesses.ts';

type Arguments = Readonly<Record<string, unknown>>;

export interface CommandLine<V> {
  readonly verb: V;
  readonly given: ReadonlyMap<string, string>;
}

/** Finds the verb of a command line and what was given for it. Throws UsageError. */
export function parseCommandLine<V extends VerbDescription>(
  argv: readonly string[],
  verbs: readonly V[],
): CommandLine<V> {
  const inherited = inheritedFlag(argv);
  if (inherited !== undefined) throw new UsageError(`--${inherited}: unknown flag; see --help`);
  let found: CommandLine<V> | undefined;
  const words = argv[0] === 'help' ? argv.slice(1) : argv;
  try {
    parserOf(words, verbs, (verb, args) => {
      found = { verb, given: givenIn(verb, args) };
      // Behind a handler that returns, yargs composes the help, which takes as long as all before.
      throw new Error('enough is known');
    }).parseSync();
  } catch (error) {
    if (found === undefined) throw error;
    return found;
  }
  throw new Error(`nothing came of ${argv.join(' ')}`);
}

/** The help that a command line asks for; undefined when it asks for none. `help VERB` means `VERB --help`. */
export async function helpFor(argv: readonly string[], verbs: readonly VerbDescription[]): Promise<string | undefined> {
  const asked = beforeDashes(argv);
  const words =
    argv[0] === 'help' ? argv.slice(1) : argv.filter((word, i) => i >= asked.length || !HELP.includes(word));
  const isKnown = words.length === 0 || verbs.some(({ name }) => firstOf(name) === words[0]);
  if (words.length === argv.length || (argv[0] === 'help' && !isKnown)) return undefined;
  return `${await parserOf(words, verbs).getHelp()}\n`;
}

export const asksVersion = (argv: readonly string[]): boolean => beforeDashes(argv).includes('--version');

const HELP = ['--help', '-h'];

function beforeDashes(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--');
  return end < 0 ? argv : argv.slice(0, end);
}

/** Where yargs is in the command line. */
interface Place {
  group?: string;
  verb?: VerbDescription;
}

/** `run` is told the verb that was found, and what was given for it. */
export function parserOf<V extends VerbDescription>(
  argv: readonly string[],
  verbs: readonly V[],
  run: (verb: V, args: Arguments) => void = () => undefined,
): Argv {
  const place: Place = {};
  const add = (parser: Argv, verb: V, word: string): void => {
    parser.command(
      [word, ...(verb.words ?? []).map((name) => `[${placeOf(name)}]`)].join(' '),
      verb.about,
      (inner) => {
        place.verb = verb;
        declare(inner, verb);
        return inner;
      },
      (args) => run(verb, args),
    );
  };
  const root = yargs([...argv])
    .scriptName('millracectl')
    .locale('en')
    .help(false)
    .version(false)
    .exitProcess(false)
    .wrap(null)
    .parserConfiguration({
      'boolean-negation': false,
      'camel-case-expansion': false,
      'dot-notation': false,
      'duplicate-arguments-array': true,
      'parse-numbers': false,
      'parse-positional-numbers': false,
      'populate--': true,
    })
    .strict()
    .fail((message, error) => {
      // Yargs has errors of its own, for which it has a message as well.
      if (error !== undefined && error.message !== message) throw error;
      throw new UsageError(sentenceOf(message, argv, place, verbs));
    })
    .usage('usage: $0 VERB [--config CLUSTER_FILE] [FLAGS]; VERB --help lists the flags of a verb')
    .epilogue(`${SETTINGS}\n\n${EXITS}`)
    .demandCommand(1);
  foretell(root, verbs);
  for (const word of new Set(verbs.map(({ name }) => firstOf(name)))) {
    const alone = verbs.find(({ name }) => name === word);
    const group = verbs.filter(({ name }) => name.startsWith(`${word} `));
    if (alone !== undefined) add(root, alone, word);
    else
      root.command(
        word,
        `verbs of ${word}: ${group.map(({ name }) => name.slice(word.length + 1)).join(', ')}`,
        (inner) => {
          place.group = word;
          foretell(inner, group);
          for (const verb of group) add(inner, verb, verb.name.slice(word.length + 1));
          const usage = `usage: $0 ${word} VERB [FLAGS]; ${word} VERB --help lists the flags of a verb`;
          return inner.usage(usage).epilogue(EXITS).demandCommand(1);
        },
      );
  }
  return root;
}

function declare(parser: Argv, { words = [], flags, examples }: VerbDescription): void {
  for (const name of words) {
    const place = placeOf(name);
    parser.positional(place, { type: 'string', describe: flags[name]?.about ?? '' }).nargs(place, 1);
  }
  for (const [name, flag] of Object.entries(flags)) {
    const { kind, about, short, required, fallback } = flag;
    const more = fallback === undefined ? (required === true ? ' (required)' : '') : ` (${fallback})`;
    const describe = `${kind === 'switch' ? '' : `${placeholder(flag)}: `}${about}${more}`;
    parser.option(name, { ...typeOf(kind), describe, ...(short === undefined ? {} : { alias: short }) });
  }
  for (const example of examples) parser.example(example, '');
}

const firstOf = (name: string): string => name.split(' ')[0] ?? name;

/** Yargs must not take the name of a word for that of the flag, which may be given in its place. */
const placeOf = (name: string): string => name.toUpperCase();

const typeOf = (kind: Flag['kind']): { type: 'boolean' } | { type: 'string'; nargs: 1 } =>
  kind === 'switch' ? { type: 'boolean' } : { type: 'string', nargs: 1 };

/** Flags may precede the verb: which of them take a value has to be known before the verb is. */
function foretell(parser: Argv, verbs: readonly VerbDescription[]): void {
  // A flag means the same in all verbs, so each is declared once.
  const all: Record<string, Flag> = Object.assign({}, ...verbs.map(({ flags }) => flags));
  for (const [name, { kind, short }] of Object.entries(all))
    parser.option(name, {
      ...typeOf(kind),
      hidden: true,
      global: false,
      ...(short === undefined ? {} : { alias: short }),
    });
}

function sentenceOf(
  message: string,
  argv: readonly string[],
  { group, verb }: Place,
  verbs: readonly VerbDescription[],
): string {
  const see = verb === undefined ? 'see --help' : `see ${verb.name} --help`;
  const known = (verb === undefined ? verbs : [verb]).flatMap(({ flags }) => Object.entries(flags));
  const open = /^Not enough arguments following: (.+)$/.exec(message)?.[1];
  const [name, flag] = known.find(([one, { short }]) => open !== undefined && [one, short].includes(open)) ?? [];
  if (flag !== undefined) return `--${name}: expected ${placeholder(flag)}; ${see}`;
  const flags = [...known.map(([one]) => `--${one}`), ...(verb === undefined ? ['--help', '--version'] : [])];
  const written = beforeDashes(argv).map((word) => word.split('=')[0] ?? word);
  const stray = written.find((word) => word.startsWith('--') && !flags.includes(word));
  if (stray !== undefined) {
    const whose = verb === undefined ? '' : ` of ${verb.name}`;
    return `${stray}: unknown flag${whose}${suggestFor(stray, flags) || `; ${see}`}`;
  }
  const extra = /^Unknown arguments?: ("?)([^]*?)\1(, |$)/.exec(message)?.[2];
  if (verb === undefined) return noVerb(extra, group, verbs);
  return extra === undefined ? message : `unexpected argument ${JSON.stringify(extra)}; ${see}`;
}

function noVerb(word: string | undefined, group: string | undefined, verbs: readonly VerbDescription[]): string {
  const names = verbs.map(({ name }) => name);
  const inGroup = names.filter((name) => name.startsWith(`${group} `)).map((name) => name.slice(`${group} `.length));
  if (group !== undefined && word === undefined)
    return `${group} needs a verb: ${inGroup.join(', ')}; see ${group} --help`;
  if (word === undefined) return `give a verb: ${names.join(', ')}; see --help`;
  const whole = group === undefined ? word : `${group} ${word}`;
  const hint = suggestFor(word, group === undefined ? names : inGroup);
  return `${JSON.stringify(whole)}: unknown verb${hint || `; see ${group === undefined ? '' : `${group} `}--help`}`;
}

/** Flags and words by the names of the flags. Yargs would take a word behind `--` for a flag again. */
function givenIn({ flags, words = [], name: verb }: VerbDescription, args: Arguments): Map<string, string> {
  const behind = [args['--'] ?? []].flat();
  const places = new Map(words.map((name) => [name, args[placeOf(name)] ?? behind.shift()]));
  if (behind.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(behind[0])}; see ${verb} --help`);
  const given = new Map<string, string>();
  for (const [name, flag] of Object.entries(flags)) {
    const [value, ...more] = [args[name], places.get(name)].flat().filter((one) => one !== undefined);
    if (value === undefined) continue;
    if (more.length > 0) throw new UsageError(`--${name}: given more than once`);
    if (flag.kind === 'switch' && value !== true) throw new UsageError(`--${name}: takes no value`);
    if (value === '') throw new UsageError(`--${name}: expected ${placeholder(flag)}; see ${verb} --help`);
    given.set(name, typeof value === 'string' ? value : 'true');
  }
  return given;
}

const SETTINGS = [
  'CLUSTER_FILE lists the nodes (TOML, JSON or YAML; - for stdin):  [[nodes]]  id = 1  host = "10.0.0.1"',
  'MILLRACE_CLUSTER names it where --config is not given; so does a context: context add NAME CLUSTER_FILE.',
  'MILLRACE_ADMIN_TOKEN, or the file of --token-file, is the bearer token of the admin planes, where they want one.',
  'Verbs of streams ask the client planes: --url or MILLRACE_URL, or those of the cluster file, or http://127.0.0.1:4437.',
  'MILLRACE_CLIENT_TOKEN, or the file of --client-token-file, is their bearer token.',
].join('\n');
const EXITS = EXIT_CODES.map(
  ({ code, meaning }, i) => `${i === 0 ? 'Exit codes:' : '           '} ${code}  ${meaning}`,
).join('\n');

/** yargs looks names of flags up in object literals, and takes what it finds there for a setting of its own. */
function inheritedFlag(argv: readonly string[]): string | undefined {
  const names = argv.map((word) => /^--([^=]+)/.exec(word)?.[1]);
  return names.find((name) => name !== undefined && Reflect.has(Object.prototype, name));
}
