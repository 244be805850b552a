// The memory of compressing while it lasts.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { ErrorLog } from '../../src/ports.ts';
import { Compression, type Packed } from '../../src/http/compression.ts';

function compressing(): { compression: Compression; errors: unknown[]; requestIds: unknown[] } {
  const errors: unknown[] = [];
  const requestIds: unknown[] = [];
  const log: ErrorLog = (error, _, requestId) => {
    errors.push(error);
    requestIds.push(requestId);
  };
  return { compression: new Compression(log), errors, requestIds };
}

test('the bytes may be reused at once, and who asks for the same ones waits for the same work', async () => {
  const { compression, errors } = compressing();
  const body = new TextEncoder().encode('[1,2,3]'.repeat(5000));
  const before = body.slice();
  let held = 0;
  const packs = Array.from(
    { length: 100 },
    () =>
      new Promise<Uint8Array | undefined>((resolve) => {
        const done: Packed = (copy, packed) => resolve(packed === undefined ? copy : packed);
        assert(compression.start('one', body, { done }));
        held ||= compression.usedBytes;
        assert.equal(compression.usedBytes, held, 'once for all of them');
      }),
  );
  body.fill(0);
  const [first, ...others] = await Promise.all(packs);
  assert(first !== undefined && first.length < before.length / 5);
  assert.deepEqual(new Uint8Array(gunzipSync(first)), before);
  for (const other of others) assert.equal(other, first);
  assert.equal(compression.usedBytes, 0);
  assert.deepEqual(errors, []);
});

test('what cannot be made smaller stays as it is', async () => {
  const { compression } = compressing();
  const body = new Uint8Array(randomBytes(20_000));
  const packed = await new Promise((resolve) => {
    compression.start('noise', body, { done: (copy, result) => resolve([copy, result]) });
  });
  assert.deepEqual(packed, [body, undefined]);
});

test('beyond the bound nothing is begun, and room comes back', async () => {
  const { compression } = compressing();
  const body = new Uint8Array(1024 * 1024);
  const done: Promise<void>[] = [];
  for (;;) {
    let finish = (): void => undefined;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    if (!compression.start(`${done.length}`, body, { done: finish })) break;
    done.push(finished);
    assert(done.length < 100, 'there is no bound');
  }
  assert(done.length >= 2);
  assert(!compression.start('large', new Uint8Array(32 * 1024 * 1024), { done: () => undefined }));
  await Promise.all(done);
  assert.equal(compression.usedBytes, 0);
  await new Promise<void>((resolve) => assert(compression.start('again', body, { done: () => resolve() })));
});

test('an answer that throws is logged with the id of its request, and the others come', async () => {
  const { compression, errors, requestIds } = compressing();
  const body = new Uint8Array(20_000);
  const done = (): void => {
    throw new Error('planted');
  };
  compression.start('one', body, { done, requestId: () => 'mine' });
  await new Promise<void>((resolve) => compression.start('one', body, { done: () => resolve() }));
  assert.equal(errors.length, 1);
  assert.deepEqual(requestIds, ['mine']);
});
