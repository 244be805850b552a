/** The options, described for people: --help, and the table in this room's README.md. */
import { CONFIG_VARIABLE, variableOf } from './environment.ts';
import { OPTION_KEYS, OPTIONS } from './options.ts';
import type { Defaulted, Option } from './kinds.ts';

/** Columns of --help: a terminal of the usual width, also where the output goes to a file. */
const HELP_COLUMNS = 100;
const HELP_INDENT = '  ';

/** @internal Markdown, ending with a newline: the table in README.md, which `npm run docs` writes. */
export function describeOptions(): string {
  const rows = OPTION_KEYS.map((key) => {
    const option: Option<unknown> = OPTIONS[key];
    const flag = option.flag === undefined ? '' : ` (\`--${option.flag.name}\`)`;
    const fallback =
      option.defaultNote ?? (hasDefault(option) ? `\`${option.kind.format(option.fallback)}\`` : 'unset');
    return `| \`${key}\`${flag} | ${option.kind.label} | ${fallback} | ${option.about} | \`${variableOf(key)}\` |`;
  });
  return ['| Key (flag) | Type | Default | Meaning | Variable |', '| --- | --- | --- | --- | --- |', ...rows, ''].join(
    '\n',
  );
}

export function helpText(): string {
  const flags: [string, string][] = [
    ['--config FILE', 'TOML file with any of the keys that src/config/README.md lists'],
  ];
  for (const key of OPTION_KEYS) {
    const option: Option<unknown> = OPTIONS[key];
    if (option.flag === undefined) continue;
    const fallback =
      option.defaultNote ?? (hasDefault(option) ? option.kind.format(option.fallback).replaceAll('"', '') : '');
    flags.push([`--${option.flag.name} ${option.flag.placeholder}`, `${option.about} Default: ${fallback}.`]);
  }
  flags.push(['--help', 'Show this text.'], ['--version', 'Show the version.']);
  return [
    'Millrace keeps append-only byte streams and serves them over HTTP. Acknowledged bytes are on disk.',
    '',
    'Usage: millrace [flags]             (the installed package)',
    '       npm start -- [flags]         (a checkout)',
    '       node dist/main.js [flags]',
    '',
    'Flags (they win over the environment, and that over the file):',
    ...columns(flags),
    '',
    'Environment:',
    ...columns([
      [
        'MILLRACE_LOG',
        'Verbosity: a level (trace, debug, info, warn, error, fatal, silent), or info,raft=debug,http=warn.',
      ],
      [
        'MILLRACE_SECTION__KEY',
        `Any key of the file: MILLRACE_RAFT__NODE_ID=2 is raft.node_id = 2. ${CONFIG_VARIABLE} names the file.`,
      ],
      ['MILLRACE_LOG_FILE', 'Where the log goes instead of stderr. SIGHUP opens it again.'],
    ]),
    '',
    'Exit status: 0 after a clean stop, 2 for a bad configuration or a port in use, 1 otherwise.',
    '',
  ].join('\n');
}

function hasDefault(option: Option<unknown>): option is Defaulted<unknown> {
  return 'fallback' in option;
}

/** Two columns; the right one wraps between words. */
function columns(rows: readonly (readonly [string, string])[]): string[] {
  const leftWidth = Math.max(...rows.map(([left]) => left.length)) + HELP_INDENT.length;
  const rightWidth = HELP_COLUMNS - leftWidth - HELP_INDENT.length;
  return rows.flatMap(([left, right]) =>
    wrap(right, rightWidth).map((line, i) => HELP_INDENT + (i === 0 ? left : '').padEnd(leftWidth) + line),
  );
}

function wrap(text: string, width: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines.length - 1;
    const line = lines[last] ?? '';
    if (line === '') lines[last] = word;
    else if (line.length + 1 + word.length <= width) lines[last] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}
