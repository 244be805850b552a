// The pool with its real threads: what goes in and out, that nothing is lost or leaks, and that every caller is
// answered.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, it } from 'node:test';
import type { Backend } from '../../../src/cold/store/perform.ts';
import { DIGEST_BYTES, digestOf } from '../../../src/digest/blake3.ts';
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

function serviceOf(t: TestContext, backend: Backend, timeoutMs = 10_000): ColdService {
  const service = new ColdService({
    backend,
    timeoutMs,
    runtime: PROCESS_RUNTIME,
    onError: (error) => assert.fail(String(error)),
  });
  t.after(() => service.close(0));
  return service;
}

const directory = (folder: string): Backend => ({ kind: 'dir', root: 'root', directory: folder });

it('moves bodies to the thread and back, with the digest of each part', async (t) => {
  const folder = folderOf(t);
  const service = serviceOf(t, directory(folder));
  const body = bytesOf(300_000);
  const copy = body.slice();
  const parts = [
    { at: 0, length: 100_000 },
    { at: 100_000, length: 1 },
    { at: 100_001, length: 199_999 },
  ];
  const put = await service.ask({ op: 'put', key: 'g1/i1/object', body, slices: parts });
  assert.ok(put.ok, JSON.stringify(put));
  const digests = parts.map((_, i) => put.value.subarray(i * DIGEST_BYTES, (i + 1) * DIGEST_BYTES));
  assert.equal(body.length, 0, 'the memory went to the other thread');
  const expected = parts.map(({ at, length }) => hex(digestOf(copy.subarray(at, at + length))));
  assert.deepEqual(digests.map(hex), expected);
  assert.deepEqual(new Uint8Array(readFileSync(join(folder, 'root/g1/i1/object'))), copy);

  const refs = parts.map((part, i) => ({ ...part, key: 'g1/i1/object', digest: digests[i] as Uint8Array }));
  const read = await service.run({ op: 'get', refs: refs.slice(1) });
  assert.ok(read.ok);
  assert.deepEqual(read.value, [copy.slice(100_000, 100_001), copy.slice(100_001)]);

  const listed = await service.ask({ op: 'list', prefix: 'g1/', after: '', limit: 10 });
  assert.ok(listed.ok);
  assert.deepEqual(
    listed.value.objects.map(({ key, bytes }) => [key, bytes]),
    [['g1/i1/object', 300_000]],
  );
  assert.equal(listed.value.more, false);
  assert.ok((await service.ask({ op: 'remove', keys: ['g1/i1/object'] })).ok);
  assert.deepEqual(readdirSync(join(folder, 'root')), ['.tmp']);
});

it('says which object and which bytes were altered', async (t) => {
  const folder = folderOf(t);
  const service = serviceOf(t, directory(folder));
  const body = bytesOf(1000);
  const digest = digestOf(body.subarray(0, 500));
  await service.ask({ op: 'put', key: 'g1/object', body, slices: [] });
  const path = join(folder, 'root/g1/object');
  const stored = readFileSync(path);
  stored[499] = (stored[499] as number) ^ 1;
  writeFileSync(path, stored);
  const read = await service.run({ op: 'get', refs: [{ key: 'g1/object', at: 0, length: 500, digest }] });
  assert.ok(!read.ok);
  assert.equal(read.failure, 'bad');
  assert.match(read.message, /g1\/object: bytes 0 to 500 are not what was written/);
  const gone = await service.run({ op: 'get', refs: [{ key: 'g1/nothing', at: 0, length: 500, digest }] });
  assert.ok(!gone.ok);
  assert.equal(gone.failure, 'missing');
});

it('refuses what is beyond its bounds at once, and takes more when there is room again', async (t) => {
  const service = serviceOf(t, directory(folderOf(t)));
  const digest = digestOf(bytesOf(1));
  const outcomes = Array.from({ length: 700 }, (_, i) =>
    service.run({ op: 'get', refs: [{ key: `g/${i}`, at: 0, length: 10, digest }] }),
  );
  assert.ok(service.tasks <= 512);
  const failures = (await Promise.all(outcomes)).map((outcome) => (outcome.ok ? 'ok' : outcome.failure));
  assert.equal(failures.filter((failure) => failure === 'busy').length, 700 - 512);
  assert.equal(failures.filter((failure) => failure === 'missing').length, 512);
  const large = { op: 'get', refs: [{ key: 'g/large', at: 0, length: 200 * 1024 * 1024, digest }] } as const;
  const [first, second] = await Promise.all([service.run(large), service.run(large)]);
  assert.ok(!first.ok && !second.ok);
  assert.deepEqual([first.failure, second.failure], ['missing', 'busy']);
  assert.deepEqual([service.tasks, service.bytes], [0, 0]);
});

it('answers everything when it is closed, and nothing afterwards', async (t) => {
  const service = serviceOf(t, directory(folderOf(t)));
  const puts = Array.from({ length: 20 }, (_, i) =>
    service.run({ op: 'put', key: `g/${i}`, body: bytesOf(100_000), slices: [] }),
  );
  await service.close(30_000);
  assert.ok(
    (await Promise.all(puts)).every((outcome) => outcome.ok),
    'what was under way is finished',
  );
  const late = await service.run({ op: 'probe' });
  assert.ok(!late.ok);
  assert.equal(late.failure, 'stopped');
});

it('the probe of a directory names the step and the reason', async (t) => {
  const folder = folderOf(t);
  const good = await serviceOf(t, directory(folder)).run({ op: 'probe' });
  assert.deepEqual(good, { ok: true, value: undefined });
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(folder, 'sub', 'file'), '');
  const file: Backend = { kind: 'dir', root: '', directory: join(folder, 'sub', 'file') };
  const bad = await serviceOf(t, file).run({ op: 'probe' });
  assert.ok(!bad.ok);
  assert.equal(bad.failure, 'denied');
  assert.match(bad.message, /^cannot write to the directory .*file: .*/);
});

it(
  'S3: each kind of failure has its sentence, and a server that hangs is given up in time',
  { skip: cephMissing() ?? false },
  async (t) => {
    const ceph = await Ceph.start({ bucket: 'cold' });
    t.after(() => ceph.stop());
    const ask = async (changes: Parameters<typeof s3Options>[1], timeoutMs = 10_000): Promise<string> => {
      const s3 = s3Options(ceph, { timeoutMs, ...changes });
      const service = new ColdService({
        backend: { kind: 's3', root: 'r', s3 },
        timeoutMs,
        runtime: PROCESS_RUNTIME,
        onError: (error) => assert.fail(String(error)),
      });
      const outcome = await service.run({ op: 'probe' });
      await service.close(0);
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
