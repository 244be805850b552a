/**
 * What the TAB key offers. The shells only ask: `millracectl __complete SHELL WORD...` with the words up to the cursor, the
 * last of which may be empty. No candidates: the shell offers files.
 */
import type { Flag, VerbDescription } from './command-line.ts';
import { Contexts } from './contexts.ts';
import { Failure } from './failure.ts';
import type { Environment } from './io.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

interface Candidate {
  readonly word: string;
  readonly about: string;
}

export function completions(
  [shell = '', ...words]: readonly string[],
  verbs: readonly VerbDescription[],
  env: Environment,
): string[] {
  const current = words.at(-1) ?? '';
  const known = SHELLS.find((one) => one === shell);
  if (known === undefined) return [];
  return candidatesFor(words.slice(0, -1), current, verbs, env)
    .filter(({ word }) => word.startsWith(current))
    .map((candidate) => rendered(candidate, known));
}

function rendered({ word, about }: Candidate, shell: Shell): string {
  if (shell === 'bash') return word;
  return shell === 'zsh' ? `${word.replaceAll(':', String.raw`\:`)}:${about}` : `${word}\t${about}`;
}

function candidatesFor(
  before: readonly string[],
  current: string,
  verbs: readonly VerbDescription[],
  env: Environment,
): Candidate[] {
  const [first, second] = before;
  if (first === undefined) return current.startsWith('-') ? GLOBAL : firstWords(verbs);
  const inGroup = verbs.filter(({ name }) => name.startsWith(`${first} `));
  const verb = verbs.find(({ name }) => name === first || name === `${first} ${second}`);
  if (verb === undefined) {
    if (before.length > 1) return [];
    return inGroup.map(({ name, about }) => ({ word: name.slice(first.length + 1), about }));
  }
  return valuesOrFlags(verb, before.slice(verb.name.split(' ').length), current, env);
}

const GLOBAL: Candidate[] = [
  { word: '--help', about: 'list the verbs' },
  { word: '--version', about: 'say the version' },
];

function firstWords(verbs: readonly VerbDescription[]): Candidate[] {
  const words = new Map<string, string>();
  for (const { name, about } of verbs) {
    const [first = name, second] = name.split(' ');
    if (!words.has(first)) words.set(first, second === undefined ? about : `verbs of ${first}`);
  }
  return [...words].map(([word, about]) => ({ word, about }));
}

function valuesOrFlags(
  { name, flags, words = [] }: VerbDescription,
  before: readonly string[],
  current: string,
  env: Environment,
): Candidate[] {
  const find = (word: string | undefined): [string, Flag] | undefined =>
    Object.entries(flags).find(
      ([flag, { short }]) => word === `--${flag}` || (short !== undefined && word === `-${short}`),
    );
  const open = find(before.at(-1));
  if (open !== undefined && open[1].kind !== 'switch') return valuesOf(name, ...open, env);
  if (current.startsWith('-')) {
    const given = new Set(before.map((word) => find(word)?.[0]));
    return Object.entries(flags)
      .filter(([flag]) => !given.has(flag))
      .map(([flag, { about }]) => ({ word: `--${flag}`, about }));
  }
  const places = before.filter((word, i) => {
    const flag = find(before[i - 1]);
    return !word.startsWith('-') && (flag === undefined || flag[1].kind === 'switch');
  });
  const place = words[places.length];
  const flag = place === undefined ? undefined : flags[place];
  return place === undefined || flag === undefined ? [] : valuesOf(name, place, flag, env);
}

function valuesOf(verb: string, name: string, { choices }: Flag, env: Environment): Candidate[] {
  if (choices !== undefined) return choices.map((word) => ({ word, about: '' }));
  const isContext = name === 'context' || (name === 'name' && /^context (use|rm)$/.test(verb));
  return isContext ? contextNames(env).map((word) => ({ word, about: 'context' })) : [];
}

/** A damaged file of contexts is told when a command needs it. */
function contextNames(env: Environment): string[] {
  try {
    return Contexts.read(env).names;
  } catch (error) {
    if (error instanceof Failure) return [];
    throw error;
  }
}

/** The words that are asked for: `command` is the one before the cursor is in. */
export const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# eval "$(millracectl completion bash)"
_millracectl() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" __complete bash "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _millracectl millracectl`,
  zsh: `#compdef millracectl
# source <(millracectl completion zsh)
_millracectl() {
  local -a candidates
  candidates=("\${(@f)$("\${words[1]}" __complete zsh "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${candidates[1]}" ]]; then _describe millracectl candidates; else _files; fi
}
compdef _millracectl millracectl`,
  fish: `# millracectl completion fish | source
function __millracectl_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete fish $words[2..-1] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c millracectl -f -a '(__millracectl_complete)'`,
};
