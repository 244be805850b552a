// A server whose objects are encrypted from some moment on, then for another key: everything stays readable, keys that
// cannot be used change nothing, and no key shows anywhere.
import assert from 'node:assert/strict';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { Age, isAge } from '../../src/encryption/age.ts';
import { openBytes } from '../../src/encryption/whole.ts';
import { objectsIn } from '../support/cold-store.ts';
import { TestServer, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const COLD =
  '[storage.cold]\nbackend = "dir"\nflush_interval = "50ms"\nflush_size = 1\ncache.max_size = 0\ncompaction_enabled = false\n';

/** The files with keys, and the configuration that names them. */
class KeyFiles {
  readonly #server: TestServer;
  readonly #plain: string;
  readonly identities: string;
  readonly recipients: string;

  constructor(server: TestServer) {
    this.#server = server;
    this.#plain = readFileSync(server.configFile, 'utf8');
    this.identities = join(server.configFile, '../identities.txt');
    this.recipients = join(server.configFile, '../recipients.txt');
  }

  write(identities: readonly string[], recipients?: readonly string[]): void {
    writeFileSync(this.identities, `# kept by the test\n${identities.join('\n')}\n`, { mode: 0o600 });
    chmodSync(this.identities, 0o600);
    if (recipients !== undefined) writeFileSync(this.recipients, recipients.join('\n'));
    const key = (name: string, path: string): string => `encryption_${name}_file = ${JSON.stringify(path)}\n`;
    const added =
      key('identity', this.identities) + (recipients === undefined ? '' : key('recipients', this.recipients));
    writeFileSync(this.#server.configFile, this.#plain.replace(COLD, COLD + added));
  }

  async reload(awaited: RegExp): Promise<void> {
    assert.match(JSON.stringify(await this.#server.hangUp()), awaited);
  }
}

const BUCKET = 'bucket';

class Stream {
  readonly #server: TestServer;
  #written = '';

  constructor(server: TestServer) {
    this.#server = server;
  }

  get url(): string {
    return `${this.#server.url}/${BUCKET}/s`;
  }

  async create(): Promise<void> {
    await fetch(`${this.#server.url}/${BUCKET}`, { method: 'PUT' });
    await fetch(this.url, { method: 'PUT', headers: { 'Content-Type': 'text/plain' } });
  }

  /** Waits until it is cold. */
  async append(text: string): Promise<void> {
    const answer = await fetch(this.url, { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: text });
    assert(answer.ok, await answer.text());
    this.#written += text;
    await until('no byte is hot', async () => (await this.#server.metrics())['cold_hot_bytes'] === 0);
  }

  async isWhole(): Promise<void> {
    const answer = await fetch(`${this.url}?offset=-1`);
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    assert(text === this.#written, 'what is read is what was written');
  }
}

async function stateOf(server: TestServer): Promise<unknown> {
  return ((await server.metrics())['cold_store'] as Record<string, unknown>)['object_encryption'];
}

/** How many objects are not encrypted, and how many the identity opens. */
async function countIn(server: TestServer, identity: string): Promise<{ plain: number; opened: number; all: number }> {
  const age = await Age.of({ identities: [identity], recipients: [] });
  const objects = objectsIn(join(server.dataDir, 'cold')).map((path) => readFileSync(path));
  let opened = 0;
  for (const object of objects.filter(isAge))
    opened += await openBytes(age, object).then(
      () => 1,
      () => 0,
    );
  return { plain: objects.filter((object) => !isAge(object)).length, opened, all: objects.length };
}

test('encryption is switched on, and keys are rotated, while the server runs', async () => {
  await withServer({ process: true, groups: 1, toml: COLD }, async (server) => {
    const [files, stream] = [new KeyFiles(server), new Stream(server)];
    const [first, second] = [await generateX25519Identity(), await generateX25519Identity()];
    await stream.create();
    await stream.append('plain '.repeat(1000));
    assert.equal(await stateOf(server), 'none');

    files.write([first]);
    await files.reload(/"cold_keys":"changed"/);
    await until('objects can be read', async () => (await stateOf(server)) === 'reads');
    await stream.append('still plain '.repeat(1000));
    assert.deepEqual(await countIn(server, first), { plain: 2, opened: 0, all: 2 });

    files.write([first], [await identityToRecipient(first)]);
    await files.reload(/"cold_keys":"changed"/);
    await until('objects are encrypted', async () => (await stateOf(server)) === 'writes');
    await stream.append('for the first '.repeat(20_000));
    assert.deepEqual(await countIn(server, first), { plain: 2, opened: 1, all: 3 });
    await stream.isWhole();

    files.write([second, first], [await identityToRecipient(second)]);
    await files.reload(/"cold_keys":"changed"/);
    await until('an object is for the second key', async () => {
      await stream.append('for the second ');
      return (await countIn(server, second)).opened > 0;
    });
    await stream.isWhole();

    // The files change, and neither the keys nor what can be read.
    chmodSync(files.identities, 0o644);
    await files.reload(/encryption_identity_file: expected a file that is closed to other users .*its mode is 0644/);
    files.write([first], [await identityToRecipient(second)]);
    // A reload that fails is not taken for what is in force: the next one says it again.
    for (let i = 0; i < 2; i++)
      await files.reload(/none of the identities is that of a recipient.*all settings stay as they were/);
    await stream.append('after all that ');
    await stream.isWhole();

    files.write([second, first], [await identityToRecipient(second)]);
    await server.stop();
    await server.start();
    await stream.isWhole();

    files.write([second], [await identityToRecipient(second)]);
    await server.stop();
    await server.start();
    const answer = await fetch(`${stream.url}?offset=-1`);
    assert.equal(answer.status, 502);
    assert.match(await answer.text(), /g0000-\S+: it is encrypted, and none of 1 identities opens it/);
    for (const secret of [first, second]) assert(!server.log().includes(secret.slice(20)), 'no key is in the log');
  });
});

test('a reload whose keys cannot be used changes nothing else', async () => {
  const token = (text: string): Record<string, string> => ({ Authorization: `Bearer ${text.repeat(30)}` });
  await withServer({ process: true, toml: COLD, http: `client_token = "${'a'.repeat(30)}"` }, async (server) => {
    const files = new KeyFiles(server);
    const identity = await generateX25519Identity();
    const recipient = await identityToRecipient(identity);
    const damaged = recipient.slice(0, -1) + (recipient.endsWith('q') ? 'p' : 'q');
    const statuses = async (): Promise<number[]> =>
      await Promise.all(
        ['a', 'b'].map(async (text) => (await fetch(`${server.url}/${BUCKET}`, { headers: token(text) })).status),
      );
    files.write([identity], [damaged]);
    writeFileSync(server.configFile, readFileSync(server.configFile, 'utf8').replace('a'.repeat(30), 'b'.repeat(30)));
    for (let i = 0; i < 2; i++) await files.reload(/the reload failed/);
    assert.match(server.log(), /recipient 1 of 1 is not one of age/);
    assert.deepEqual(await statuses(), [404, 401]);
    assert.equal(await stateOf(server), 'none');
    writeFileSync(files.recipients, recipient);
    await files.reload(/"cold_keys":"changed","client_token":"changed"/);
    assert.deepEqual(await statuses(), [401, 404]);
    assert.equal(await stateOf(server), 'writes');
  });
});

test('keys that cannot be used end the start in a sentence that shows none', async () => {
  const identity = await generateX25519Identity();
  const stranger = await identityToRecipient(await generateX25519Identity());
  const damaged = identity.slice(0, -1) + (identity.endsWith('Q') ? 'P' : 'Q');
  for (const [identities, recipients, why] of [
    [[identity], [stranger], /none of the identities is that of a recipient/],
    [[damaged], undefined, /identity 1 of 1 is not one of age/],
    [[identity], [`${stranger}q`], /recipient 1 of 1 is not one of age/],
    [[identity, 'hello'], undefined, /encryption_identity_file: expected an identity of age .* in line 3/],
    [[], undefined, /encryption_identity_file: expected an identity of age .* in it; it has none/],
    [[identity], [identity], /encryption_recipients_file: expected a recipient of age .* in line 1/],
  ] as const) {
    const server = new TestServer({ toml: COLD });
    try {
      new KeyFiles(server).write(identities, recipients);
      await assert.rejects(server.start());
      assert.equal(await server.exited, 2);
      assert.match(server.log(), why);
      assert(!server.log().includes(identity.slice(20, 60)), server.log());
    } finally {
      await server.dispose();
    }
  }
});
