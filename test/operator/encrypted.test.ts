// Every verb of the tool that reads bytes reads encrypted ones: cold objects through a node with its key, and backups by
// its own. Without the key each says in its sentence that it is the key that is missing. A new verb has to say which of
// the two kinds it is.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isAge } from '../../src/encryption/age.ts';
import { VERBS } from '../../src/operator/verbs.ts';
import { type KeyPair, coldKeysToml, newKeyPair } from '../support/age-keys.ts';
import { objectsIn } from '../support/cold-store.ts';
import { type CtlResult, clusterFileOf, ctl } from '../support/ctl.ts';
import { TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const LINES = Array.from({ length: 4000 }, (_, i) => `line ${i} of a log\n`);
const LOG = LINES.join('');
const COLD = '[storage.cold]\nbackend = "dir"\nflush_interval = "50ms"\nflush_size = 1\ncache.max_size = 0\n';
const NO_COLD_KEY = /it is encrypted, and this node has no storage\.cold\.encryption_identity_file/;
const NO_BACKUP_KEY = /the backup is encrypted: name a file with an identity that it is for \(--identity-file\)/;

const coldOf = ({ dataDir }: TestServer): string => join(dataDir, 'cold');

/** Whether the key is there: of the node, or on the command line. */
type Key = 'with' | 'without';

interface Place {
  readonly key: Key;
  /** The node runs, and has the key or not. */
  readonly server: TestServer;
  readonly folder: string;
  readonly pair: KeyPair;
  run(...args: readonly string[]): Promise<CtlResult>;
  /** A name that no other run has. */
  fresh(): string;
}

interface Reading {
  readonly missing: RegExp;
  readonly read: (place: Place) => Promise<CtlResult>;
  readonly shows: RegExp | string;
}

const withFile = async (file: string, result: Promise<CtlResult>): Promise<CtlResult> => {
  const { code, stderr } = await result;
  return { code, stderr, stdout: code === 0 ? readFileSync(file, 'utf8') : '' };
};

const READINGS: Readonly<Record<string, Reading>> = {
  'stream cat': {
    missing: NO_COLD_KEY,
    shows: LOG,
    read: ({ run }) => run('stream', 'cat', 'demo/log'),
  },
  'stream tail': {
    missing: NO_COLD_KEY,
    shows: LINES.slice(-2).join(''),
    read: ({ run }) => run('stream', 'tail', '-n', '2', 'demo/log'),
  },
  'stream fork': {
    missing: NO_COLD_KEY,
    shows: LOG,
    read: async ({ run, fresh }) => {
      const fork = `demo/fork-${fresh()}`;
      const made = await run('stream', 'fork', 'demo/log', fork);
      return made.code === 0 ? await run('stream', 'cat', fork) : made;
    },
  },
  export: {
    missing: NO_COLD_KEY,
    shows: LOG,
    read: async ({ run, folder, fresh }) => {
      const to = join(folder, `export-${fresh()}`);
      return await withFile(join(to, 'log.txt'), run('export', 'demo', '--prefix', 'log', '--to', to));
    },
  },
  import: {
    missing: NO_COLD_KEY,
    shows: LOG,
    read: async ({ run, server, fresh }) => {
      const copy = `copy-${fresh()}/log`;
      const brought = await run('import', `${server.url}/demo/log`, '--to', copy);
      return brought.code === 0 ? await run('stream', 'cat', copy) : brought;
    },
  },
  'backup-verify': {
    missing: NO_BACKUP_KEY,
    shows: /^backup verified: 1 groups/,
    read: async (place) => await place.run('backup-verify', '--location', await backedUp(place), ...keyOf(place)),
  },
  restore: {
    missing: NO_BACKUP_KEY,
    shows: LOG,
    read: async (place) => {
      const location = await backedUp(place);
      return await withTarget(place, 'with', async (target) => {
        const restored = await restoreInto(target, location, keyOf(place));
        return restored.code === 0 ? await ctl(['stream', 'cat', 'demo/log'], { env: envOf(target) }) : restored;
      });
    },
  },
};

/** They read no bytes of streams and no backups; what they write is read by the others. */
const OTHERS: readonly string[] = [
  ...[
    'status',
    'health',
    'console',
    'exporter',
    'wait-ready',
    'wait',
    'verify-cluster',
    'usage',
    'audit',
    'completion',
  ],
  ...['drain', 'undrain', 'transfer', 'restart', 'allow-rejoin', 'prepare-restart'],
  ...['members', 'add-member', 'remove-member'],
  ...['stream ls', 'stream stat', 'stream create', 'stream append', 'stream close', 'stream rm', 'stream attrs'],
  ...['bucket ls', 'bucket quota', 'bucket purge', 'flush-cold', 'bench'],
  ...['subscription ls', 'subscription stat', 'webhook-keys', 'token issue', 'token inspect', 'token revoke', 'sign'],
  ...['context add', 'context use', 'context ls', 'context rm'],
  // Snapshots of applications lie in rows.
  'stream snapshot',
  // It copies rows with what they say of cold objects, which is where the keys count.
  'backup-create',
  // Its own test is below.
  'salvage',
];

function keyOf({ key, pair }: Place): readonly string[] {
  return key === 'with' ? ['--identity-file', pair.identityFile] : [];
}

async function backedUp({ server, folder, pair, fresh }: Place): Promise<string> {
  const location = join(folder, `backup-${fresh()}`);
  const place = ['--config', clusterFileOf(server), '--location', location];
  const { code, stderr } = await ctl(['backup-create', ...place, '--recipients-file', pair.recipientsFile]);
  assert.equal(code, 0, stderr);
  return location;
}

const restoreInto = (target: TestServer, location: string, more: readonly string[]): Promise<CtlResult> =>
  ctl(['restore', '--config', clusterFileOf(target), '--location', location, ...more]);

/** An empty node that has a copy of the cold objects. */
async function withTarget<T>({ server, pair }: Place, key: Key, body: (target: TestServer) => Promise<T>): Promise<T> {
  const target = new TestServer({ groups: 1, toml: COLD + (key === 'with' ? keysOf(pair) : '') });
  try {
    await target.start();
    cpSync(coldOf(server), coldOf(target), { recursive: true });
    return await body(target);
  } finally {
    await target.dispose();
  }
}

const keysOf = ({ identityFile, recipientsFile }: KeyPair): string =>
  coldKeysToml({ identities: identityFile, recipients: recipientsFile });

const envOf = (server: TestServer): Record<string, string> => ({
  ...{ MILLRACE_CLUSTER: '', MILLRACE_CONTEXT: '', MILLRACE_URL: server.url },
});

async function fill(server: TestServer): Promise<void> {
  await server.client.create('/demo/log', { 'content-type': 'text/plain' }, LOG);
  await until('no byte is hot', async () => (await server.metrics())['cold_hot_bytes'] === 0);
}

function judge(name: string, { missing, shows }: Reading, key: Key, { code, stdout, stderr }: CtlResult): void {
  if (key === 'without') {
    assert.equal(code, 1, `${name}: ${stderr}`);
    assert.match(stderr, missing, name);
    return;
  }
  assert.equal(code, 0, `${name}: ${stderr}`);
  if (typeof shows === 'string') assert(stdout === shows, `${name} shows what was written: ${stdout.slice(0, 200)}`);
  else assert.match(stdout, shows, name);
}

test('each verb says whether it reads bytes', () => {
  assert.deepEqual([...Object.keys(READINGS), ...OTHERS].sort(), VERBS.map(({ name }) => name).sort());
});

test('every verb that reads bytes reads encrypted ones, or says that the key is missing', async (t: TestContext) => {
  const folder = temporaryFolder('encrypted-verbs');
  t.after(() => removeFolder(folder));
  const pair = await newKeyPair(folder, 'key');
  let runs = 0;
  await withServer({ groups: 1, toml: COLD + keysOf(pair) }, async (server) => {
    await fill(server);
    const objects = objectsIn(coldOf(server)).map((path) => readFileSync(path));
    assert(objects.length > 0 && objects.every(isAge), 'what is cold is encrypted');
    const place = (key: Key): Place => ({
      ...{ key, server, folder, pair },
      run: (...args) => ctl(args, { env: envOf(server) }),
      fresh: () => String(++runs),
    });
    for (const [name, reading] of Object.entries(READINGS))
      judge(name, reading, 'with', await reading.read(place('with')));

    const location = await backedUp(place('with'));
    const blind = await withTarget(place('with'), 'without', (target) =>
      restoreInto(target, location, keyOf(place('with'))),
    );
    assert.equal(blind.code, 1, blind.stderr);
    assert.match(blind.stderr, /all groups are restored .* cannot be read \(.*it is encrypted, and this node has no/);

    await server.stop();
    await salvaged(join(folder, 'salvaged'), server, pair);
    writeFileSync(server.configFile, readFileSync(server.configFile, 'utf8').replace(keysOf(pair), ''));
    await server.start();
    for (const [name, reading] of Object.entries(READINGS))
      judge(name, reading, 'without', await reading.read(place('without')));
  });
});

/** The copy needs the keys that the node had, and nothing of it is lost. */
async function salvaged(to: string, { dataDir }: TestServer, pair: KeyPair): Promise<void> {
  const { code, stderr } = await ctl(['salvage', dataDir, to]);
  assert.equal(code, 0, stderr);
  await withServer({ groups: 1, dataDir: to, toml: COLD + keysOf(pair) }, async (copy) => {
    assert.equal((await ctl(['stream', 'cat', 'demo/log'], { env: envOf(copy) })).stdout, LOG);
  });
}
