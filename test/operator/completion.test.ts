// Offers of the TAB key: in bash by the function that it runs, in zsh on a terminal, in fish by its own question.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { completions } from '../../src/operator/completion.ts';
import { VERBS } from '../../src/operator/verbs.ts';
import { CTL_ENTRY } from '../support/ctl.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const folder = temporaryFolder('completion');
after(() => removeFolder(folder));
const env = { ...process.env, TERM: 'dumb', XDG_CONFIG_HOME: folder, PATH: `${folder}:${process.env['PATH']}` };

before(() => {
  const tool = join(folder, 'millracectl');
  writeFileSync(tool, `#!/bin/sh\nexec '${process.execPath}' '${CTL_ENTRY}' "$@"\n`);
  chmodSync(tool, 0o755);
  mkdirSync(join(folder, 'millrace'));
  const contexts = { prod: { url: 'http://127.0.0.1:1' }, proof: { url: 'http://127.0.0.1:2' } };
  writeFileSync(join(folder, 'millrace', 'contexts.json'), JSON.stringify({ current: 'prod', contexts }));
});

function inShell(shell: string, ...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(shell, args, { env, encoding: 'utf8', timeout: PATIENCE_MS });
  assert.deepEqual([status, stderr], [0, '']);
  return stdout;
}

/** bash's offers with the cursor behind the last word. */
function bashOffers(...words: string[]): string[] {
  const quoted = ['millracectl', ...words].map((word) => `'${word}'`).join(' ');
  const script = [
    'eval "$(millracectl completion bash)"',
    `COMP_WORDS=(${quoted}) COMP_CWORD=${words.length}`,
    '_millracectl',
    String.raw`printf '%s\n' "\${COMPREPLY[@]}"`.replace('\\$', '$'),
  ].join('\n');
  return inShell('bash', '--norc', '-c', script)
    .split('\n')
    .filter((line) => line !== '');
}

test('bash completes verbs, flags, their values and contexts', () => {
  assert.deepEqual(bashOffers('str'), ['stream']);
  assert.deepEqual(bashOffers('stream', 't'), ['tail']);
  assert.deepEqual(bashOffers('stream', 'tail', '--fo'), ['--follow']);
  assert.deepEqual(bashOffers('stream', 'ls', 'demo', '--output', ''), ['json', 'table']);
  assert.deepEqual(bashOffers('context', 'use', 'pro'), ['prod', 'proof']);
});

test('every verb and flag is offered; where a file may stand, nothing is, so that the shell offers files', () => {
  const offered = (...words: string[]): string[] => completions(words, VERBS, {});
  const first = offered('');
  for (const { name, flags } of VERBS) {
    const [word = '', second] = name.split(' ');
    assert(first.includes(word), name);
    if (second !== undefined) assert(offered(word, '').includes(second), name);
    const words = name.split(' ');
    assert.deepEqual(
      offered(...words, '--'),
      Object.keys(flags).map((flag) => `--${flag}`),
      name,
    );
  }
  assert.deepEqual(offered('completion', 'z'), ['zsh']);
  assert.deepEqual(offered('stream', 'tail', '-n', ''), []);
  assert.deepEqual(offered('status', '--config', '/et'), []);
  assert.deepEqual(offered('frobnicate', ''), []);
  assert.deepEqual(offered('stream', 'rm'), ['rm'], 'a word that is complete is offered, not files');
  assert.deepEqual(offered('stream'), ['stream']);
  assert.deepEqual(offered('stream', 'rm', '--yes'), ['--yes']);
  assert(!offered('stream', 'tail', '-f', '--').includes('--follow'), 'what is given is not offered again');
});

test('zsh and fish get a description with each verb and flag', () => {
  const offers = (shell: string, words: string): string =>
    inShell('sh', '-c', `SHELL=${shell} millracectl __complete ${words}`);
  assert.equal(offers('zsh', 'stream rm'), 'rm:delete a stream; asks first\n');
  assert.equal(offers('fish', 'stream rm'), 'rm\tdelete a stream; asks first\n');
  assert.equal(offers('zsh', 'stream rm --y'), '--yes:do not ask\n');
  assert.equal(offers('fish', 'stream rm --y'), '--yes\tdo not ask\n');
});

const without = (shell: string): string | false =>
  spawnSync(shell, ['--version']).status === 0 ? false : `${shell} is not installed: apt-get install ${shell}`;

/** An interactive zsh on a terminal of its own: each line is typed up to the TAB key, until its pattern shows. */
const ZSH_SESSION = String.raw`
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -U compinit; compinit -u -D; source <(millracectl completion zsh); print rea""dy'
zpty -r -m shell shown '*ready*' || exit 1
typed() {
  zpty -w -n shell "$1"$'\t'
  zpty -r -m shell shown "$2" || exit 1
  zpty -w -n shell $'\C-u'
  print -r -- "$1"
}
typed 'millracectl str' '*stream *'
typed 'millracectl stream ta' '*tail *'
typed 'millracectl stream tail --fo' '*--follow*'
typed 'millracectl context use proo' '*proof *'
typed 'millracectl status --config ctl-fi' '*ctl-file.toml*'
zpty -d shell
`;

test('zsh completes what is typed, with files where a file may stand', { skip: without('zsh') }, () => {
  writeFileSync(join(folder, 'ctl-file.toml'), '');
  const shown = inShell('zsh', '-f', '-c', `cd '${folder}'; ${ZSH_SESSION}`);
  assert.equal(shown.trim().split('\n').length, 5, shown);
});

test('fish completes what is typed, with files where a file may stand', { skip: without('fish') }, () => {
  writeFileSync(join(folder, 'ctl-file.toml'), '');
  const typed = [
    'str',
    'stream ta',
    'stream tail --fo',
    'stream ls demo --output ',
    'context use pr',
    'status --config ctl-fi',
  ];
  const script = typed.map((line) => `complete -C 'millracectl ${line}'`).join('; ');
  const offered = inShell('fish', '-c', `cd '${folder}'; millracectl completion fish | source; ${script}`);
  const words = offered.split('\n').map((line) => line.split('\t')[0]);
  assert.deepEqual(words, [...['stream', 'tail', '--follow', 'json', 'table', 'prod', 'proof', 'ctl-file.toml'], '']);
});
