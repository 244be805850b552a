// The pool with its real threads: what goes in and out, that nothing is lost or leaks, and that every caller is
// answered.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, it } from 'node:test';
import type { Backend } from '../../../src/cold/store/backend.ts';
import { ColdPool } from '../../../src/cold/service/cold-pool.ts';
import { digestOf } from '../../../src/digest/blake3.ts';
import { ColdService } from '../../../src/cold/service/cold-service.ts';
import { Ceph, cephMissing } from '../../support/ceph.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';
import { s3Options } from '../store/s3.ts';
import { PROCESS_RUNTIME } from '../../../src/server/runtime.ts';

const bytesOf = (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(randomBytes(length));
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function folderOf(t: TestContext): string {
  const folder = temporaryFolder('pool');
  mkdirSync(join(folder, 'root', '.tmp'), { recursive: true });
  t.after(() => removeFolder(folder));
  return folder;
}

function poolOf(t: TestContext, backend: Backend, timeoutMs = 10_000): ColdPool {
  const pool = new ColdPool({
    backend,
    timeoutMs,
    runtime: PROCESS_RUNTIME,
    onError: (error) => assert.fail(String(error)),
  });
  t.after(() => pool.close(0));
  return pool;
}

const directory = (folder: string): Backend => ({ kind: 'dir', root: 'root', directory: folder });

it('moves bodies to the thread and back, with the digest of each part', async (t) => {
  const folder = folderOf(t);
  const service = new ColdService(poolOf(t, directory(folder)), PROCESS_RUNTIME);
  const body = bytesOf(300_000);
  const copy = body.slice();
  const parts = [
    { at: 0, length: 100_000 },
    { at: 100_000, length: 1 },
    { at: 100_001, length: 199_999 },
  ];
  const answer = await service.upload('g1/i1/object', body, parts);
  assert.ok('digests' in answer, JSON.stringify(answer));
  assert.equal(body.length, 0, 'the memory went to the other thread');
  const expected = parts.map(({ at, length }) => hex(digestOf(copy.subarray(at, at + length))));
  assert.deepEqual(answer.digests.map(hex), expected);
  assert.deepEqual(new Uint8Array(readFileSync(join(folder, 'root/g1/i1/object'))), copy);

  const refs = parts.map((part, i) => ({ ...part, key: 'g1/i1/object', digest: answer.digests[i] as Uint8Array }));
  const read = await service.read(refs.slice(1));
  assert.ok(read.ok);
  assert.deepEqual(read.value, [copy.slice(100_000, 100_001), copy.slice(100_001)]);

  const listed = await service.list('g1/', '', 10);
  assert.ok('objects' in listed);
  assert.deepEqual(
    listed.objects.map(({ key, bytes }) => [key, bytes]),
    [['g1/i1/object', 300_000]],
  );
  assert.equal(listed.next, undefined);
  assert.deepEqual(await service.remove(['g1/i1/object']), {});
  assert.deepEqual(readdirSync(join(folder, 'root')), ['.tmp']);
});

it('says which object and which bytes were altered', async (t) => {
  const folder = folderOf(t);
  const service = new ColdService(poolOf(t, directory(folder)), PROCESS_RUNTIME);
  const body = bytesOf(1000);
  const digest = digestOf(body.subarray(0, 500));
  await service.upload('g1/object', body, []);
  const path = join(folder, 'root/g1/object');
  const stored = readFileSync(path);
  stored[499] = (stored[499] as number) ^ 1;
  writeFileSync(path, stored);
  const read = await service.read([{ key: 'g1/object', at: 0, length: 500, digest }]);
  assert.ok(!read.ok);
  assert.equal(read.failure, 'bad');
  assert.match(read.message, /g1\/object: bytes 0 to 500 are not what was written/);
  const gone = await service.read([{ key: 'g1/nothing', at: 0, length: 500, digest }]);
  assert.ok(!gone.ok);
  assert.equal(gone.failure, 'missing');
});

it('refuses what is beyond its bounds at once, and takes more when there is room again', async (t) => {
  const pool = poolOf(t, directory(folderOf(t)));
  const digest = digestOf(bytesOf(1));
  const outcomes = Array.from({ length: 700 }, (_, i) =>
    pool.run<'get'>({ op: 'get', key: `g/${i}`, offset: 0, lengths: [10], digests: digest }),
  );
  assert.ok(pool.tasks <= 512);
  const failures = (await Promise.all(outcomes)).map((outcome) => (outcome.ok ? 'ok' : outcome.failure));
  assert.equal(failures.filter((failure) => failure === 'busy').length, 700 - 512);
  assert.equal(failures.filter((failure) => failure === 'missing').length, 512);
  const large = {
    op: 'get',
    key: 'g/large',
    offset: 0,
    lengths: [200 * 1024 * 1024],
    digests: digest,
  } as const;
  const [first, second] = await Promise.all([pool.run<'get'>(large), pool.run<'get'>(large)]);
  assert.ok(!first.ok && !second.ok);
  assert.deepEqual([first.failure, second.failure], ['missing', 'busy']);
  assert.deepEqual([pool.tasks, pool.bytes], [0, 0]);
});

it('answers everything when it is closed, and nothing afterwards', async (t) => {
  const pool = poolOf(t, directory(folderOf(t)));
  const puts = Array.from({ length: 20 }, (_, i) =>
    pool.run<'put'>({ op: 'put', key: `g/${i}`, body: bytesOf(100_000), slices: [] }),
  );
  await pool.close(30_000);
  assert.ok(
    (await Promise.all(puts)).every((outcome) => outcome.ok),
    'what was under way is finished',
  );
  const late = await pool.run<'probe'>({ op: 'probe' });
  assert.ok(!late.ok);
  assert.equal(late.failure, 'stopped');
});

it('the probe of a directory names the step and the reason', async (t) => {
  const folder = folderOf(t);
  const good = await poolOf(t, directory(folder)).run<'probe'>({ op: 'probe' });
  assert.deepEqual(good, { ok: true, value: undefined });
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(folder, 'sub', 'file'), '');
  const file: Backend = { kind: 'dir', root: '', directory: join(folder, 'sub', 'file') };
  const bad = await poolOf(t, file).run<'probe'>({ op: 'probe' });
  assert.ok(!bad.ok);
  assert.equal(bad.failure, 'denied');
  assert.match(bad.message, /^cannot write to the directory .*file: .*/);
});

it(
  'S3: each kind of failure has its sentence, and a server that hangs is given up in time',
  { skip: cephMissing() ?? false },
  async (t) => {
    const ceph = await Ceph.start();
    t.after(() => ceph.stop());
    await ceph.createBucket('cold');
    const ask = async (changes: Parameters<typeof s3Options>[1], timeoutMs = 10_000): Promise<string> => {
      const s3 = s3Options(ceph, { timeoutMs, ...changes });
      const pool = new ColdPool({
        backend: { kind: 's3', root: 'r', s3 },
        timeoutMs,
        runtime: PROCESS_RUNTIME,
        onError: (error) => assert.fail(String(error)),
      });
      const outcome = await pool.run<'probe'>({ op: 'probe' });
      await pool.close(0);
      return outcome.ok ? 'ok' : `${outcome.failure}: ${outcome.message}`;
    };
    const key = { accessKeyId: ceph.accessKey, sessionToken: undefined };
    assert.equal(await ask({}), 'ok');
    assert.match(await ask({ bucket: 'other' }), /^denied: cannot write to s3:\/\/other\/r\/ at .*NoSuchBucket/);
    assert.match(
      await ask({ credentials: { ...key, secretAccessKey: 'wrong' } }),
      /^denied: .*403 SignatureDoesNotMatch/,
    );
    assert.match(
      await ask({ credentials: { ...key, accessKeyId: 'nobody', secretAccessKey: 'x' } }),
      /^denied: .*403 InvalidAccessKeyId/,
    );
    assert.match(await ask({ encryption: 'aes256' }), /^denied: .*400 InvalidRequest/);
    assert.match(await ask({ endpoint: 'http://127.0.0.1:1', maxRetries: 0 }), /^unreachable: .*ECONNREFUSED/);

    ceph.freezeGateway();
    assert.match(await ask({}, 500), /^unreachable: .*no answer within 500 ms/);
    ceph.thawGateway();
    assert.equal(await ask({}), 'ok');

    await ceph.killGateway();
    assert.match(await ask({ maxRetries: 1 }), /^unreachable: .*ECONNREFUSED/);
    await ceph.startGateway();
    assert.equal(await ask({}), 'ok');
  },
);
