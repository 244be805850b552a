// The promises of `resumable-stream`, asked of that library from npm, with a pub/sub in memory, and of Millrace in its place.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ResumableStreamContext, createResumableStreamContext as createReal } from 'resumable-stream/generic';
import { type MillraceClient, connect } from '../../src/client/client.ts';
import { createResumableStreamContext } from '../../src/client/resumable-stream.ts';
import { TestServer } from '../support/server.ts';
import { NoSocket } from './no-socket.ts';
import { readAll, readPiece, writableText } from './texts.ts';

const server = new TestServer({ cores: 1, groups: 4 });
let client: MillraceClient;
let plain: MillraceClient;
let contexts = 0;

before(async () => {
  await server.start();
  client = connect(server.url);
  plain = connect(server.url, { WebSocket: NoSocket });
});
after(async () => {
  client.close();
  plain.close();
  await server.dispose();
});

/** As Redis does it, within this process. */
function memoryRedis(): Pick<Parameters<typeof createReal>[0], 'publisher' | 'subscriber'> {
  const listeners = new Map<string, (message: string) => void>();
  const values = new Map<string, string>();
  const publisher = {
    connect: async () => await Promise.resolve(),
    publish: async (channel: string, message: string) => {
      await Promise.resolve();
      listeners.get(channel)?.(message);
    },
    set: async (key: string, value: string) => await Promise.resolve(values.set(key, value)),
    get: async (key: string) => await Promise.resolve(values.get(key) ?? null),
    incr: async (key: string) => {
      await Promise.resolve();
      const value = Number(values.get(key) ?? 0) + 1;
      if (Number.isNaN(value)) throw new Error('ERR value is not an integer or out of range');
      values.set(key, String(value));
      return value;
    },
  };
  const subscriber = {
    connect: publisher.connect,
    subscribe: async (channel: string, listener: (message: string) => void) =>
      await Promise.resolve(void listeners.set(channel, listener)),
    unsubscribe: async (channel: string) => await Promise.resolve(listeners.delete(channel)),
  };
  return { publisher, subscriber };
}

/** Each is one that programs written for `resumable-stream` take. */
const MAKERS: ReadonlyMap<string, () => ResumableStreamContext> = new Map([
  ['resumable-stream', (): ResumableStreamContext => createReal({ waitUntil: null, ...memoryRedis() })],
  [
    'millrace-client/resumable-stream',
    (): ResumableStreamContext =>
      createResumableStreamContext({ client, bucket: `context${contexts++}`, waitUntil: null }),
  ],
  [
    'millrace-client/resumable-stream over HTTP',
    (): ResumableStreamContext => createResumableStreamContext({ client: plain, bucket: `context${contexts++}` }),
  ],
]);

const never = (): never => {
  throw new Error('there is a producer already');
};

for (const [library, createContext] of MAKERS) {
  describe(library, () => {
    test('the first caller reads what it makes', async () => {
      const context = createContext();
      const { readable, write, close } = writableText();
      const stream = await context.resumableStream('id', () => readable);
      write('1\n', '2\n', '3\n');
      close();
      assert.equal(await readAll(stream), '1\n2\n3\n');
    });

    test('later callers get everything from the start, and then what comes, each at its pace', async () => {
      const context = createContext();
      const { readable, write, close } = writableText();
      const first = await context.resumableStream('id', () => readable);
      write('1\n');
      const second = await context.resumableStream('id', never);
      assert(first !== null && second !== null);
      assert.equal(await readPiece(first), '1\n');
      write('2\n');
      const third = await context.resumeExistingStream('id');
      close();
      assert.equal(await readAll(second), '1\n2\n');
      assert.equal(await readAll(third), '1\n2\n');
      assert.equal(await readAll(first), '2\n');
    });

    test('characters are skipped for those who resume, also all that there are', async () => {
      const context = createContext();
      const { readable, write, close } = writableText();
      const first = await context.resumableStream('id', () => readable);
      assert(first !== null);
      write('1\n', '2\n');
      assert.equal((await readPiece(first)) + (await readPiece(first)), '1\n2\n');
      const readers = await Promise.all(
        [0, 1, 2, 4].map(async (skip) => await context.resumableStream('id', never, skip)),
      );
      write('3\n');
      close();
      assert.deepEqual(await Promise.all(readers.map(readAll)), ['1\n2\n3\n', '\n2\n3\n', '2\n3\n', '3\n']);
      assert.equal(await readAll(first), '3\n');
    });

    test('a stream is not there, is there, and is done: then null, without a second producer', async () => {
      const context = createContext();
      assert.equal(await context.hasExistingStream('id'), null);
      assert.equal(await context.resumeExistingStream('id'), undefined);
      const { readable, write, close } = writableText();
      const stream = await context.createNewResumableStream('id', () => readable);
      assert.equal(await context.hasExistingStream('id'), true);
      assert.equal(await context.hasExistingStream('other'), null);
      write('1\n');
      close();
      assert.equal(await readAll(stream), '1\n');
      assert.equal(await context.hasExistingStream('id'), 'DONE');
      assert.equal(await context.resumableStream('id', never), null);
      assert.equal(await context.resumeExistingStream('id'), null);
    });

    test('streams and contexts keep apart', async () => {
      const [context, other] = [createContext(), createContext()];
      const texts = Array.from({ length: 3 }, writableText);
      const streams = [
        await context.resumableStream('a', () => texts[0]?.readable ?? never()),
        await context.resumableStream('b', () => texts[1]?.readable ?? never()),
        await other.resumableStream('a', () => texts[2]?.readable ?? never()),
      ];
      for (const [i, { write, close }] of texts.entries()) {
        write(`text ${i}`);
        close();
      }
      assert.deepEqual(await Promise.all(streams.map(readAll)), ['text 0', 'text 1', 'text 2']);
    });

    test('the producer goes on when its reader goes away', async () => {
      const context = createContext();
      const { readable, write, close } = writableText();
      const first = await context.resumableStream('id', () => readable);
      write('1\n');
      const second = await context.resumeExistingStream('id');
      await first?.cancel();
      write('2\n');
      close();
      assert.equal(await readAll(second), '1\n2\n');
    });
  });
}
