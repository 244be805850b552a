// An encrypted backup set, with the encrypted cold objects that it refers to, as they were once written, and the keys
// that open them: later versions must verify, restore and read them. Each is for two recipients, one of which
// withstands quantum computers. WRITE_GOLDEN=1 writes new ones, only for a new format; existing files never change.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { generateHybridIdentity } from 'age-encryption';
import { isAge } from '../../src/encryption/age.ts';
import { coldKeysToml, newKeyPair, writeIdentities } from '../support/age-keys.ts';
import { objectsIn } from '../support/cold-store.ts';
import { clusterFileOf, ctl } from '../support/ctl.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const FOLDER = join(REPO_ROOT, 'test', 'backup', 'golden', 'format-2');
const [SET, COLD] = [join(FOLDER, 'backup'), join(FOLDER, 'cold')];
const FILES = ['manifest.json', 'group-0000.snapshot'];
const KEYS = ['x25519', 'hybrid'] as const;
const CREATED_MS = 1_795_785_600_000;

const TEXT = { 'content-type': 'text/plain' };
const JSON_TYPE = { 'content-type': 'application/json' };
/** More than one chunk of age. */
const LINES = Array.from({ length: 5000 }, (_, i) => `line ${i} of orders\n`).join('');
const MORE = 'behind the first object\n';
const RECORDS = JSON.stringify(Array.from({ length: 20 }, (_, n) => ({ n, name: `é${n}` })));

const coldToml = (keys = ''): string =>
  `[storage.cold]\nbackend = "dir"\nroot = "test"\nflush_interval = "100ms"\nflush_size = 1\n${keys}`;
const coldOf = (server: TestServer): string => join(server.dataDir, 'cold');

async function write(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  const pairs = [
    await newKeyPair(FOLDER, 'x25519'),
    await newKeyPair(FOLDER, 'hybrid', () => generateHybridIdentity()),
  ];
  for (const { recipientsFile } of pairs) rmSync(recipientsFile);
  const [identities, recipients] = [join(FOLDER, 'x25519.key'), join(FOLDER, 'recipients.txt')];
  writeFileSync(recipients, pairs.map((pair) => `${pair.recipient}\n`).join(''));
  await withServer({ groups: 1, toml: coldToml(coldKeysToml({ identities, recipients })) }, async (server) => {
    await server.client.expect(201, 'PUT', '/orders');
    await server.client.expect(201, 'PUT', '/orders/text', TEXT, Buffer.from(LINES));
    await server.client.expect(201, 'PUT', '/orders/json', JSON_TYPE, Buffer.from(RECORDS));
    await until('nothing is hot', async () => (await server.metrics())['cold_hot_bytes'] === 0);
    await server.client.append('/orders/text', TEXT, Buffer.from(MORE));
    const how = ['--recipients-file', recipients, '--created-unix-ms', String(CREATED_MS)];
    const created = await ctl(['backup-create', '--config', clusterFileOf(server), '--location', SET, ...how]);
    assert.equal(created.code, 0, created.stderr);
    cpSync(coldOf(server), COLD, { recursive: true });
  });
}

async function readBack(server: TestServer, path: string): Promise<string> {
  let text = '';
  for (let offset = '0'; ;) {
    const answer = await server.client.expect(200, 'GET', `${path}?offset=${offset}`);
    text += answer.body.toString();
    offset = answer.headers.get('stream-next-offset') ?? '';
    if (answer.headers.get('stream-up-to-date') === 'true') return text;
  }
}

test('an encrypted set of before is verified and restored, and its cold objects are read, by each of its keys', async (t: TestContext) => {
  if (process.env['WRITE_GOLDEN'] !== undefined) await write();
  const folder = temporaryFolder('golden');
  t.after(() => removeFolder(folder));
  for (const name of FILES) {
    const bytes = readFileSync(join(SET, name));
    assert(name === 'manifest.json' || isAge(bytes), `${name} is encrypted`);
    assert(!bytes.includes('orders') && !bytes.includes('line'), `${name} shows nothing of what is in it`);
  }
  for (const path of objectsIn(COLD)) assert(isAge(readFileSync(path)), `${path} is encrypted`);

  for (const name of KEYS) {
    // A checkout leaves files open to other users.
    const identities = join(folder, name);
    writeIdentities(
      identities,
      readFileSync(join(FOLDER, `${name}.key`), 'utf8')
        .trim()
        .split('\n'),
    );
    const key = ['--identity-file', identities];
    const verified = await ctl(['backup-verify', '--location', SET, '--json', ...key]);
    assert.equal(verified.code, 0, verified.stderr);
    const { created_unix_ms, groups, streams } = JSON.parse(verified.stdout) as Record<string, unknown>;
    assert.deepEqual({ created_unix_ms, groups, streams }, { created_unix_ms: CREATED_MS, groups: 1, streams: 2 });
    await withServer({ groups: 1, toml: coldToml(coldKeysToml({ identities })) }, async (server) => {
      cpSync(COLD, coldOf(server), { recursive: true });
      const restored = await ctl(['restore', '--config', clusterFileOf(server), '--location', SET, ...key]);
      assert.equal(restored.code, 0, restored.stderr);
      assert.equal(await readBack(server, '/orders/text'), LINES + MORE);
      assert.equal(await readBack(server, '/orders/json'), RECORDS);
    });
  }
});
