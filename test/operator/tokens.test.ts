// The verbs of tokens with scopes: what they write is what a node reads, and comments of the operator stay.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs, {
  chmodSync,
  lstatSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { readTokensFile } from '../../src/config/tokens-file.ts';
import { TokenFile } from '../../src/operator/token-file.ts';
import { type CtlResult, ctl } from '../support/ctl.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const folder = temporaryFolder('token-verbs');
after(() => removeFolder(folder));
const run = (...args: string[]): Promise<CtlResult> => ctl(['token', ...args]);

async function done(...args: string[]): Promise<CtlResult> {
  const ended = await run(...args);
  assert.equal(ended.code, 0, ended.stderr);
  return ended;
}

test('issue prints a token once, and writes its digest and scopes', async () => {
  const file = join(folder, 'issue.toml');
  const before = Date.now();
  const { stdout, stderr } = await done(
    'issue',
    file,
    'till-7',
    '--scopes',
    'shop/orders-*:append, read',
    '--expires-in',
    '1h',
  );
  assert.match(stdout, /^[0-9a-f]{64}\n$/);
  assert.match(stderr, /^token till-7: in .*, valid until 20.*; nodes take it at SIGHUP\. This is shown once:\n$/);
  const token = stdout.trim();
  assert.equal(statSync(file).mode & 0o777, 0o640);
  assert.deepEqual(readdirSync(folder), ['issue.toml']);
  const text = readFileSync(file, 'utf8');
  assert(!text.includes(token));
  const [entry] = readTokensFile(file, file, 'scopes').tokens;
  assert(entry?.expiresAtMs !== undefined && entry.expiresAtMs >= before + 3_600_000);
  assert.deepEqual(
    { ...entry, expiresAtMs: 0 },
    {
      ...{ id: 'till-7', sha256: createHash('sha256').update(token).digest('hex'), expiresAtMs: 0 },
      scopes: [{ bucket: 'shop', streams: 'orders-*', operations: ['append', 'read'] }],
    },
  );
  const json = await done('issue', file, 'reports', '--scopes', 'shop:read,list;*/a/"b\\:create', '-o', 'json');
  const shown = JSON.parse(json.stdout) as Record<string, unknown>;
  assert.deepEqual([shown['id'], shown['state'], shown['expires_at']], ['reports', 'valid', null]);
  assert.match(String(shown['token']), /^[0-9a-f]{64}$/);
  assert.equal(json.stderr, '');
  assert.deepEqual(readTokensFile(file, file, 'scopes').tokens[1]?.scopes, [
    { bucket: 'shop', streams: '*', operations: ['read', 'list'] },
    { bucket: '*', streams: 'a/"b\\', operations: ['create'] },
  ]);
  assert(readFileSync(file, 'utf8').startsWith(text), 'what was there stays');
});

test('a token gets limits of its own, which inspect shows', async () => {
  const file = join(folder, 'limits.toml');
  const limits = { requests_per_second: 50, bytes_per_second: 1_048_576 };
  await done('issue', file, 'till', '--scopes', 'b:read', '--limits', 'requests_per_second=50, bytes_per_second=1MiB');
  await done('issue', file, 'free', '--scopes', 'b:read');
  const entries = readTokensFile(file, file, 'scopes').tokens;
  assert.deepEqual(
    entries.map((one) => one.limits),
    [limits, undefined],
  );
  assert.match(
    (await done('inspect', file)).stdout,
    /^till .* b\/\*:read\n +requests_per_second=50\n +bytes_per_second=1048576\nfree .*\n$/m,
  );
  const shown = ['till', 'free'].map(async (id) => JSON.parse((await done('inspect', file, id, '-o', 'json')).stdout));
  const [till, free] = (await Promise.all(shown)) as object[];
  assert.deepEqual([till && 'limits' in till && till.limits, free && 'limits' in free], [limits, false]);
});

const WRITTEN = `# of the shop
revoked = ["lost"]

[[tokens]] # first
id = "one"
sha256 = "${'1'.repeat(64)}"
# the night shift
[[tokens.scopes]]
bucket = "b"
operations = ["read"]

[[tokens]]
id = "lost"
sha256 = "${'2'.repeat(64)}"
expires_at = 2020-01-01T00:00:00Z
scopes = [{ bucket = "b", streams = "s", operations = ["append"] }]

[[tokens]]
id = "old"
sha256 = "${'3'.repeat(64)}"
expires_at = 2020-01-01T00:00:00Z
scopes = [{ bucket = "c", operations = ["list"] }, { bucket = "d", operations = ["list", "read"] }]`;

test('inspect shows state and scopes', async () => {
  const file = join(folder, 'inspect.toml');
  writeFileSync(file, WRITTEN);
  const { stdout } = await done('inspect', file);
  assert.deepEqual(
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.trim().split(/ {2,}/)),
    [
      ['id', 'state', 'expires', 'scopes'],
      ['one', 'valid', 'never', 'b/*:read'],
      ['lost', 'revoked', '2020-01-01T00:00:00.000Z', 'b/s:append'],
      ['old', 'expired', '2020-01-01T00:00:00.000Z', 'c/*:list'],
      ['d/*:list,read'],
    ],
  );
  const one = JSON.parse((await done('inspect', file, 'lost', '--json')).stdout) as Record<string, unknown>;
  assert.deepEqual(one, {
    ...{ id: 'lost', state: 'revoked', sha256: '2'.repeat(64), expires_at: '2020-01-01T00:00:00.000Z' },
    scopes: [{ bucket: 'b', streams: 's', operations: ['append'] }],
  });
  const all = JSON.parse((await done('inspect', file, '-o', 'json')).stdout) as unknown[];
  assert.equal(all.length, 3);
});

test('a token with a role goes to a file of its own', async () => {
  const file = join(folder, 'roles.toml');
  const { stdout } = await done('issue', file, 'grafana', '--role', 'observe');
  await done('issue', file, 'night', '--role', 'destroy', '--expires-in', '1h');
  const [grafana, night] = readTokensFile(file, file, 'role').tokens;
  const sha256 = createHash('sha256').update(stdout.trim()).digest('hex');
  assert.deepEqual(grafana, { id: 'grafana', sha256, expiresAtMs: undefined, scopes: [], role: 'observe' });
  assert.equal(night?.role, 'destroy');
  assert.match(
    (await done('inspect', file)).stdout,
    /^id +state +expires +role\ngrafana +valid +never +observe\nnight/,
  );
  const shown = JSON.parse((await done('inspect', file, 'grafana', '-o', 'json')).stdout) as object;
  assert.deepEqual(shown, { id: 'grafana', state: 'valid', sha256, expires_at: null, role: 'observe' });
  await done('revoke', file, 'grafana');
  assert.deepEqual(
    readTokensFile(file, file, 'role').tokens.map(({ id }) => id),
    ['night'],
  );
});

test('revoke takes one entry out and leaves the rest as it was written', async () => {
  const file = join(folder, 'revoke.toml');
  writeFileSync(file, WRITTEN);
  chmodSync(file, 0o640);
  assert.match((await done('revoke', file, 'lost')).stdout, /^token lost: no longer in .*SIGHUP\n$/);
  const text = readFileSync(file, 'utf8');
  const [head = '', , rest = ''] = WRITTEN.split(/\n\[\[tokens\]\]\n/);
  assert.equal(text, `${head}\n[[tokens]]\n${rest}`);
  assert.equal(statSync(file).mode & 0o777, 0o640);
  await done('revoke', file, 'one');
  await done('revoke', file, 'old');
  assert.equal(readFileSync(file, 'utf8'), '# of the shop\nrevoked = ["lost"]\n');
  await done('issue', file, 'one', '--scopes', 'b:read');
  assert.deepEqual(
    readTokensFile(file, file, 'scopes').tokens.map(({ id }) => id),
    ['one'],
  );
});

test('revoke --signed ends a token that no file lists, once, and comments stay', async () => {
  const file = join(folder, 'signed.toml');
  const many = 'revoked = [ # by hand\n  "lost", # ]\n]\n# end\n';
  const cases: readonly (readonly [text: string, id: string, becomes: string])[] = [
    [WRITTEN, 'agent-7', WRITTEN.replace('["lost"]', '["agent-7", "lost"]')],
    ['# none yet\n', 'a$&"\\', 'revoked = ["a$&\\"\\\\"]\n# none yet\n'],
    [' revoked = [\n]\n', 'x', ' revoked = ["x"]\n'],
    [many, 'https://id.example|7', many.replace('[', '["https://id.example|7", ')],
  ];
  for (const [text, id, becomes] of cases) {
    writeFileSync(file, text);
    for (let times = 0; times < 2; times++) {
      const { stdout } = await done('revoke', file, id, '--signed');
      assert.equal(stdout, `token ${id}: revoked in ${file}; it ends when the nodes get SIGHUP\n`);
      assert.equal(readFileSync(file, 'utf8'), becomes);
      assert(readTokensFile(file, file, 'scopes').revoked.includes(id));
    }
  }
});

test('what is wrong is one sentence, and the file stays', async () => {
  const [file, inline] = [join(folder, 'wrong.toml'), join(folder, 'inline.toml')];
  writeFileSync(file, WRITTEN);
  const entry = `{ id = "a", sha256 = "${'4'.repeat(64)}", scopes = [{ bucket = "b", operations = ["read"] }] }`;
  writeFileSync(inline, `tokens = [${entry}]\n`);
  const broken = join(folder, 'broken.toml');
  writeFileSync(broken, '[[tokens]]\nid = "x"\n');
  const roles = join(folder, 'no-limits.toml');
  const ofRoles = join(folder, 'of-roles.toml');
  writeFileSync(ofRoles, `[[tokens]]\nid = "two"\nsha256 = "${'5'.repeat(64)}"\nrole = "observe"\n`);
  const cases: readonly (readonly [number | string, string[], RegExp])[] = [
    [1, ['issue', file, 'one', '--scopes', 'b:read'], /there is a token one already; revoke it first$/],
    [1, ['issue', join(folder, 'none.toml'), 'a b', '--scopes', 'b:read'], /tokens\[0\]\.id: expected an id/],
    [2, ['issue', file, 'two', '--scopes', 'b:reed'], /--scopes b:reed: scopes\[0\]\.operations\[0\]: expected one of/],
    [
      2,
      ['issue', file, 'two', '--scopes', 'shop'],
      /"shop" names no operations; write BUCKET\/STREAMS:create,append,\.\.\.$/,
    ],
    [2, ['issue', file, 'two', '--scopes', '/s:read'], /scopes\[0\]\.bucket/],
    [
      2,
      ['issue', file, 'two', '--scopes', 'b:read', '--limits', 'live_readers'],
      /limits\.live_readers: expected a whole/,
    ],
    [
      2,
      ['issue', file, 'two', '--scopes', 'b:read', '--limits', 'readers=5'],
      /limits\.readers: unknown key; there are/,
    ],
    [
      1,
      ['issue', roles, 'two', '--role', 'observe', '--limits', 'live_readers=5'],
      /\.limits: tokens with a role have none/,
    ],
    [2, ['issue', file, 'two'], /token issue needs --scopes or --role/],
    [2, ['issue', file, 'two', '--scopes', 'b:read', '--role', 'observe'], /--scopes or --role, and not both/],
    [2, ['issue', file, 'two', '--role', 'admin'], /--role admin: expected observe or operate or destroy/],
    [1, ['issue', file, 'two', '--role', 'observe'], /a file has tokens with scopes or tokens with roles, not both/],
    [
      2,
      ['issue', file, 'two', '--scopes', 'b:read', '--expires-in', '99999h'],
      /--expires-in 99999h: expected seconds/,
    ],
    [3, ['inspect', file, 'two'], /there is no token two in /],
    [3, ['revoke', file, 'two'], /there is no token two in .*; --signed ends one that an issuer or a node signed$/],
    [1, ['revoke', file, 'x'.repeat(65), '--signed'], /revoked\[0\]: expected an id of 1 to 64 characters$/],
    [1, ['revoke', ofRoles, 'two', '--signed'], /is of the admin plane, where no token is signed; name that of http/],
    [1, ['inspect', join(folder, 'nowhere.toml')], /nowhere\.toml cannot be read: there is no such file$|no such file/],
    [1, ['inspect', broken], /broken\.toml: tokens\[0\]/],
    [1, ['issue', inline, 'two', '--scopes', 'b:read'], /inline\.toml/],
    [1, ['revoke', inline, 'a'], /is not written with one \[\[tokens\]\] for each token, so change it by hand$/],
    [2, ['burn', file], /"token burn": unknown verb/],
  ];
  const kept = readdirSync(folder);
  for (const [code, args, sentence] of cases) {
    const ended = await run(...args);
    assert.equal(ended.code, code, `${args.join(' ')}: ${ended.stderr}`);
    assert.match(ended.stderr.trimEnd(), sentence);
    assert.equal(ended.stdout, '');
  }
  assert.deepEqual(readdirSync(folder), kept);
  assert.equal(readFileSync(file, 'utf8'), WRITTEN);
});

const RIGHTS = { scopes: [{ bucket: 'b', streams: '*', operations: ['read'] as const }] };

function idsIn(file: string): string[] {
  return readTokensFile(file, file, 'scopes').tokens.map(({ id }) => id);
}

test('of two commands at once one is refused, and the change of the other stays', async () => {
  const file = join(folder, 'raced.toml');
  const wish = (id: string): Parameters<TokenFile['issue']>[0] => ({ id, rights: RIGHTS, expiresAtMs: undefined });
  const [first, second] = [TokenFile.read(file, 'empty'), TokenFile.read(file, 'empty')];
  first.issue(wish('one'));
  const late = /raced\.toml cannot be written: another command has just changed it; repeat this one$/;
  assert.throws(() => second.issue(wish('two')), late);
  const [third, fourth] = [TokenFile.read(file, 'refused'), TokenFile.read(file, 'refused')];
  third.issue(wish('two'));
  assert.throws(() => fourth.revoke('one'), late);
  assert.throws(() => fourth.revokeSigned('agent'), late);
  assert.deepEqual(idsIn(file), ['one', 'two']);
  // A process that was killed leaves its lock, which is told how to take away.
  writeFileSync(`${file}.lock`, '');
  const { code, stdout, stderr } = await run('issue', file, 'three', '--scopes', 'b:read');
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(
    stderr,
    /another command is changing it; repeat this one, and if none is, remove \S+raced\.toml\.lock$/m,
  );
  assert.deepEqual(idsIn(file), ['one', 'two']);
  rmSync(`${file}.lock`);
  await done('revoke', file, 'one');
  assert.deepEqual(idsIn(file), ['two']);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('raced')),
    ['raced.toml'],
  );
});

test('a link stays, and the file behind it changes', async () => {
  const [file, link] = [join(folder, 'behind.toml'), join(folder, 'link.toml')];
  symlinkSync('behind.toml', link);
  const { code, stderr } = await run('issue', link, 'one', '--scopes', 'b:read');
  assert.deepEqual([code, readdirSync(folder).includes('behind.toml')], [1, false], 'a link to nothing is a mistake');
  assert.match(stderr, /link\.toml cannot be written: no such file or directory$/m);
  await done('issue', file, 'one', '--scopes', 'b:read');
  await done('issue', link, 'two', '--scopes', 'b:read');
  assert(lstatSync(link).isSymbolicLink());
  assert.deepEqual(idsIn(file), ['one', 'two']);
});

test('a file is on disk before it has its name, and its name before the command ends', async (t) => {
  const file = join(folder, 'synced.toml');
  const calls: string[] = [];
  const { fsyncSync, renameSync } = fs;
  t.mock.method(fs, 'fsyncSync', (descriptor: number) => {
    calls.push(fs.fstatSync(descriptor).isDirectory() ? 'sync folder' : 'sync file');
    fsyncSync(descriptor);
  });
  t.mock.method(fs, 'renameSync', (from: string, to: string) => {
    calls.push('rename');
    renameSync(from, to);
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  await done('issue', file, 'one', '--scopes', 'b:read');
  assert.deepEqual(calls, ['sync file', 'rename', 'sync folder']);
});
