// Encrypted backups, the operator's way: every verb that takes a backup reads one with its identity, and refuses in a
// sentence one without it, for another key, altered, or put together from two.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { parseManifest } from '../../src/backup/format/manifest.ts';
import { isAge } from '../../src/encryption/age.ts';
import { type CtlResult, clusterFileOf, ctl, scratchFile } from '../support/ctl.ts';
import { createRandom } from '../support/random.ts';
import { removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { describeWorld, fillWorld } from './world.ts';

const GROUPS = 2;
const NAMES = ['group-0000.snapshot', 'group-0001.snapshot', 'manifest.json'];

interface KeyPair {
  readonly identity: string;
  readonly identityFile: string;
  readonly recipientsFile: string;
}

async function newPair(folder: string, name: string): Promise<KeyPair> {
  const identity = await generateX25519Identity();
  const [identityFile, recipientsFile] = [join(folder, `${name}.key`), join(folder, `${name}.pub`)];
  writeFileSync(identityFile, `# ${name}\n${identity}\n`, { mode: 0o600 });
  writeFileSync(recipientsFile, `${await identityToRecipient(identity)}\n`);
  return { identity, identityFile, recipientsFile };
}

function refused(result: CtlResult, why: RegExp, { identity }: KeyPair): void {
  assert.equal(result.code, 1, result.stderr);
  assert.match(result.stderr, why);
  assert(!result.stderr.includes(identity.slice(20)), 'no key shows');
}

test('an encrypted backup is created, verified and restored; what is wrong with one is said', async (t: TestContext) => {
  const folder = temporaryFolder('sealed');
  t.after(() => removeFolder(folder));
  const [pair, stranger] = [await newPair(folder, 'mine'), await newPair(folder, 'other')];
  const at = (name: string): string => join(folder, name);
  const verify = (name: string, ...flags: string[]): Promise<CtlResult> =>
    ctl(['backup-verify', '--location', at(name), ...flags]);
  const withKey = ['--identity-file', pair.identityFile];

  await withServer({ groups: GROUPS }, async (source) => {
    const world = await fillWorld(source, createRandom(11), 16);
    const before = await describeWorld(source, world);
    const config = clusterFileOf(source);
    const create = (name: string, ...flags: string[]): Promise<CtlResult> =>
      ctl(['backup-create', '--config', config, '--location', at(name), ...flags]);
    for (const name of ['first', 'second']) {
      const created = await create(name, '--recipients-file', pair.recipientsFile);
      assert.equal(created.code, 0, created.stderr);
      assert.deepEqual(readdirSync(at(name)).sort(), NAMES);
    }
    assert.equal((await create('plain')).code, 0);
    for (const name of NAMES.slice(0, 2)) assert(isAge(readFileSync(join(at('first'), name))), name);
    const shell = readFileSync(join(at('first'), 'manifest.json'), 'utf8');
    assert(!shell.includes('blake3') && shell.includes('"format_version": 2'), shell);

    const verified = await verify('first', ...withKey);
    assert.equal(verified.code, 0, verified.stderr);
    await withServer({ groups: GROUPS }, async (target) => {
      const restore = (...flags: string[]): Promise<CtlResult> =>
        ctl(['restore', '--config', clusterFileOf(target), '--location', at('first'), ...flags]);
      refused(await restore(), /the backup is encrypted: .*--identity-file/, pair);
      refused(await restore('--identity-file', stranger.identityFile), /none of 1 identities opens it/, stranger);
      const restored = await restore(...withKey);
      assert.equal(restored.code, 0, restored.stderr);
      assert.deepEqual(await describeWorld(target, world), before);
      assert.equal((await restore('--resume', ...withKey)).code, 0, 'every group is known by its digest');
    });
  });

  refused(await verify('first'), /the backup is encrypted: .*--identity-file/, pair);
  refused(await verify('plain', ...withKey), /is not encrypted, .* leave out --identity-file/, pair);
  assert.equal((await verify('plain')).code, 0);
  assert.throws(
    () => parseManifest(readFileSync(join(at('first'), 'manifest.json'), 'utf8')),
    /the backup is encrypted/,
    'the program of before says that it reads up to format version 1',
  );
  const altered: readonly (readonly [string, RegExp, (path: string) => void])[] = [
    [
      'flipped',
      /group-0000\.snapshot: a part of it is not what was written/,
      (path) => flip(join(path, NAMES[0] ?? '')),
    ],
    ['cut', /group-0001\.snapshot: a part of it/, (path) => truncateSync(join(path, NAMES[1] ?? ''), 1000)],
    [
      'swapped',
      /group-0000\.snapshot: it is of group 1/,
      (path) => cpSync(join(path, NAMES[1] ?? ''), join(path, NAMES[0] ?? '')),
    ],
    [
      'mixed',
      /group-0001\.snapshot: /,
      (path) => cpSync(join(at('plain'), NAMES[1] ?? ''), join(path, NAMES[1] ?? '')),
    ],
    ['shell', /manifest\.json: /, (path) => flipManifest(join(path, 'manifest.json'))],
  ];
  for (const [name, why, alter] of altered) {
    cpSync(at('first'), at(name), { recursive: true });
    alter(at(name));
    refused(await verify(name, ...withKey), why, pair);
  }
  writeFileSync(stranger.recipientsFile, 'ssh-ed25519 AAAA\n');
  const bad = await ctl([
    'backup-create',
    '--config',
    scratchFile('cluster.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\n'),
    '--location',
    at('bad'),
    '--recipients-file',
    stranger.recipientsFile,
  ]);
  assert.match(bad.stderr, /--recipients-file: expected a recipient of age \(age1\.\.\.\) in line 1/);
  const missing = await verify('first', '--identity-file', at('nothing'));
  assert.match(missing.stderr, /--identity-file: cannot be read/);
});

function flip(path: string): void {
  const bytes = readFileSync(path);
  const at = bytes.length - 5;
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

function flipManifest(path: string): void {
  const shell = JSON.parse(readFileSync(path, 'utf8')) as { manifest: string };
  const bytes = Buffer.from(shell.manifest, 'base64');
  bytes[bytes.length - 5] = (bytes[bytes.length - 5] ?? 0) ^ 1;
  writeFileSync(path, JSON.stringify({ ...shell, manifest: bytes.toString('base64') }));
}
