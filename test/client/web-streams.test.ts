// A stream of the client as the source and the sink of Web Streams, against a node in this process that is cut off, stopped and slow.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, type Server, createServer } from 'node:net';
import { test } from 'node:test';
import { type MillraceClient, type MillraceStream, connect } from '../../src/client/client.ts';
import { createReadableStream, createWritableStream } from '../../src/client/web-streams.ts';
import { Relay } from '../support/relay.ts';
import { until } from '../support/until.ts';
import { codeOf, textOf } from './answers.ts';
import { startNode } from './node.ts';

const TEXT = { contentType: 'text/plain' };
const { server, client } = await startNode();
let streams = 0;

async function newStream(from: MillraceClient = client): Promise<MillraceStream> {
  const stream = from.stream('b', `w${streams++}`, TEXT);
  await stream.create(TEXT);
  return stream;
}

async function textTo(tail: MillraceStream): Promise<string> {
  return await new Response(createReadableStream(tail, { live: false })).text();
}

const upperCase = (): TransformStream<string, string> =>
  new TransformStream({ transform: (chunk, controller) => controller.enqueue(chunk.toUpperCase()) });

test('a fetched body passes a transform into a stream, and the stream flows on into a sink of another kind', async () => {
  const text = 'naïve café 👋 '.repeat(20_000);
  const site: Server = createServer((socket) => {
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`);
  });
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  const stream = await newStream();
  const { body } = await fetch(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  assert(body !== null);
  await body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(upperCase())
    .pipeTo(createWritableStream(stream, { closeStream: true }));
  site.close();
  assert.deepEqual((await stream.head()).isClosed, true);
  let seen = '';
  await createReadableStream(stream)
    .pipeThrough(new TextDecoderStream())
    .pipeTo(new WritableStream<string>({ write: (chunk) => void (seen += chunk) }));
  assert.equal(seen, text.toUpperCase());
});

test('memory that the caller uses again after a write is not what is appended', async () => {
  const { name } = await newStream();
  // The type is asked for before anything is sent, so both writes resolve first.
  const stream = client.stream('b', name);
  const writer = createWritableStream(stream).getWriter();
  for (const memory of [new Uint8Array(Buffer.from('first,')), Buffer.from('second')]) {
    await writer.write(memory);
    memory.fill(0);
  }
  await writer.close();
  assert.equal(await textTo(stream), 'first,second');
});

test('closing a writer waits until all is durable, and closes the stream only when asked', async () => {
  const stream = await newStream();
  const writer = createWritableStream(stream).getWriter();
  for (const piece of ['a', '', Buffer.from('b'), 'c'.repeat(300_000)]) void writer.write(piece);
  await writer.close();
  assert.deepEqual([(await stream.head()).offset, (await stream.head()).isClosed], [300_002, false]);
  const tail = createReadableStream(stream, { offset: 300_002 }).getReader();
  const next = tail.read();
  const last = createWritableStream(stream, { closeStream: true }).getWriter();
  void last.write('end');
  await last.close();
  assert.equal(textOf((await next).value ?? new Uint8Array(0)), 'end');
  assert.deepEqual(await tail.read(), { done: true, value: undefined });
  await createWritableStream(stream, { closeStream: true }).close();
});

test('an abort leaves the stream open, and a pipe whose source fails does not close it', async () => {
  const stream = await newStream();
  const writer = createWritableStream(stream, { closeStream: true }).getWriter();
  await writer.write('a');
  await writer.abort(new Error('enough'));
  await assert.rejects(writer.write('b'), /enough/);
  const source = new ReadableStream<string>({
    pull: () => {
      throw new Error('the source broke');
    },
  });
  await assert.rejects(source.pipeTo(createWritableStream(stream, { closeStream: true })), /the source broke/);
  assert.equal(await stream.append('c'), 2);
  assert.equal(await textTo(stream), 'ac');
});

test('a reader that cancels or whose signal is aborted ends its follower', async () => {
  const subscriptions = async (): Promise<unknown> => (await server.metrics())['session_subscriptions'];
  const stream = await newStream();
  await stream.append('a');
  const idle = createReadableStream(stream, { offset: 'now' });
  assert.equal(await subscriptions(), 0, 'nothing is asked before a read');
  const reader = idle.getReader();
  const read = reader.read();
  const signalled = new AbortController();
  const aborted = createReadableStream(stream, { offset: 'now', signal: signalled.signal }).getReader().read();
  await until('both follow', async () => (await subscriptions()) === 2);
  await reader.cancel();
  assert.equal((await read).done, true);
  signalled.abort(new Error('gone'));
  await assert.rejects(aborted, /gone/);
  await until('both have ended', async () => (await subscriptions()) === 0);
  await assert.rejects(createReadableStream(stream, { signal: signalled.signal }).getReader().read(), /gone/);
  for await (const chunk of createReadableStream(stream)) {
    assert.equal(textOf(chunk), 'a');
    break;
  }
  await until('the loop that was left has ended', async () => (await subscriptions()) === 0);
});

test('refusals are StreamErrors, at the writer and at the reader', async () => {
  const missing = client.stream('b', 'missing');
  assert.equal(await codeOf(createReadableStream(missing).getReader().read()), '404 STREAM_NOT_FOUND');
  const lost = createWritableStream(missing).getWriter();
  void lost.write('x');
  assert.equal(await codeOf(lost.closed), '404 STREAM_NOT_FOUND');
  // The refusal comes while the sink closes.
  const late = createWritableStream(missing).getWriter();
  void late.write('x');
  assert.equal(await codeOf(late.close()), '404 STREAM_NOT_FOUND');
  late.closed.catch(() => undefined);
  const stream = await newStream();
  const writer = createWritableStream(stream).getWriter();
  await stream.close('the end');
  void writer.write('more');
  assert.equal(await codeOf(writer.closed), '409 STREAM_CLOSED');
  const deleted = await newStream();
  const reader = createReadableStream(deleted).getReader();
  const read = reader.read();
  await deleted.delete();
  assert.equal(await codeOf(read), '404 STREAM_NOT_FOUND');
  for (const wrong of [new ArrayBuffer(1), 5, null]) {
    const sink: WritableStream<unknown> = createWritableStream(stream);
    assert.equal(await codeOf(sink.getWriter().write(wrong)), '0 INVALID_ARGUMENT');
  }
});

test('a sink whose node is away takes as many bytes as may be under way, and can be aborted', async () => {
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const far = connect(`http://127.0.0.1:${relay.port}`, { inFlightBytes: 10_000 });
  const stream = await newStream(far);
  await stream.append('0');
  relay.loses = 'everything';
  let pulled = 0;
  const source = new ReadableStream<string>(
    {
      pull(controller) {
        if (++pulled <= 100) controller.enqueue('x'.repeat(1000));
        else controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const piped = source.pipeTo(createWritableStream(stream));
  const stuck = createWritableStream(stream).getWriter();
  await until('room is used up', () => pulled >= 8);
  void stuck.write('y').catch(() => undefined);
  stuck.closed.catch(() => undefined);
  await stuck.abort(new Error('no longer'));
  assert(pulled <= 12, `${pulled} chunks of 1000 bytes were taken`);
  relay.loses = 'nothing';
  relay.cut();
  await piped;
  assert.equal(pulled, 101);
  const text = await textTo(client.stream('b', stream.name));
  assert.equal(text.replace('y', ''), `0${'x'.repeat(100_000)}`);
  far.close();
  relay.close();
});

test('a pipe from one stream into another goes on when the node restarts under it', async () => {
  const [from, to] = [await newStream(), await newStream()];
  const piped = createReadableStream(from).pipeTo(createWritableStream(to, { closeStream: true }));
  let whole = '';
  for (let i = 0; i < 60; i++) {
    const piece = `${i};`.repeat(50);
    whole += piece;
    if (i % 20 !== 10) {
      await from.append(piece);
      continue;
    }
    const append = from.append(piece);
    await server.stop();
    await server.start();
    await append;
  }
  await from.close();
  await piped;
  assert.equal(await textTo(to), whole);
  assert.equal((await to.head()).isClosed, true);
});
