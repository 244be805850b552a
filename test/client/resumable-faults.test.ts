// Resumable streams when something goes wrong: stops, late readers, ends that no reader hears (issues 19, 44 and 47 of `resumable-stream`),
// and producers that fail, die, are cut off, or are two.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type MillraceClient, connect } from '../../src/client/client.ts';
import {
  type MillraceResumableStreamContext,
  type ResumableStreamContextOptions,
  createResumableStreamContext,
} from '../../src/client/resumable-stream.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { Relay } from '../support/relay.ts';
import { TestServer, removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';
import { codeOf } from './answers.ts';
import { NoSocket } from './no-socket.ts';
import { type WritableText, readAll, readPiece, writableText } from './texts.ts';

const BUCKET = 'texts';
const server = new TestServer({ cores: 1, groups: 4 });
const folder = temporaryFolder('resumable');
/** Two processes, as far as the node can tell. */
let [here, there]: MillraceClient[] = [];
let ids = 0;

before(async () => {
  await server.start();
  [here, there] = [connect(server.url), connect(server.url)];
});
after(async () => {
  here?.close();
  there?.close();
  await server.dispose();
  removeFolder(folder);
});

const newId = (): string => `chat ${ids++}/ä`;

function contextOf(
  client: MillraceClient | undefined,
  options: Partial<ResumableStreamContextOptions> = {},
): MillraceResumableStreamContext {
  assert(client !== undefined);
  return createResumableStreamContext({ client, bucket: BUCKET, ...options });
}

test('a stop from another process ends readers behind what was written, and an idle producer at once', async () => {
  const [context, other] = [contextOf(here), contextOf(there)];
  const id = newId();
  const { readable, write, cancelled } = writableText();
  const signals: AbortSignal[] = [];
  const produced: Promise<unknown>[] = [];
  const serverless = contextOf(here, { waitUntil: (promise) => void produced.push(promise) });
  const first = await serverless.resumableStream(id, (signal) => {
    signals.push(signal);
    return readable;
  });
  write('half a sen');
  assert.equal(await readPiece(first ?? new ReadableStream()), 'half a sen');
  const second = await other.resumeExistingStream(id);
  assert.deepEqual(
    [await other.stopExistingStream(id), await context.stopExistingStream(id), await other.stopExistingStream('none')],
    [true, 'DONE', null],
  );
  assert.deepEqual([await readAll(first), await readAll(second)], ['', 'half a sen']);
  assert.match(String(await within(cancelled, PATIENCE_MS, 'the cancelled source')), /the stream was stopped/);
  assert.equal(signals[0]?.aborted, true);
  await within(Promise.all(produced), PATIENCE_MS, 'the end of the producer');
  assert.deepEqual([await context.hasExistingStream(id), await context.resumeExistingStream(id)], ['DONE', null]);
});

test('long after the end any reader resumes at any character, within characters and beyond the end too', async () => {
  const text = 'añ👋🏽\u{0000}"\\末';
  const id = newId();
  const { readable, write, close } = writableText();
  const first = await contextOf(here).resumableStream(id, () => readable);
  // The pieces are cut between the halves of a character.
  for (let i = 0; i < text.length; i += 3) write(text.slice(i, i + 3));
  write('');
  close();
  assert.equal(await readAll(first), text);
  const late = contextOf(there, { afterEnd: 'replay' });
  assert.equal(await late.hasExistingStream(id), 'DONE');
  for (let skip = 0; skip <= text.length + 2; skip++) {
    assert.equal(await readAll(await late.resumeExistingStream(id, skip)), text.slice(skip), `behind ${skip}`);
  }
  const never = (): never => assert.fail('it has ended');
  assert.equal(await readAll(await late.resumableStream(id, never, 2)), text.slice(2));
  for (const none of [Number.NaN, -1]) assert.equal(await readAll(await late.resumeExistingStream(id, none)), text);
});

test('the signal of a producer that comes to its end is not aborted', async (t) => {
  const far = connect(server.url, { WebSocket: NoSocket });
  const original = globalThis.fetch;
  const isOver = (response: Response): boolean => response.headers.get('stream-closed') === 'true';
  for (const how of ['close', 'fail'] as const) {
    const produced: Promise<unknown>[] = [];
    const signals: AbortSignal[] = [];
    const text = writableText();
    let ends = 0;
    const reads: Promise<unknown>[] = [];
    const mocked = t.mock.method(globalThis, 'fetch', async (...args: Parameters<typeof fetch>) => {
      const isPost = args[1]?.method === 'POST';
      const response = await original(...args).catch((error: unknown) => {
        // A follower that was ended.
        ends += isPost ? 0 : 1;
        throw error;
      });
      if (!isPost) ends += isOver(response) ? 1 : 0;
      else if (isOver(response)) {
        // The producer learns last that it closed the stream.
        await until('the end at its reader and at what watches for stops', () => ends >= 2);
        await Promise.all(reads);
      }
      return response;
    });
    const context = contextOf(far, { waitUntil: (promise) => void produced.push(promise) });
    const stream = await context.resumableStream(newId(), (signal) => {
      signals.push(signal);
      return text.readable;
    });
    reads.push(readAll(stream).catch(() => undefined));
    text.write('all');
    if (how === 'close') text.close();
    else text.fail(new Error('overloaded'));
    await Promise.all(produced);
    assert.equal(signals[0]?.aborted, false, how);
    mocked.mock.restore();
  }
  far.close();
});

test('a position that is yet to come is awaited', async () => {
  const id = newId();
  const { readable, write, close } = writableText();
  await contextOf(here).resumableStream(id, () => readable);
  write('ab');
  const ahead = await contextOf(there).resumeExistingStream(id, 3);
  write('cd', 'ef');
  close();
  assert.equal(await readAll(ahead), 'def');
});

test('a reader whose connection is lost around the end learns of it, whatever it missed', async () => {
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const far = connect(`http://127.0.0.1:${relay.port}`);
  const id = newId();
  const { readable, write, close } = writableText();
  const first = await contextOf(here).resumableStream(id, () => readable);
  const second = await contextOf(far).resumeExistingStream(id);
  assert(second !== null && second !== undefined);
  write('all of ');
  assert.equal(await readPiece(second), 'all of ');
  const rest = readAll(second);
  relay.loses = 'everything';
  relay.cut();
  write('the answer');
  close();
  assert.equal(await readAll(first), 'all of the answer');
  relay.loses = 'nothing';
  relay.cut();
  assert.equal(await within(rest, PATIENCE_MS, 'the end'), 'the answer');
  far.close();
  relay.close();
});

test('a producer process that is killed is found dead by its readers, and by none of them twice', async () => {
  const library = (name: string): string => JSON.stringify(join(REPO_ROOT, `dist/src/client/${name}.js`));
  const file = join(folder, 'producer.mjs');
  const id = newId();
  writeFileSync(
    file,
    `import { connect } from ${library('client')};
    import { createResumableStreamContext } from ${library('resumable-stream')};
    const client = connect(${JSON.stringify(server.url)});
    const context = createResumableStreamContext({ client, bucket: '${BUCKET}', producerTimeoutMs: 500 });
    await context.resumableStream(${JSON.stringify(id)}, () => new ReadableStream({ start: (own) => own.enqueue('so far') }));
    setInterval(() => undefined, 1000);`,
  );
  const producer = run([process.execPath, file]);
  const context = contextOf(there);
  await until('the producer', async () => (await context.hasExistingStream(id)) === true);
  const readers = [await contextOf(here).resumeExistingStream(id), await context.resumeExistingStream(id)];
  for (const reader of readers) assert.equal(await readPiece(reader ?? new ReadableStream()), 'so far');
  const ends = readers.map(async (reader) => await codeOf(readAll(reader)));
  await producer.end();
  const found = await within(Promise.all(ends), PATIENCE_MS, 'the readers of a dead producer');
  assert.deepEqual(found, ['0 PRODUCER_FAILED', '0 PRODUCER_FAILED']);
  assert.equal(await context.hasExistingStream(id), 'DONE');
  const late = await contextOf(here, { afterEnd: 'replay' }).resumeExistingStream(id);
  await assert.rejects(readAll(late), /the producer has written nothing for 0\.5 s/);
});

test('a producer that has nothing to say for long lives', async () => {
  const id = newId();
  const { readable, write, close } = writableText();
  const context = contextOf(here, { producerTimeoutMs: 2000 });
  const stream = await context.resumableStream(id, () => readable);
  const text = readAll(stream);
  const raw = there?.stream(BUCKET, id);
  let signs = 0;
  for await (const { value } of raw?.records().follow({ record: 1 }) ?? []) {
    assert.deepEqual(value, { alive: true });
    if (++signs === 6) break;
  }
  write('at last');
  close();
  assert.equal(await text, 'at last');
});

test('a producer that is cut off for longer is taken for dead, and stops when it comes back', async () => {
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const far = connect(`http://127.0.0.1:${relay.port}`);
  const id = newId();
  const { readable, write, cancelled } = writableText();
  const first = await contextOf(far, { producerTimeoutMs: 500 }).resumableStream(id, () => readable);
  write('one');
  assert.equal(await readPiece(first ?? new ReadableStream()), 'one');
  relay.loses = 'everything';
  write('two');
  const reader = await contextOf(there).resumeExistingStream(id);
  assert.equal(await codeOf(within(readAll(reader), PATIENCE_MS, 'its death')), '0 PRODUCER_FAILED');
  relay.loses = 'nothing';
  relay.cut();
  assert.match(String(await within(cancelled, PATIENCE_MS, 'its stop')), /taken for dead|closed/);
  assert.equal(await codeOf(readAll(first)), '0 PRODUCER_FAILED');
  const late = await contextOf(here, { afterEnd: 'replay' }).resumeExistingStream(id);
  assert.equal(await readPiece(late ?? new ReadableStream()), 'one');
  await late?.cancel();
  far.close();
  relay.close();
});

test('readers get the error of a producer that fails, behind its text', async () => {
  const context = contextOf(here);
  const { readable, write, fail } = writableText();
  const broken = await context.resumableStream(newId(), () => readable);
  write('as far as');
  assert.equal(await readPiece(broken ?? new ReadableStream()), 'as far as');
  fail(new Error('the model is overloaded'));
  await assert.rejects(readAll(broken), { code: 'PRODUCER_FAILED', message: 'the model is overloaded' });
  const thrown = await context.resumableStream(newId(), () => {
    throw new Error('x'.repeat(5000));
  });
  await assert.rejects(readAll(thrown), { code: 'PRODUCER_FAILED', message: 'x'.repeat(1000) });
  const chunks: ReadableStream = new ReadableStream({ start: (own) => own.enqueue(new Uint8Array(1)) });
  await assert.rejects(readAll(await context.resumableStream(newId(), () => chunks)), /has to be a string, not object/);
});

test('of many callers with one id one is the producer', async () => {
  const id = newId();
  const made: WritableText[] = [];
  const make = (): ReadableStream<string> => {
    const text = writableText();
    made.push(text);
    return text.readable;
  };
  // A stream that is there is never made again, with another lifetime neither.
  const callers = [here, there, here, there].map((client, i) => contextOf(client, { ttlSeconds: 1000 + (i >> 1) }));
  const readers = await Promise.all(callers.map(async (context) => await context.createNewResumableStream(id, make)));
  assert.equal(made.length, 1);
  made[0]?.write('only once');
  made[0]?.close();
  assert.deepEqual(new Set(await Promise.all(readers.map(readAll))), new Set(['only once']));
});

test('a caller whose stream was made, but whose answer is lost, is the producer', async (t) => {
  const far = connect(server.url, { WebSocket: NoSocket });
  const original = globalThis.fetch;
  let lost = 0;
  t.mock.method(globalThis, 'fetch', async (...args: Parameters<typeof fetch>) => {
    const response = await original(...args);
    if (args[1]?.method !== 'PUT' || lost++ > 0) return response;
    throw new TypeError('the connection was lost');
  });
  const { readable, write, close } = writableText();
  write('mine');
  close();
  assert.equal(await readAll(await contextOf(far).resumableStream(newId(), () => readable)), 'mine');
  assert.equal(lost, 2);
  far.close();
});

test('long texts come whole to slow readers, and a source is read to its end without any', async () => {
  const id = newId();
  const pieces = Array.from({ length: 60 }, (_, i) => `${i}👋`.repeat(25_000));
  let made = 0;
  const source = new ReadableStream<string>(
    {
      pull(controller) {
        const piece = pieces[made++];
        if (piece === undefined) controller.close();
        else controller.enqueue(piece);
      },
    },
    { highWaterMark: 0 },
  );
  const context = contextOf(here, { afterEnd: 'replay' });
  const slow = await context.resumableStream(id, () => source);
  assert(slow !== null);
  const reader = slow.getReader();
  const { value: begin = '' } = await reader.read();
  reader.releaseLock();
  await until('the end without a reader', async () => (await context.hasExistingStream(id)) === 'DONE');
  assert.equal(begin + (await readAll(slow)), pieces.join(''));
});

test('a node that restarts is not noticed, and a stream that is deleted ends both sides', async () => {
  const id = newId();
  const { readable, write, cancelled } = writableText();
  const first = await contextOf(here).resumableStream(id, () => readable);
  assert(first !== null);
  write('before ');
  assert.equal(await readPiece(first), 'before ');
  write('mean');
  await server.stop();
  write('while ');
  await server.start();
  write('after');
  const second = await contextOf(there).resumeExistingStream(id);
  assert(second !== null && second !== undefined);
  let text = '';
  while (text.length < 'before meanwhile after'.length) text += await readPiece(second);
  assert.equal(text, 'before meanwhile after');
  await there?.stream(BUCKET, id).delete();
  assert.equal(await codeOf(readAll(second)), '404 STREAM_NOT_FOUND');
  assert.match(String(await within(cancelled, PATIENCE_MS, 'the cancelled source')), /not found/);
});

test('other streams and senseless options are refused', async () => {
  const stream = here?.stream(BUCKET, 'other');
  await stream?.create({ contentType: 'application/json', data: '{"a":1}' });
  const context = contextOf(here);
  assert.equal(await codeOf(readAll(await context.resumeExistingStream('other'))), '0 BAD_ANSWER');
  await stream?.delete();
  // A reader whose timer fires at once would end the stream.
  await stream?.create({ contentType: 'application/json', data: '{"producer":"p","timeoutMs":2147483648}' });
  assert.equal(await codeOf(readAll(await context.resumeExistingStream('other'))), '0 BAD_ANSWER');
  assert.equal((await stream?.head())?.isClosed, false);
  await stream?.delete();
  assert.equal(await codeOf(context.hasExistingStream('')), '0 INVALID_ARGUMENT');
  for (const producerTimeoutMs of [0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31]) {
    const refusal = {
      code: 'INVALID_ARGUMENT',
      message: /name a number of milliseconds above 0 and below 2147483648$/,
    };
    assert.throws(() => contextOf(here, { producerTimeoutMs }), refusal);
  }
  assert.doesNotThrow(() => contextOf(here, { producerTimeoutMs: 2 ** 31 - 1 }));
});
