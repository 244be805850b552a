// Contexts: clusters by name, in a file that only its owner reads.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, test } from 'node:test';
import { parseCommandLine } from '../../src/operator/command-line.ts';
import { Values } from '../../src/operator/flags.ts';
import { Contexts } from '../../src/operator/contexts.ts';
import { VERBS } from '../../src/operator/verbs.ts';
import { type CtlResult, ctl, scratchFile } from '../support/ctl.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const home = temporaryFolder('contexts');
after(() => removeFolder(home));
const CLUSTER = scratchFile('cluster.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = 1\n');
const TOKEN = scratchFile('token', 'secret\n');
const path = join(home, 'millrace', 'contexts.json');
const run = (...args: string[]): Promise<CtlResult> =>
  ctl(args, { env: { XDG_CONFIG_HOME: home, MILLRACE_CLUSTER: '', MILLRACE_URL: '', MILLRACE_CONTEXT: '' } });

test('add, use, ls and rm', async () => {
  const done = async (line: string): Promise<string> => {
    const { code, stdout, stderr } = await run(...line.split(' '));
    assert.deepEqual([code, stderr], [0, ''], line);
    return stdout;
  };
  assert.equal(await done('context ls --output json'), '[]\n');
  assert.equal(
    await done(`context add prod ${CLUSTER} --token-file ${relative(process.cwd(), TOKEN)}`),
    'context prod: added and in use\n',
  );
  assert.equal(await done('context add here --url http://127.0.0.1:9'), 'context here: added\n');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal(statSync(join(home, 'millrace')).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(join(home, 'millrace')), ['contexts.json']);
  const listed = JSON.parse(await done('context ls -o json')) as { name: string; 'token-file'?: string }[];
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['here', 'prod'],
  );
  assert.equal(listed[1]?.['token-file'], TOKEN, 'paths hold in any folder');
  assert.match(await done('context ls'), /^ {3}name {2}cluster file +url\n {3}here +http:\S+:9\n\* {2}prod {2}\//);
  assert.equal(await done('context use here'), 'context here: in use\n');
  assert.equal(await done('context rm here'), 'context here: removed\n');
  assert.equal((JSON.parse(readFileSync(path, 'utf8')) as { current?: string }).current, undefined);
  // A verb of the cluster takes the one that is named.
  const status = await done('status --context prod -o json');
  assert.match(status, /"admin_url": "http:\/\/127\.0\.0\.1:1"/);
});

test('of two changes at once the later one is refused', () => {
  const env = { XDG_CONFIG_HOME: join(home, 'raced') };
  const [first, second] = [Contexts.read(env), Contexts.read(env)];
  first.add('one', new Map([['url', 'http://127.0.0.1:1']]));
  assert.throws(
    () => second.add('two', new Map()),
    /contexts\.json cannot be written: another command has just changed/,
  );
  assert.deepEqual(Contexts.read(env).names, ['one']);
});

test('what is wrong is one sentence, and its exit code', async () => {
  for (const [code, line, sentence] of [
    [3, 'context use none', /there is no context none; there are prod$/],
    [3, 'context rm none', /there is no context none/],
    [3, 'status --context none', /there is no context none/],
    [1, `context add prod ${CLUSTER}`, /there is a context prod already/],
    [1, `context add a/b ${CLUSTER}`, /a context has a name of letters/],
    [1, 'context add x /nowhere.toml', /\/nowhere\.toml cannot be read: there is no such file$/],
    [2, 'context add x', /needs a cluster file or --url/],
    [2, 'context', /^millracectl: context needs a verb: add, use, ls, rm; see context --help$/],
    [2, 'context ad x', /"context ad": unknown verb; did you mean add\?/],
    [2, `status --context prod --config ${CLUSTER}`, /--context names the cluster already/],
  ] as const) {
    const ended = await run(...line.split(' '));
    assert.equal(ended.code, code, `${line}: ${ended.stderr}`);
    assert.match(ended.stderr.trimEnd(), sentence, line);
    assert.equal(ended.stdout, '', line);
  }
  writeFileSync(path, '{"contexts":[]}');
  const damaged = await run('status');
  assert.match(damaged.stderr, /contexts\.json is damaged: .*; remove it$/m);
});

test('flags, a chosen context, the environment, the one in use: in this order', () => {
  const flags = new Map([
    ['config', '/of/context'],
    ['client-token-file', '/token/of/context'],
  ]);
  const parsed = (
    line: string,
    isChosen: boolean,
    env: Readonly<Record<string, string>> = {},
  ): (string | undefined)[] => {
    const { verb, given } = parseCommandLine(line.split(' '), VERBS);
    assert(verb !== undefined);
    const values = new Values(verb, given, env, { isChosen, flags });
    return ['url', 'config', 'client-token-file'].map((name) => values.text(name));
  };
  const ls = 'stream ls demo';
  assert.deepEqual(parsed(ls, false), [undefined, '/of/context', '/token/of/context']);
  assert.deepEqual(parsed(ls, true, { MILLRACE_URL: 'http://env' }), [undefined, '/of/context', '/token/of/context']);
  // The token of a context goes nowhere else.
  assert.deepEqual(parsed(ls, false, { MILLRACE_URL: 'http://env' }), ['http://env', undefined, undefined]);
  assert.deepEqual(parsed(`${ls} --url http://flag`, false), ['http://flag', undefined, undefined]);
  assert.deepEqual(parsed(`${ls} --config /flag`, false, { MILLRACE_URL: 'http://env' }), [
    undefined,
    '/flag',
    undefined,
  ]);
  assert.deepEqual(Contexts.read({ XDG_CONFIG_HOME: '/nonexistent' }).names, []);
});
