/**
 * The TAB key: yargs offers verbs and flags, this file their values, and the shells do the rest.
 * They ask by `millracectl __complete WORD...` with the words up to the cursor, the last of
 * which may be empty. Without candidates they offer files.
 */
import { parserOf } from './command-line.ts';
import { type Verb, textFlag } from './context.ts';
import { Contexts } from './contexts.ts';
import { Failure } from '../nodes/failure.ts';
import type { Flag, VerbDescription } from './flags.ts';
import type { EnvironmentVariables } from '../config/environment.ts';

/** Word by which the shells ask. */
export const COMPLETE = '__complete';
/** Yargs answers this flag with candidates, described as the shell in SHELL wants them. */
const ASK = '--get-yargs-completions';

export function completions(
  words: readonly string[],
  verbs: readonly VerbDescription[],
  env: EnvironmentVariables,
): string[] {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  // Yargs takes a word that is complete already for given, and would offer what comes after it.
  const open = current.startsWith('-') ? '--' : '';
  const offered = valuesAt(before, current, verbs, env) ?? offeredBy([ASK, ...before, open], verbs);
  return offered.filter((candidate) => candidate.startsWith(current));
}

/** The verbs and flags that yargs offers, without flags of one letter, which have a longer name. */
function offeredBy(argv: readonly string[], verbs: readonly VerbDescription[]): string[] {
  let offered = '';
  // Yargs calls back for each level of commands.
  void parserOf(argv, verbs).parse([...argv], {}, (_error, _args, output) => void (offered ||= output));
  return offered.split('\n').filter((line) => !/^(--?\w\b(?!-)|$)/.test(line));
}

/** The values that may stand at the cursor; undefined where only a verb or a flag may. */
function valuesAt(
  before: readonly string[],
  current: string,
  verbs: readonly VerbDescription[],
  env: EnvironmentVariables,
): string[] | undefined {
  const verb = verbs.find(({ name }) => name === before[0] || name === before.slice(0, 2).join(' '));
  if (before.length === 0) return current.startsWith('-') ? ['--help', '--version'] : undefined;
  if (verb === undefined)
    return before.length === 1 && verbs.some(({ name }) => name.startsWith(`${before[0]} `)) ? undefined : [];
  const { flags, words = [], name } = verb;
  const flagAt = (word: string | undefined): [string, Flag] | undefined =>
    Object.entries(flags).find(
      ([one, { short }]) => word === `--${one}` || (short !== undefined && word === `-${short}`),
    );
  const takesValue = (word: string | undefined): boolean => (flagAt(word)?.[1].kind ?? 'switch') !== 'switch';
  const given = before.slice(name.split(' ').length);
  const [open] = takesValue(given.at(-1)) ? (flagAt(given.at(-1)) ?? []) : [];
  if (open === undefined && current.startsWith('-')) return undefined;
  const placed = given.filter((word, i) => !word.startsWith('-') && !takesValue(given[i - 1]));
  const asked = open ?? words[placed.length] ?? '';
  if (asked === 'context' || (asked === 'name' && /^context (use|rm)$/.test(name))) return contextNames(env);
  return [...(flags[asked]?.choices ?? [])];
}

/** A damaged file of contexts is told when a command needs it. */
function contextNames(env: EnvironmentVariables): string[] {
  try {
    return Contexts.read(env).names;
  } catch (error) {
    if (error instanceof Failure) return [];
    throw error;
  }
}

/** Yargs has scripts for bash and zsh, but prints that of the shell in SHELL, and offers flags in place of files. */
const SCRIPTS: ReadonlyMap<string, string> = new Map([
  [
    'bash',
    `# eval "$(millracectl completion bash)"
_millracectl() {
  local IFS=$'\\n'
  COMPREPLY=($(SHELL=bash "\${COMP_WORDS[0]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _millracectl millracectl`,
  ],
  [
    'zsh',
    `#compdef millracectl
# source <(millracectl completion zsh)
_millracectl() {
  local -a candidates
  candidates=("\${(@f)$(SHELL=zsh "\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${candidates[1]}" ]]; then _describe millracectl candidates; else _files; fi
}
compdef _millracectl millracectl`,
  ],
  [
    'fish',
    `# millracectl completion fish | source
function __millracectl_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found (SHELL=fish $words[1] __complete $words[2..-1] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c millracectl -f -a '(__millracectl_complete)'`,
  ],
]);

const SHELLS = [...SCRIPTS.keys()];

export const completion: Verb = {
  name: 'completion',
  about: 'print what lets a shell complete verbs, flags and contexts',
  words: ['shell'],
  examples: SHELLS.map((shell) => `millracectl completion ${shell}`),
  onlyShows: true,
  flags: {
    shell: textFlag(SHELLS.join('|'), 'which shell', { required: true, choices: SHELLS }),
  },
  run: ({ values, say }) => Promise.resolve(say(SCRIPTS.get(values.required('shell')) ?? '')),
};
