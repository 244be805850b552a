import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvironment } from '../../src/config/environment.ts';
import { helpFor, parseCommandLine } from '../../src/operator/command-line.ts';
import { UsageError } from '../../src/nodes/failure.ts';
import { Values } from '../../src/operator/flags.ts';
import { VERBS } from '../../src/operator/verbs.ts';

const VARIABLES = /MILLRACE_[A-Z_]+/g;

function parse(line: string, env: Readonly<Record<string, string>> = {}): Values {
  const { verb, given } = parseCommandLine(line.split(' ').filter(Boolean), VERBS);
  return new Values(verb, given, env);
}

test('flags come as numbers, milliseconds and lists; defaults are those of the manual', () => {
  const values = parse('drain --config - --node 2 --drain-timeout-secs 0.5 --dry-run');
  assert.equal(values.text('config'), '-');
  assert.equal(values.integer('node'), 2);
  assert.equal(values.ms('drain-timeout-secs'), 500);
  assert.equal(values.ms('ready-timeout-secs'), 120_000);
  assert.equal(values.ms('poll-interval-secs'), 2000);
  assert.equal(values.integer('lag-tolerance'), 16);
  assert.equal(values.isSet('dry-run'), true);
  assert.deepEqual(parse('restart --config=x --only 3,1 --restart-cmd {host}').ids('only'), [3, 1]);
  assert.equal(parse('drain --config - --node 2 --drain-timeout-secs 1.5m').ms('drain-timeout-secs'), 90_000);
  assert.equal(parse('drain --config - --node 2 --poll-interval-secs 500ms').ms('poll-interval-secs'), 500);
  assert.equal(parse('stream create a/b --ttl-secs 30d').ms('ttl-secs'), 30 * 86_400_000);
  assert.equal(parse('status', { MILLRACE_CLUSTER: '/etc/c.toml' }).text('config'), '/etc/c.toml');
  assert.equal(parse('status --config x', { MILLRACE_CLUSTER: '/etc/c.toml' }).text('config'), 'x');
  assert.equal(parse('wait-ready --config x --expected-groups 16').ms('http-timeout-secs'), 5000);
});

test('a node starts beside the variables of the tool, which may share its environment', () => {
  const flags = VERBS.flatMap((verb) => Object.values(verb.flags));
  const names = flags.flatMap(({ env, about }) => [
    ...(env === undefined ? [] : [env]),
    ...(about.match(VARIABLES) ?? []),
  ]);
  assert(names.includes('MILLRACE_CERT_FILE') && names.includes('MILLRACE_CONTEXT'));
  assert.deepEqual(readEnvironment(Object.fromEntries(names.map((name) => [name, 'x']))), new Map());
});

const WRONG: readonly (readonly [string, RegExp])[] = [
  ['', /^give a verb: status, /],
  ['satus', /^"satus": unknown verb; did you mean status\?$/],
  ['frobnicate', /^"frobnicate": unknown verb; see --help$/],
  ['status', /^status needs --config FILE, or MILLRACE_CLUSTER; see status --help$/],
  ['status --config', /^--config: expected FILE; see status --help$/],
  ['status --config a --config b', /^--config: given more than once$/],
  ['status --config a extra', /^unexpected argument "extra"; see status --help$/],
  ['status --config a --jsno', /^--jsno: unknown flag of status; did you mean --json\?$/],
  ['status --config a --node 2', /^--node: unknown flag of status/],
  ['drain --config a', /^drain needs --node ID/],
  ['drain --config a --node x', /^--node x: expected a number from 1 to 4294967295$/],
  ['drain --config a --node 0', /^--node 0: expected/],
  [
    'drain --config a --node 1 --drain-timeout-secs soon',
    /^--drain-timeout-secs soon: expected seconds from 0\.05 to 86400, or a time as 500ms or 5m$/,
  ],
  ['drain --config a --node 1 --poll-interval-secs 0', /^--poll-interval-secs 0: expected seconds/],
  ['wait-ready --config a --expected-groups 0', /^--expected-groups 0: expected a number from 1/],
  ['drain --config a --node 1 --poll-interval-secs 1ms', /^--poll-interval-secs 1ms: expected seconds/],
  ['drain --config a --node 1 --poll-interval-secs 2d', /^--poll-interval-secs 2d: expected seconds/],
  ['stream create a/b --ttl 3600', /^--ttl: unknown flag of stream create; did you mean --ttl-secs\?$/],
  ['stream cat a/b --count 3', /^--count: unknown flag of stream cat; did you mean --limit\?$/],
  ['stream rm a/b --force', /^--force: unknown flag of stream rm; did you mean --yes\?$/],
  ['stream delete a/b', /^"stream delete": unknown verb; did you mean rm\?$/],
  ['stream list a', /^"stream list": unknown verb; did you mean ls\?$/],
  ['bucket delete a', /^"bucket delete": unknown verb; did you mean purge\?$/],
  ['cat a/b', /^"cat": unknown verb; did you mean stream cat\?$/],
  ['backup', /^"backup": unknown verb; did you mean backup-create\?$/],
  ['restart --config a --only 1,,2', /^--only 1,,2: expected node ids such as 1,2,3$/],
  ['restart --config a --only 1,2,1', /^--only 1,2,1: names a node twice$/],
];

test('a wrong command line is refused with one sentence and exit code 2', () => {
  for (const [line, expected] of WRONG) {
    assert.throws(
      () => parse(line),
      (error: Error) => {
        assert(error instanceof UsageError, `${line}: ${error.stack ?? ''}`);
        assert.match(error.message, expected, line);
        assert.equal(error.exitCode, 2);
        return true;
      },
    );
  }
});

test('a result for programs has a short flag in every verb', () => {
  for (const { name, flags } of VERBS) assert.equal(Object.hasOwn(flags, 'output'), Object.hasOwn(flags, 'json'), name);
});

test('help names every verb and every flag', async () => {
  const all = (await helpFor(['--help'], VERBS)) ?? '';
  for (const { name, flags } of VERBS) {
    const [first, second] = name.split(' ');
    assert.match(all, new RegExp(`^  millracectl ${first} .*${second ?? ''}`, 'm'), name);
    const one = (await helpFor([...name.split(' '), '--help'], VERBS)) ?? '';
    for (const flag of Object.keys(flags)) assert(one.includes(`--${flag}`), `${name} --${flag}`);
    if (second === undefined) continue;
    assert.match((await helpFor([first ?? '', '-h'], VERBS)) ?? '', new RegExp(`^  millracectl ${name} `, 'm'));
  }
  const drain = await helpFor(['drain', '--help'], VERBS);
  for (const line of ['drain -h', 'help drain', 'drain --node 2 --help'])
    assert.equal(await helpFor(line.split(' '), VERBS), drain, line);
  for (const line of ['-h', 'help']) assert.equal(await helpFor([line], VERBS), all, line);
  // Words that are not flags, and a verb that is not there.
  for (const line of ['stream append demo/log help', 'stream append demo/log -- --help', 'help frobnicate'])
    assert.equal(await helpFor(line.split(' '), VERBS), undefined, line);
});

test('flags may precede the verb, words stand for flags, and a flag may be given once', () => {
  const given = (line: string) => Object.fromEntries(parseCommandLine(line.split(' '), VERBS).given);
  assert.deepEqual(given('--json --config c.toml status'), { json: 'true', config: 'c.toml' });
  assert.deepEqual(given('stream --follow tail a/b -n 3'), { stream: 'a/b', follow: 'true', lines: '3' });
  assert.deepEqual(given('stream append a/b -- -x'), { stream: 'a/b', data: '-x' });
  assert.deepEqual(given('import - --to a/b'), { from: '-', to: 'a/b' });
  assert.deepEqual(given('stream append a/b 007'), { stream: 'a/b', data: '007' });
  assert.deepEqual(given('stream append a/b help'), { stream: 'a/b', data: 'help' });
  assert.throws(
    () => given('stream cat a/b --stream a/c'),
    /^UsageError: --stream: given more than once$|given more than once$/,
  );
});
