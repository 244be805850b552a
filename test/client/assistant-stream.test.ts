// The store of assistant-ui's resumable streams, under the real context of `assistant-stream` from npm: the same is asked of the
// store in memory that comes with it, and of Millrace.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type ResumableStreamStore,
  createInMemoryResumableStreamStore,
  createResumableStreamContext,
} from 'assistant-stream/resumable';
import { createResumableStreamStore } from '../../src/client/assistant-stream.ts';
import { connect } from '../../src/client/client.ts';
import { within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { codeOf } from './answers.ts';
import { startNode } from './node.ts';

const BYTES = Uint8Array.from({ length: 256 }, (_, i) => i);
const { server, client } = await startNode();
let stores = 0;

/** Each gives every caller a way to the same streams, as processes would have it. */
const MAKERS: ReadonlyMap<string, () => readonly [ResumableStreamStore, ResumableStreamStore]> = new Map([
  [
    'in memory',
    (): readonly [ResumableStreamStore, ResumableStreamStore] => {
      const store = createInMemoryResumableStreamStore();
      return [store, store];
    },
  ],
  [
    'millrace-client/assistant-stream',
    (): readonly [ResumableStreamStore, ResumableStreamStore] => {
      const bucket = `store${stores++}`;
      return [createResumableStreamStore({ client, bucket }), createResumableStreamStore({ client, bucket })];
    },
  ],
]);

function sourceOf(...chunks: readonly (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
      controller.close();
    },
  });
}

const textOf = async (stream: ReadableStream<Uint8Array> | null): Promise<string> => await new Response(stream).text();
const never = (): never => assert.fail('there is a producer already');
const unaborted = (): AbortSignal => new AbortController().signal;

async function entriesOf(store: ResumableStreamStore, cursor: string): Promise<readonly (readonly [string, string])[]> {
  const entries: (readonly [string, string])[] = [];
  for await (const entry of store.read('id', cursor, unaborted()))
    entries.push([entry.cursor, Buffer.from(entry.chunk).toString()]);
  return entries;
}

for (const [name, makeStores] of MAKERS) {
  describe(name, () => {
    test('one caller produces, all read, and late ones resume', async () => {
      const [context, other] = makeStores().map((store) => createResumableStreamContext({ store }));
      assert(context !== undefined && other !== undefined);
      assert.deepEqual([await context.resume('id'), await context.status('id')], [null, 'missing']);
      await assert.rejects(other.requireResume('id'), { code: 'missing' });
      const first = await context.run('id', () => sourceOf('one ', 'two ', 'three'));
      const second = await other.run('id', never);
      assert.deepEqual([await textOf(first), await textOf(second)], ['one two three', 'one two three']);
      assert.equal(await other.status('id'), 'done');
      assert.equal(await textOf(await other.resume('id')), 'one two three');
      await other.delete('id');
      await other.delete('id');
      assert.equal(await context.status('id'), 'missing');
    });

    test('a source that fails has its readers fail, behind what it gave', async () => {
      const [store, other] = makeStores();
      const context = createResumableStreamContext({ store });
      let pulls = 0;
      const source = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (pulls++ > 0) throw new Error('overloaded');
          controller.enqueue(BYTES);
        },
      });
      const reader = (await context.run('id', () => source)).getReader();
      assert.deepEqual(Buffer.from((await reader.read()).value ?? []), Buffer.from(BYTES));
      await assert.rejects(reader.read(), /overloaded/);
      assert.equal(await other.status('id'), 'error');
      await assert.rejects(textOf(await createResumableStreamContext({ store: other }).resume('id')));
    });

    test('entries are read behind a cursor, and a signal ends a reader without an error', async () => {
      const [store, other] = makeStores();
      assert.equal(await store.acquire('id', { ttlMs: 60_000 }), 'producer');
      assert.equal(await other.acquire('id'), 'consumer');
      for (const piece of ['a', 'b', 'c']) await store.append('id', Buffer.from(piece));
      const abort = new AbortController();
      const live = other.read('id', '', abort.signal)[Symbol.asyncIterator]();
      assert.equal(Buffer.from((await live.next()).value?.chunk ?? []).toString(), 'a');
      await live.next();
      await live.next();
      const waiting = live.next();
      abort.abort();
      assert.equal((await within(waiting, PATIENCE_MS, 'the end of a reader')).done, true);
      assert.notEqual(await store.finalize('id', 'done'), false);
      assert.equal(await store.finalize('id', 'error', 'late'), false);
      await assert.rejects(store.append('id', Buffer.from('d')), { code: 'finalized' });
      const all = await entriesOf(other, '');
      assert.deepEqual(
        all.map(([, text]) => text),
        ['a', 'b', 'c'],
      );
      assert.deepEqual(await entriesOf(store, all[0]?.[0] ?? ''), all.slice(1));
      assert.deepEqual(await entriesOf(store, all[2]?.[0] ?? ''), []);
    });

    test('a lease ends with its stream: its holder changes nothing of the next one', async () => {
      const [store, other] = makeStores();
      const old = await store.acquireLease?.('id');
      assert(old?.role === 'producer');
      const reader = other.read('id', '', unaborted())[Symbol.asyncIterator]();
      await store.append('id', Buffer.from('old'), old.lease);
      assert.equal((await reader.next()).done, false);
      const last = reader.next();
      await other.delete('id');
      assert.equal((await within(last, PATIENCE_MS, 'the reader of a deleted stream')).done, true);
      const next = await other.acquireLease?.('id');
      assert(next?.role === 'producer');
      await assert.rejects(store.append('id', Buffer.from('stale'), old.lease), { code: 'missing' });
      await assert.rejects(store.append('id', Buffer.from('stale'), old.lease), { code: 'missing' });
      assert.equal(await store.finalize('id', 'done', undefined, old.lease), false);
      await other.append('id', Buffer.from('new'), next.lease);
      assert.notEqual(await other.finalize('id', 'done', undefined, next.lease), false);
      assert.deepEqual(
        (await entriesOf(store, '')).map(([, text]) => text),
        ['new'],
      );
    });

    test('a lease that was never used ends with its stream too', async () => {
      const [store, other] = makeStores();
      const old = await store.acquireLease?.('id');
      await other.delete('id');
      const next = await other.acquireLease?.('id');
      assert(old?.role === 'producer' && next?.role === 'producer');
      await assert.rejects(store.append('id', Buffer.from('stale'), old.lease), { code: 'missing' });
      await other.append('id', Buffer.from('new'), next.lease);
      await other.finalize('id', 'done', undefined, next.lease);
      assert.equal((await entriesOf(store, '')).length, 1);
    });

    test('what is not there and what is no id is refused', async () => {
      const [store] = makeStores();
      await assert.rejects(store.append('id', BYTES), /no stream|not found/);
      await assert.rejects(store.finalize('id', 'done'), /no stream|not found/);
      await assert.rejects(entriesOf(store, ''), /no stream|not found/);
      await assert.rejects(store.status('a/b'), { code: 'invalid-id' });
      await assert.rejects(store.acquire(''), { code: 'invalid-id' });
    });
  });
}

test('large chunks come whole, and a producer whose client ends is found dead by its readers', async () => {
  const far = connect(server.url);
  const options = { bucket: 'dying', producerTimeoutMs: 500 };
  const store = createResumableStreamStore({ client: far, ...options });
  const large = Buffer.alloc(1_000_000, BYTES);
  assert.equal(await store.acquire('id'), 'producer');
  await store.append('id', large);
  const context = createResumableStreamContext({ store: createResumableStreamStore({ client, ...options }) });
  const reader = (await context.requireResume('id')).getReader();
  const pieces: Uint8Array[] = [];
  for (let size = 0; size < large.length;) {
    const { value } = await reader.read();
    assert(value !== undefined);
    size += value.length;
    pieces.push(value);
  }
  assert.deepEqual(Buffer.concat(pieces), large);
  far.close();
  assert.equal(await codeOf(within(reader.read(), PATIENCE_MS, 'its death')), '0 PRODUCER_FAILED');
  assert.equal(await context.status('id'), 'error');
});
