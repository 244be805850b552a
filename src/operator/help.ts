/** What --help prints. */
import { type VerbDescription, placeholder } from './command-line.ts';
import { EXIT_CODES } from './failure.ts';

const HELP_COLUMN = 32;
const NAME_COLUMN = 18;

/** Of all verbs, or of those of a group. */
export function helpOfAll(verbs: readonly VerbDescription[], group?: string): string {
  const shown = group === undefined ? verbs : verbs.filter(({ name }) => name.startsWith(`${group} `));
  return [
    group === undefined
      ? 'usage: millracectl VERB [--config CLUSTER_FILE] [FLAGS]; VERB --help lists the flags of a verb'
      : `usage: millracectl ${group} VERB [FLAGS]; ${group} VERB --help lists the flags of a verb`,
    '',
    ...shown.map(({ name, about }) => `  ${name.padEnd(NAME_COLUMN)}${about}`),
    '',
    ...(group === undefined ? SETTINGS : []),
    ...EXIT_CODES.map(({ code, meaning }, i) => `${i === 0 ? 'Exit codes:' : '           '} ${code}  ${meaning}`),
    '',
  ].join('\n');
}

const SETTINGS = [
  'CLUSTER_FILE lists the nodes (TOML, JSON or YAML; - for stdin):  [[nodes]]  id = 1  host = "10.0.0.1"',
  'MILLRACE_CLUSTER names it where --config is not given; so does a context: context add NAME CLUSTER_FILE.',
  'MILLRACE_ADMIN_TOKEN, or the file of --token-file, is the bearer token of the admin planes, where they want one.',
  'Verbs of streams ask the client planes: --url or MILLRACE_URL, or those of the cluster file, or http://127.0.0.1:4437.',
  'MILLRACE_CLIENT_TOKEN, or the file of --client-token-file, is their bearer token.',
];

export function helpOfVerb({ name, about, examples, flags, words = [] }: VerbDescription): string {
  const lines = Object.entries(flags).map(([flagName, flag]) => {
    const short = flag.short === undefined ? '' : `-${flag.short}, `;
    const left = `  ${short}--${flagName} ${placeholder(flag)}`.trimEnd();
    const extra = flag.fallback === undefined ? (flag.required === true ? ' (required)' : '') : ` (${flag.fallback})`;
    return `${left.padEnd(HELP_COLUMN)}  ${flag.about}${extra}`;
  });
  const places = words.map((word) => {
    const flag = flags[word];
    const shown = flag === undefined ? word : placeholder(flag);
    return flag?.required === true ? ` ${shown}` : ` [${shown}]`;
  });
  const shown = examples.map((line) => `  ${line}`);
  return [`millracectl ${name}${places.join('')}: ${about}`, '', ...lines, '', ...shown, ''].join('\n');
}
