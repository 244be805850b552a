// Every fault in the command line or the cluster file: nothing on stdout, one sentence on stderr, the exit code.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { mkdirSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { CTL_ENTRY, ctl } from '../support/ctl.ts';
import { removeFolder, run, temporaryFolder } from '../support/server.ts';

const folder = temporaryFolder('bad input ü');
after(() => removeFolder(folder));

interface Case {
  readonly args: readonly string[];
  readonly input?: string;
  readonly code: number;
  readonly sentence: RegExp;
}

async function expectAll(cases: readonly Case[]): Promise<void> {
  const runs = cases.map(async ({ args, input = '', code, sentence }) => {
    const line = args.join(' ');
    const ended = await ctl(args, { input, env: { MILLRACE_CLUSTER: '' } });
    assert.match(ended.stderr, sentence, line);
    assert.match(ended.stderr, /^millracectl: [^\n]+\n$/, line);
    assert.deepEqual([ended.code, ended.stdout], [code, ''], line);
  });
  await Promise.all(runs);
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

const good = file('good.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = 1\n');
const cut = file('cut.pem', '-----BEGIN CERTIFICATE-----\nMIIB\n');
const status = (path: string): string[] => ['status', '--config', path];

test('verbs and flags', async () => {
  const usage = (sentence: RegExp, ...args: string[]): Case => ({ args, code: 2, sentence });
  await expectAll([
    usage(/give a verb: status, /),
    usage(/--verison: unknown flag; did you mean --version\?/, '--verison'),
    usage(/"satus": unknown verb; did you mean status\?/, 'help', 'satus'),
    usage(/"satus": unknown verb; did you mean status\?/, 'satus'),
    usage(/"backup": unknown verb/, 'backup', 'create'),
    usage(/--constructor: unknown flag/, 'status', '--config', good, '--constructor', 'x'),
    usage(/--__proto__: unknown flag/, 'status', '--config', good, '--__proto__'),
    usage(/--confg: unknown flag of status; did you mean --config\?/, 'status', '--confg', good),
    usage(/--location: unknown flag of status/, 'status', '--config', good, '--location', folder),
    usage(/status needs --config FILE, or MILLRACE_CLUSTER/, 'status'),
    usage(/--config: expected FILE/, 'status', '--config', ''),
    usage(/drain needs --node ID/, 'drain', '--config', good),
    usage(/--node -1: expected a number/, 'drain', '--config', good, '--node=-1'),
    usage(/unexpected argument "2"/, 'undrain', '--config', good, '2'),
    usage(/--watch: takes no value/, 'status', '--config', good, '--watch=yes'),
    usage(/backup-create needs --location DIR\|s3:\/\/BUCKET\/PREFIX/, 'backup-create', '--config', good),
    usage(
      /--created-unix-ms soon: expected milliseconds/,
      ...['backup-create', '--config', good, '--location', join(folder, 'b'), '--created-unix-ms', 'soon'],
    ),
    usage(/restart needs --restart-cmd COMMAND/, 'restart', '--config', good),
    usage(/the restart command has an unknown \{hots\}/, 'restart', '--config', good, '--restart-cmd', 'ssh {hots} x'),
    usage(/--http-timeout-secs 0: expected seconds/, 'status', '--config', good, '--http-timeout-secs', '0'),
    usage(
      /--token-file .* ü.*\/nothing cannot be read: no such file or directory$/m,
      ...status(good),
      '--token-file',
      join(folder, 'nothing'),
    ),
    usage(/--ca-file .*certificates in PEM \(block 1, at line 1, is cut off\)$/m, ...status(good), '--ca-file', cut),
    usage(/--ca-file .* cannot be read: illegal operation on a directory$/m, ...status(good), '--ca-file', folder),
  ]);
});

test('an unwritable result is reported; a closed pipe is not', async () => {
  const tool = (end: string): string => `'${process.execPath}' '${CTL_ENTRY}' --help ${end}`;
  const full = run(['bash', '-c', tool('>/dev/full')]);
  assert.equal(await full.exited, 1);
  assert.equal(full.output(), 'millracectl: the result cannot be written to stdout (no space left on device)\n');
  const left = run(['bash', '-c', `set -o pipefail; ${tool('| true')}`]);
  assert.deepEqual([await left.exited, left.output()], [0, '']);
});

test('cluster files', async () => {
  const bad = (sentence: RegExp, path: string, input = ''): Case => ({ args: status(path), input, code: 1, sentence });
  const BROKEN = { toml: 'nodes = [', json: '{"nodes": [', yaml: 'nodes: [' };
  const EMPTY = { toml: 'nodes = []', json: '{"nodes": []}', yaml: 'nodes: []' };
  const NO_HOST = { toml: '[[nodes]]\nid = 1', json: '{"nodes": [{"id": 1}]}', yaml: 'nodes:\n  - id: 1' };
  const NO_ID = { toml: '[[nodes]]\nhost = "a"', json: '{"nodes": [{"host": "a"}]}', yaml: 'nodes:\n  - host: a' };
  for (const format of ['toml', 'json', 'yaml'] as const) {
    const write = (name: string, texts: typeof BROKEN): string => file(`${name}.${format}`, texts[format]);
    const name = format.toUpperCase();
    const blank = file(`blank.${format}`, '');
    await expectAll([
      bad(new RegExp(`broken\\.${format} is not valid ${name}`), write('broken', BROKEN)),
      bad(/the list "nodes" is empty/, write('empty', EMPTY)),
      bad(/nodes\[0\]: node 1 needs a host, an http_url or an admin_url/, write('no-host', NO_HOST)),
      bad(/nodes\[0\]: expected an id from 1 to \d+, not none/, write('no-id', NO_ID)),
      bad(/blank\.\w+(: expected a (list|table)| is not valid JSON)/, blank),
    ]);
  }
  await expectAll([
    bad(/\.toml is not valid TOML in line 3: /, file('line.toml', '[[nodes]]\nid = 1\nhost = nowhere\n')),
    bad(/nothing\.toml cannot be read: there is no such file/, join(folder, 'nothing.toml')),
    bad(/cannot be read: illegal operation on a directory$/m, folder),
    bad(/cannot be read: not a directory$/m, join(good, 'x.toml')),
    bad(/expected a cluster file that ends in \.toml, \.json, \.yaml or \.yml/, file('cluster.ini', '')),
    bad(/the cluster file on stdin is not valid JSON/, '-', '{"nodes"'),
    bad(/the cluster file on stdin is not valid TOML/, '-', 'what is this?'),
    bad(/the cluster file on stdin: expected a list "nodes"/, '-', ''),
  ]);
  const marked = file('marked.json', '\ufeff{"nodes": [{"id": 1, "host": "127.0.0.1", "admin_port": 1}]}');
  assert.match((await ctl(status(marked))).stdout, /0 of 1 nodes answer/);
});

test('a backup of which nothing but the manifest is there', async () => {
  const GROUPS = 256;
  const groups = Array.from({ length: GROUPS }, (_, raft_group_id) => ({
    raft_group_id,
    object: `group-${raft_group_id}.snapshot`,
    blake3: '0'.repeat(64),
    ...{ bytes: 1, group_commit_index: 1, buckets: 0, streams: 0 },
  }));
  const manifest = file('lost/manifest.json', JSON.stringify({ format_version: 1, raft_group_count: GROUPS, groups }));
  const args = ['backup-verify', '--location', dirname(manifest)];
  // Threads that answered while the pool ended used to cause a separate error, half of the time.
  await expectAll(
    Array.from({ length: 3 }, () => ({ args, code: 1, sentence: /group-\d+\.snapshot: there is no such file$/m })),
  );
});
