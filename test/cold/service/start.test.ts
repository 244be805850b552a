// The start of a server with cold stores that work, refuse, or do not answer.
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { Ceph, cephMissing } from '../../support/ceph.ts';
import { SERVER_ENTRY } from '../../support/paths.ts';
import { TestServer, removeFolder, run, temporaryFolder } from '../../support/server.ts';
import { failingThreads } from '../../support/failing-threads.ts';

interface Ended {
  readonly code: number | string;
  readonly output: string;
}

/** The server's message when it refuses to start. */
async function refusal(toml: string, env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const folder = temporaryFolder('cold-start');
  try {
    const file = join(folder, 'c.toml');
    writeFileSync(file, toml);
    const args = [
      '--config',
      file,
      '--data',
      join(folder, 'data'),
      '--listen',
      '127.0.0.1:0',
      '--admin-listen',
      '127.0.0.1:0',
    ];
    const { exited, output } = run([process.execPath, SERVER_ENTRY, ...args], env);
    const code = await exited;
    return { code, output: output() };
  } finally {
    removeFolder(folder);
  }
}

async function coldStoreOf(server: TestServer): Promise<Record<string, unknown>> {
  return (await server.metrics())['cold_store'] as Record<string, unknown>;
}

it('a directory: it is made, proved and left empty; one that cannot be used ends the start with a sentence', async () => {
  const server = new TestServer({ process: true, toml: '[storage.cold]\nbackend = "dir"\nroot = "a/b"' });
  try {
    await server.start();
    const cold = await coldStoreOf(server);
    assert.equal(cold['backend'], 'dir');
    assert.equal(cold['root'], 'a/b');
    assert.equal(cold['reachable'], true);
    assert.deepEqual(readdirSync(join(server.dataDir, 'cold', 'a', 'b')), ['.tmp']);
  } finally {
    await server.dispose();
  }
  const folder = temporaryFolder('cold-file');
  try {
    writeFileSync(join(folder, 'file'), '');
    const { code, output } = await refusal(`[storage.cold]\nbackend = "dir"\ndir = "${join(folder, 'file')}"`);
    assert.equal(code, 2, output);
    assert.match(output, /^millrace: storage\.cold: cannot write to the directory .*\/file: .*ENOTDIR.*$/m);
  } finally {
    removeFolder(folder);
  }
});

it('threads of the cold store that do not start end the start with a sentence', async () => {
  const { code, output } = await refusal(
    '[storage.cold]\nbackend = "dir"',
    failingThreads("workerData?.kind === 'dir'"),
  );
  assert.equal(code, 2, output);
  assert.match(
    output,
    /^millrace: storage\.cold: the threads of the cold store do not start: Error: planted: this thread does not start$/m,
  );
});

it(
  'S3: refusals end the start with a sentence; a store that does not answer is waited for',
  { skip: cephMissing() ?? false },
  async (t) => {
    const ceph = await Ceph.start();
    t.after(() => ceph.stop());
    const toml = (changes: Readonly<Record<string, string>> = {}): string => {
      const s3 = {
        bucket: 'cold',
        endpoint: ceph.endpoint,
        access_key_id: ceph.accessKey,
        secret_access_key: ceph.secretKey,
        server_side_encryption: 'none',
        ...changes,
      };
      const lines = Object.entries(s3).map(([name, value]) => `s3.${name} = "${value}"`);
      return ['[storage.cold]', 'backend = "s3"', ...lines].join('\n');
    };
    const refused = async (changes: Readonly<Record<string, string>>, sentence: RegExp): Promise<void> => {
      const { code, output } = await refusal(toml(changes));
      assert.equal(code, 2, output);
      assert.match(output, sentence);
    };
    await refused({}, /^millrace: storage\.cold: cannot write to s3:\/\/cold\/ at .*: 404 NoSuchBucket.*$/m);
    await ceph.createBucket('cold');
    await refused(
      { secret_access_key: 'wrong' },
      /^millrace: storage\.cold: cannot write to .*403 SignatureDoesNotMatch/m,
    );
    await refused({ server_side_encryption: 'aes256' }, /^millrace: .*server_side_encryption is "aes256"; "none" if/m);

    await ceph.killGateway();
    const server = new TestServer({
      process: true,
      toml: toml({ timeout: '1s', max_retries: '0' }).replace('max_retries = "0"', 'max_retries = 0'),
    });
    try {
      await server.start();
      assert.equal((await coldStoreOf(server))['reachable'], false);
      assert.match(await server.logged(/the cold store fails/), /ECONNREFUSED/);
      await ceph.startGateway();
      await server.logged(/the cold store works again/);
      assert.equal((await coldStoreOf(server))['reachable'], true);
    } finally {
      await server.dispose();
    }
  },
);
