// Three nodes with one store, on which encryption of cold objects is switched on node by node, and keys are rotated by
// SIGHUP, under appends and reads. A node that lacks a key reads what it can and says what it cannot; merges bring plain
// objects and those for both keys together, and then the old key can go.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Age, isAge } from '../../src/encryption/age.ts';
import { type KeyPair, coldKeysToml, newKeyPair, writeIdentities } from '../support/age-keys.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { objectsIn } from '../support/cold-store.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

const TEXT = { 'Content-Type': 'text/plain' };
const PATH = '/orders/s';
const toml = (directory: string): string => `
[storage.cold]
backend = "dir"
dir = ${JSON.stringify(directory)}
flush_interval = "50ms"
flush_size = 1
cache.max_size = 0
gc_interval = "100ms"
gc_grace = "100ms"
compaction_gc_grace = "100ms"
`;

interface Objects {
  plain: number;
  /** By identity. */
  readonly opened: Map<string, number>;
  /** Neither plain nor opened by one of them. */
  closed: number;
}

/** Counts the objects in the store by the first of these identities that opens each. */
async function objectsFor(directory: string, pairs: readonly KeyPair[]): Promise<Objects> {
  const ages = await Promise.all(pairs.map(({ identity }) => Age.of({ identities: [identity], recipients: [] })));
  const found: Objects = { plain: 0, opened: new Map(pairs.map(({ identity }) => [identity, 0])), closed: 0 };
  for (const path of objectsIn(directory)) {
    const bytes = readIfThere(path);
    if (bytes === undefined) continue;
    if (!isAge(bytes)) {
      found.plain++;
      continue;
    }
    const opens = await Promise.all(
      ages.map((age) =>
        age.open(bytes).then(
          () => true,
          () => false,
        ),
      ),
    );
    const pair = pairs[opens.indexOf(true)];
    if (pair === undefined) found.closed++;
    else found.opened.set(pair.identity, (found.opened.get(pair.identity) ?? 0) + 1);
  }
  return found;
}

/** Objects that were merged are deleted. */
function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

/** The files with keys of every node, and the lines that name them. */
class Keys {
  readonly #folder: string;
  readonly #named = new Map<number, string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  tomlOf(id: number): string {
    return this.#named.get(id) ?? '';
  }

  async give(cluster: TestCluster, id: number, identities: readonly KeyPair[], recipient?: KeyPair): Promise<void> {
    const file = join(this.#folder, `node-${id}.key`);
    writeIdentities(
      file,
      identities.map(({ identity }) => identity),
    );
    const recipients = recipient === undefined ? undefined : join(this.#folder, `node-${id}.pub`);
    if (recipients !== undefined) writeFileSync(recipients, recipient?.recipient ?? '');
    this.#named.set(id, coldKeysToml({ identities: file, recipients }));
    cluster.configure(id);
    assert.match(JSON.stringify(await cluster.node(id).hangUp()), /"cold_keys":"changed"/);
    const state = ((await cluster.metrics(id))['cold_store'] as Record<string, unknown>)['object_encryption'];
    assert.equal(state, recipient === undefined ? 'reads' : 'writes', `node ${id}`);
  }
}

/** One writer, so that what is read is a beginning of what it sent. */
class Written {
  readonly #cluster: TestCluster;
  #appends = 0;
  /** Also what is on its way. */
  text = '';

  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
  }

  async append(bytes = 100): Promise<void> {
    const part = `${this.#appends++} `.padEnd(bytes, 'x');
    this.text += part;
    await this.#cluster.client(1 + (this.#appends % 3)).append(PATH, TEXT, part);
  }

  async allCold(): Promise<void> {
    await until('no byte is hot', async () => (await this.#cluster.metrics(1))['cold_hot_bytes'] === 0);
  }

  /** How many bytes the node shows, which are a beginning of what was sent. */
  async read(id: number): Promise<number> {
    let text = '';
    for (let offset = '0'; ;) {
      const answer = await this.#cluster.client(id).expect(200, 'GET', `${PATH}?offset=${offset}`);
      text += answer.body.toString();
      offset = answer.headers.get('stream-next-offset') ?? '';
      if (answer.headers.get('stream-up-to-date') !== 'true') continue;
      assert(this.text.startsWith(text), `node ${id} shows what was written, and in order`);
      return text.length;
    }
  }

  async isWhole(): Promise<void> {
    await this.#cluster.settled();
    for (const id of this.#cluster.ids) assert.equal(await this.read(id), this.text.length, `node ${id}`);
  }
}

/** Runs `body` while one client appends and each node is read. */
async function underLoad(cluster: TestCluster, written: Written, body: () => Promise<void>): Promise<void> {
  let isOver = false;
  const again = async (work: () => Promise<unknown>): Promise<void> => {
    while (!isOver) await work();
  };
  const load = Promise.all([again(() => written.append()), ...cluster.ids.map((id) => again(() => written.read(id)))]);
  try {
    await Promise.race([body(), load]);
  } finally {
    isOver = true;
    await load;
  }
}

test('keys come and go node by node under load, and nothing is lost', async (t: TestContext) => {
  const folder = temporaryFolder('cold-keys');
  const directory = temporaryFolder('cold-keys-store');
  t.after(() => [folder, directory].forEach(removeFolder));
  const [first, second] = [await newKeyPair(folder, 'first'), await newKeyPair(folder, 'second')];
  const keys = new Keys(folder);
  const options = { process: true, groups: 1, toml: toml(directory), tomlOf: (id: number) => keys.tomlOf(id) };
  await withCluster(options, async (cluster) => {
    const written = new Written(cluster);
    await cluster.client(1).create(PATH, TEXT);
    for (let i = 0; i < 3; i++) {
      await written.append();
      await written.allCold();
    }
    const plainBytes = written.text.length;

    // In the wrong order: two nodes encrypt what the third one cannot open.
    const leader = await cluster.leaderOf(0);
    const blind = cluster.ids.find((id) => id !== leader) as number;
    for (const id of cluster.ids.filter((one) => one !== blind)) await keys.give(cluster, id, [first], first);
    await until('an object is encrypted', async () => {
      if ((await cluster.leaderOf(0)) === blind)
        await cluster.node(blind).admin.request('POST', `/__svc/raft/0/leader/transfer/${leader}`);
      await written.append();
      await written.allCold();
      return ((await objectsFor(directory, [first])).opened.get(first.identity) ?? 0) > 0;
    });
    await cluster.settled();
    const begin = await cluster.client(blind).expect(200, 'GET', `${PATH}?offset=0&max_bytes=${plainBytes}`);
    assert.equal(begin.body.toString(), written.text.slice(0, plainBytes), 'what is plain is read');
    const refused = await cluster.client(blind).expect(502, 'GET', `${PATH}?offset=0`);
    assert.match(
      refused.body.toString(),
      /: g0000-\S+: it is encrypted, and this node has no storage\.cold\.encryption_identity_file/,
    );
    for (const id of cluster.ids.filter((one) => one !== blind)) await written.read(id);
    await keys.give(cluster, blind, [second]);
    const locked = await cluster.client(blind).expect(502, 'GET', `${PATH}?offset=0`);
    assert.match(locked.body.toString(), /: g0000-\S+: it is encrypted, and none of 1 identities opens it/);
    await keys.give(cluster, blind, [first]);
    await written.isWhole();

    await underLoad(cluster, written, async () => {
      await keys.give(cluster, blind, [first], first);
      for (const id of cluster.ids) await keys.give(cluster, id, [first, second], first);
      for (const id of cluster.ids) await keys.give(cluster, id, [first, second], second);
      await until('an object is for the second key', async () => {
        return ((await objectsFor(directory, [second])).opened.get(second.identity) ?? 0) > 0;
      });
    });
    await written.isWhole();

    await until('merges leave no plain object and none for the first key', async () => {
      await written.append(6000);
      await written.allCold();
      const { plain, closed } = await objectsFor(directory, [second]);
      return plain + closed === 0;
    });
    for (const id of cluster.ids) await keys.give(cluster, id, [second], second);
    await written.isWhole();
    for (const id of cluster.ids)
      for (const { identity } of [first, second]) assert(!cluster.node(id).log().includes(identity.slice(20)));
  });
});
