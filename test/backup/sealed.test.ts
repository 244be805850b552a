// Encrypted backups, the operator's way: every verb that takes a backup reads one with its identity, and refuses in a
// sentence one without it, for another key, altered, or put together from two. No second backup goes into the place of
// one, whichever keys that is for.
import assert from 'node:assert/strict';
import { appendFileSync, cpSync, readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parseManifest } from '../../src/backup/format/manifest.ts';
import { isAge } from '../../src/encryption/age.ts';
import { type KeyPair, newKeyPair } from '../support/age-keys.ts';
import { type CtlResult, clusterFileOf, ctl, scratchFile } from '../support/ctl.ts';
import { createRandom } from '../support/random.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { describeWorld, fillWorld } from './world.ts';

const GROUPS = 2;
const NAMES = ['group-0000.snapshot', 'group-0001.snapshot', 'manifest.json'] as const;
const [ZERO, ONE, MANIFEST] = NAMES;
const TEXT = { 'content-type': 'text/plain' };

function refused({ code, stderr }: CtlResult, why: RegExp, ...pairs: readonly KeyPair[]): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, why);
  for (const { identity } of pairs) assert(!stderr.includes(identity.slice(20)), 'no key shows');
}

function change(path: string, to: (bytes: Buffer) => Uint8Array | string): void {
  writeFileSync(path, to(readFileSync(path)));
}

function flipped(bytes: Buffer): Buffer {
  const at = bytes.length - 5;
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  return bytes;
}

interface Shell {
  readonly format_version: number;
  readonly encryption: string;
  readonly manifest: string;
}

const shellWith = (to: (shell: Shell) => object) => (path: string) =>
  change(join(path, MANIFEST), (bytes) => JSON.stringify(to(JSON.parse(bytes.toString()) as Shell)));

/** A set and what may have become of it, with the sentence; the other sets lie beside it. */
interface Altered {
  readonly what: string;
  readonly why: RegExp;
  readonly alter: (path: string) => void;
  /** Restores look at everything that verification looks at, before they ask a node: a few show it. */
  readonly isRestored?: true;
}

/** File `name` of another set in the place of `as`. */
const taken = (set: string, name: string, as: string) => (path: string) =>
  cpSync(join(path, '..', set, name), join(path, as));

const ALTERED: readonly Altered[] = [
  {
    what: 'a byte is changed',
    why: /group-0000\.snapshot: a part of it is not what was written/,
    alter: (path) => change(join(path, ZERO), flipped),
  },
  {
    what: 'an object is cut off',
    why: /group-0001\.snapshot: a part of it is not what was written/,
    alter: (path) => truncateSync(join(path, ONE), 1000),
    isRestored: true,
  },
  {
    what: 'an object is cut off in its header',
    why: /group-0001\.snapshot: its header has no end: it is cut off or altered/,
    alter: (path) => truncateSync(join(path, ONE), 60),
  },
  {
    what: 'an object is empty',
    why: /group-0001\.snapshot: it is not encrypted in the age format/,
    alter: (path) => truncateSync(join(path, ONE)),
  },
  {
    what: 'an object goes on behind its end',
    why: /group-0001\.snapshot: a part of it is not what was written/,
    alter: (path) => appendFileSync(join(path, ONE), 'more'),
  },
  {
    what: 'an object is gone',
    why: /group-0001\.snapshot: there is no such file/,
    alter: (path) => rmSync(join(path, ONE)),
  },
  {
    what: 'two objects are swapped',
    why: /group-000[01]\.snapshot: (it is of group [01]|\S+ has \d+ bytes in it, not the \d+ of the manifest)/,
    alter: (path) => {
      const one = readFileSync(join(path, ONE));
      cpSync(join(path, ZERO), join(path, ONE));
      writeFileSync(join(path, ZERO), one);
    },
    isRestored: true,
  },
  ...[ZERO, ONE].map((name): Altered => ({
    what: `${name} of an older backup for the same key`,
    why: /snapshot: (its BLAKE3 is not that of the manifest|\S+ has \d+ bytes in it, not the \d+ of the manifest)/,
    alter: taken('older', name, name),
  })),
  {
    what: 'the manifest of an older backup for the same key',
    why: /snapshot: (its BLAKE3 is not that of the manifest|\S+ has \d+ bytes in it, not the \d+ of the manifest)/,
    alter: taken('older', MANIFEST, MANIFEST),
  },
  {
    what: 'an object that is not encrypted',
    why: /group-0001\.snapshot: it is not encrypted in the age format/,
    alter: taken('plain', ONE, ONE),
  },
  {
    what: 'an object for another key',
    why: /group-0001\.snapshot: it is encrypted, and none of 1 identities opens it/,
    alter: taken('foreign', ONE, ONE),
  },
  {
    what: 'the manifest for another key',
    why: /manifest\.json: it is encrypted, and none of 1 identities opens it/,
    alter: taken('foreign', MANIFEST, MANIFEST),
    isRestored: true,
  },
  {
    what: 'the manifest of a plain backup',
    why: /the backup is not encrypted, .* leave out --identity-file/,
    alter: taken('plain', MANIFEST, MANIFEST),
  },
  {
    what: 'no manifest',
    why: /holds no backup: there is no manifest\.json/,
    alter: (path) => rmSync(join(path, MANIFEST)),
  },
  {
    what: 'a manifest that was changed',
    why: /manifest\.json: a part of it is not what was written/,
    alter: shellWith((shell) => ({
      ...shell,
      manifest: flipped(Buffer.from(shell.manifest, 'base64')).toString('base64'),
    })),
  },
  {
    what: 'a manifest that is not one of age',
    why: /manifest\.json: it is not encrypted in the age format/,
    alter: shellWith((shell) => ({ ...shell, manifest: 'AAAA' })),
  },
  ...[{ encryption: 'later' }, { format_version: 3 }, { manifest: 1 }].map((more): Altered => ({
    what: `a manifest with ${JSON.stringify(more)}`,
    why: /manifest\.json is encrypted in a way that this program does not know; use a newer one/,
    alter: shellWith((shell) => ({ ...shell, ...more })),
  })),
];

test('an encrypted backup is created, verified and restored; what is wrong with one is said', async (t: TestContext) => {
  const folder = temporaryFolder('sealed');
  t.after(() => removeFolder(folder));
  const [pair, stranger] = [await newKeyPair(folder, 'mine'), await newKeyPair(folder, 'other')];
  const at = (name: string): string => join(folder, name);
  const verify = (name: string, ...flags: string[]): Promise<CtlResult> =>
    ctl(['backup-verify', '--location', at(name), ...flags]);
  const withKey = ['--identity-file', pair.identityFile];
  const strange = ['--identity-file', stranger.identityFile];

  await withServer({ groups: GROUPS }, async (source) => {
    const world = await fillWorld(source, createRandom(11), 8);
    const create = (name: string, { recipientsFile }: Partial<KeyPair> = {}): Promise<CtlResult> => {
      const flags = recipientsFile === undefined ? [] : ['--recipients-file', recipientsFile];
      return ctl(['backup-create', '--config', clusterFileOf(source), '--location', at(name), ...flags]);
    };
    const created = async (...how: Parameters<typeof create>): Promise<void> => {
      const { code, stderr } = await create(...how);
      assert.equal(code, 0, stderr);
      assert.deepEqual(readdirSync(at(how[0])).sort(), NAMES);
    };
    await created('older', pair);
    await growEveryGroup(source);
    const before = await describeWorld(source, world);
    await created('first', pair);
    await created('foreign', stranger);
    await created('plain');
    for (const name of [ZERO, ONE]) assert(isAge(readFileSync(join(at('first'), name))), name);
    const shell = readFileSync(join(at('first'), MANIFEST), 'utf8');
    assert(!shell.includes('blake3') && shell.includes('"format_version": 2'), shell);

    // A second backup wants a place of its own, also for other keys, and where the first one was not finished.
    cpSync(at('foreign'), at('unfinished'), { recursive: true });
    rmSync(join(at('unfinished'), MANIFEST));
    for (const [name, why] of [
      ['foreign', /is not empty: it holds a backup already, and each wants a place of its own/],
      ['unfinished', /is not empty: it holds a backup that was not finished, or is on its way/],
    ] as const) {
      const there = readdirSync(at(name)).map((file) => readFileSync(join(at(name), file)));
      for (const recipients of [pair, undefined]) refused(await create(name, recipients), why);
      assert.deepEqual(
        readdirSync(at(name)).map((file) => readFileSync(join(at(name), file))),
        there,
      );
    }

    const verified = await verify('first', ...withKey);
    assert.equal(verified.code, 0, verified.stderr);
    await withServer({ groups: GROUPS }, async (target) => {
      const restore = (name: string, ...flags: string[]): Promise<CtlResult> =>
        ctl(['restore', '--config', clusterFileOf(target), '--location', at(name), ...flags]);
      const both = [
        (...flags: string[]) => verify('first', ...flags),
        (...flags: string[]) => restore('first', ...flags),
      ];
      for (const verb of both) {
        refused(await verb(), /the backup is encrypted: .*--identity-file/, pair);
        refused(await verb(...strange), /manifest\.json: it is encrypted, and none of 1 identities opens it/, stranger);
        refused(await verb('--identity-file', at('nothing')), /--identity-file: cannot be read/);
      }
      for (const [i, { what, why, alter, isRestored }] of ALTERED.entries()) {
        const name = `altered-${i}`;
        cpSync(at('first'), at(name), { recursive: true });
        alter(at(name));
        for (const verb of isRestored ? [verify, restore] : [verify])
          await assert.doesNotReject(async () => refused(await verb(name, ...withKey), why, pair), what);
      }
      // Nothing of all that is in the target.
      const restored = await restore('first', ...withKey);
      assert.equal(restored.code, 0, restored.stderr);
      assert.deepEqual(await describeWorld(target, world), before);
      assert.equal((await restore('first', '--resume', ...withKey)).code, 0, 'every group is known by its digest');
    });
  });

  refused(await verify('plain', ...withKey), /is not encrypted, .* leave out --identity-file/, pair);
  assert.equal((await verify('plain')).code, 0);
  assert.throws(
    () => parseManifest(readFileSync(join(at('first'), MANIFEST), 'utf8')),
    /the backup is encrypted/,
    'the program of before says that it reads up to format version 1',
  );
  const bad = await ctl([
    ...['backup-create', '--config', scratchFile('cluster.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\n')],
    ...['--location', at('bad'), '--recipients-file', scratchFile('keys', 'ssh-ed25519 AAAA\n')],
  ]);
  assert.match(bad.stderr, /--recipients-file: expected a recipient of age \(age1\.\.\.\) in line 1/);
});

/** So that no group is what it was: a quota of a bucket is replicated to all of them. */
async function growEveryGroup({ client, admin }: TestServer): Promise<void> {
  await admin.expect(204, 'PUT', '/__svc/quota/orders', { 'content-type': 'application/json' }, '{"max_streams":2000}');
  for (let i = 0; i < 8; i++) await client.create(`/orders/more-${i}`, TEXT, 'more');
}
