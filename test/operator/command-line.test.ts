import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Values, parseCommandLine } from '../../src/operator/command-line.ts';
import { UsageError } from '../../src/operator/failure.ts';
import { helpOfAll, helpOfVerb } from '../../src/operator/help.ts';
import { VERBS } from '../../src/operator/verbs.ts';

function parse(line: string, env: Readonly<Record<string, string>> = {}): Values {
  const { verb, given } = parseCommandLine(line.split(' ').filter(Boolean), VERBS);
  assert(verb !== undefined);
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
  assert.equal(parse('status', { MILLRACE_CLUSTER: '/etc/c.toml' }).text('config'), '/etc/c.toml');
  assert.equal(parse('status --config x', { MILLRACE_CLUSTER: '/etc/c.toml' }).text('config'), 'x');
  assert.equal(parse('wait-ready --config x --expected-groups 16').ms('http-timeout-secs'), 5000);
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
    /^--drain-timeout-secs soon: expected seconds from 0\.05 to 86400$/,
  ],
  ['drain --config a --node 1 --poll-interval-secs 0', /^--poll-interval-secs 0: expected seconds/],
  ['wait-ready --config a --expected-groups 0', /^--expected-groups 0: expected a number from 1/],
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

test('help names every verb and every flag', () => {
  const all = helpOfAll(VERBS);
  for (const verb of VERBS) {
    assert(all.includes(`  ${verb.name} `), verb.name);
    const one = helpOfVerb(verb);
    for (const flag of Object.keys(verb.flags)) assert(one.includes(`--${flag}`), `${verb.name} --${flag}`);
  }
  for (const line of ['drain --help', 'drain -h', 'help drain']) {
    const { verb, help } = parseCommandLine(line.split(' '), VERBS);
    assert.deepEqual([verb?.name, help], ['drain', true], line);
  }
  for (const line of ['--help', '-h', 'help']) {
    const { verb, help } = parseCommandLine([line], VERBS);
    assert.deepEqual([verb, help], [undefined, true], line);
  }
});
