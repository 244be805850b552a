// An object store as the cold tier needs it, asked of each backend: the same tests, on a directory and on a real S3
// server.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { probe } from '../../../src/cold/store/perform.ts';
import type { StoreFailure } from '../../../src/cold/ports.ts';
import { type ObjectStore, StoreError, readRange } from '../../../src/cold/store/store.ts';
import { directory, s3 } from './backends.ts';
import { sameBytes } from '../../support/same-bytes.ts';

const bytesOf = (length: number): Uint8Array => new Uint8Array(randomBytes(length));

for (const backend of [directory(), s3()]) {
  describe(`object store: ${backend.name}`, { skip: backend.skip ?? false }, () => {
    let store: ObjectStore;
    before(async () => {
      await backend.start();
      store = await backend.open('some/root');
    });
    after(async () => {
      store.close();
      await backend.stop();
    });

    it('returns any range of what was put', async () => {
      const body = bytesOf(3 * 1024 * 1024 + 17);
      await store.put('a/object-1', body);
      for (const [offset, length] of [
        [0, body.length],
        [0, 1],
        [body.length - 1, 1],
        [1_000_003, 2_000_000],
      ] as const) {
        const part = await readRange(store, 'a/object-1', offset, length);
        sameBytes(part, body.subarray(offset, offset + length), `${offset}+${length}`);
        assert.equal(part.buffer.byteLength, length, 'memory of its own, so that it can be sent to another thread');
      }
    });

    it('returns what there is when asked for up to so many bytes', async () => {
      const body = bytesOf(1000);
      await store.put('up-to', body);
      for (const [offset, bytesMax] of [
        [0, 10],
        [0, 1000],
        [0, 5000],
        [990, 10],
        [990, 5000],
      ] as const)
        assert.deepEqual(await store.readUpTo('up-to', offset, bytesMax), body.slice(offset, offset + bytesMax));
      await fails('missing', store.readUpTo('nothing', 0, 10));
    });

    it('says what is wrong with a read', async () => {
      await store.put('short', bytesOf(100));
      await fails('missing', readRange(store, 'nothing', 0, 10));
      await fails('missing', readRange(store, 'nothing/here/either', 0, 10));
      await fails('bad', readRange(store, 'short', 50, 100));
      await fails('bad', readRange(store, 'short', 100, 10));
      await fails('bad', readRange(store, 'short', 5000, 10));
    });

    it('lists in the order of the bytes, page by page, with sizes and times', async () => {
      const keys = ['list/a-b/1', 'list/a/1', 'list/a/2', 'list/a0', 'list/b/c/d/e', 'list/b/c_', 'list2/x', 'lis'];
      const startMs = Date.now();
      for (const [i, key] of keys.entries()) await store.put(key, bytesOf(i + 1));
      const expected = keys.filter((key) => key.startsWith('list/')).sort(compareBytes);
      assert.deepEqual(await listAll(store, 'list/', 2), expected);
      assert.deepEqual(await listAll(store, 'list/', 1000), expected);
      assert.deepEqual(await listAll(store, 'list/a', 1), ['list/a-b/1', 'list/a/1', 'list/a/2', 'list/a0']);
      assert.deepEqual(await listAll(store, 'list/a/', 1), ['list/a/1', 'list/a/2']);
      assert.deepEqual(await listAll(store, 'list/nothing', 10), []);
      const page = await store.list('list/a/1', '', 10);
      assert.equal(page.objects[0]?.bytes, keys.indexOf('list/a/1') + 1);
      const age = (page.objects[0]?.writtenAtMs ?? 0) - startMs;
      assert.ok(Math.abs(age) < 10 * 60_000, `written ${age} ms after the start`);
    });

    it('removes, also what is not there, and leaves nothing behind', async () => {
      const keys = Array.from({ length: 25 }, (_, i) => `gone/${i % 3}/${i}`);
      await Promise.all(keys.map((key) => store.put(key, bytesOf(10))));
      await store.remove(keys.slice(0, 20));
      assert.equal((await listAll(store, 'gone/', 7)).length, 5);
      await store.remove([...keys, 'gone/never', 'gone/0/never/there']);
      await store.remove([]);
      assert.deepEqual(await listAll(store, 'gone/', 7), []);
      await fails('missing', readRange(store, keys[0] as string, 0, 1));
    });

    it('puts and removes side by side in the same folders', async () => {
      const rounds = Array.from({ length: 40 }, async (_, i) => {
        const key = `busy/${i % 2}/${i}`;
        const body = bytesOf(1000);
        await store.put(key, body);
        assert.deepEqual(await readRange(store, key, 0, 1000), body);
        await store.remove([key]);
      });
      await Promise.all(rounds);
      assert.deepEqual(await listAll(store, 'busy/', 10), []);
    });

    it('refuses keys that could leave the root or hide', async () => {
      const keys = [
        '../../x',
        'a/../../x',
        '/etc/x',
        'a//b',
        '',
        '.tmp/x',
        'a/.',
        'a\\b',
        'a\0b',
        'a/',
        'x'.repeat(2000),
      ];
      for (const key of keys) {
        await fails('denied', store.put(key, bytesOf(1)));
        await fails('denied', readRange(store, key, 0, 1));
        await fails('denied', store.remove([key]));
      }
    });

    it('keeps roots apart', async () => {
      const other = await backend.open('some');
      const rootless = await backend.open('');
      await store.put('mine', bytesOf(10));
      await fails('missing', readRange(other, 'mine', 0, 10));
      assert.equal((await readRange(other, 'root/mine', 0, 10)).length, 10);
      assert.equal((await readRange(rootless, 'some/root/mine', 0, 10)).length, 10);
      other.close();
      rootless.close();
    });

    it('passes the probe, which leaves nothing behind', async () => {
      await probe(store);
      assert.deepEqual(await listAll(store, 'probe/', 10), []);
    });
  });
}

async function listAll(store: ObjectStore, prefix: string, limit: number): Promise<string[]> {
  const keys: string[] = [];
  for (;;) {
    const page = await store.list(prefix, keys.at(-1) ?? '', limit);
    assert.ok(page.objects.length <= limit);
    keys.push(...page.objects.map(({ key }) => key));
    if (!page.more) return keys;
    assert.ok(page.objects.length > 0, 'more means progress');
  }
}

async function fails(failure: StoreFailure, attempt: Promise<unknown>): Promise<void> {
  await assert.rejects(attempt, (error: unknown) => {
    assert.ok(error instanceof StoreError, String(error));
    assert.equal(error.failure, failure, error.message);
    return true;
  });
}

function compareBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}
