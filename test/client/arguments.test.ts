// Arguments that no node can take are refused at once, and concern no other call of the client; a call whose signal was
// aborted before does nothing.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { type MillraceClient, type MillraceStream, StreamError, connect } from '../../src/client/client.ts';
import { createWritableStream } from '../../src/client/web-streams.ts';
import { codeOf, textIn } from './answers.ts';
import { NoSocket } from './no-socket.ts';
import { startNode } from './node.ts';

const TEXT = { contentType: 'text/plain' };
const { server, client } = await startNode();
const far = connect(server.url, { WebSocket: NoSocket });
after(() => far.close());

/** A value that programs without types may pass, as the type that it should have. */
function untyped<T>(value: unknown): T {
  const given: T = JSON.parse('null') ?? value;
  return given;
}

type Call = (stream: MillraceStream, client: MillraceClient) => unknown;

const LONG = 'x'.repeat(300_000);
const WRONG: Readonly<Record<string, Call>> = {
  'no bytes': (stream) => stream.append(untyped({ a: 1 })),
  'an ArrayBuffer': (stream) => stream.append(untyped(new ArrayBuffer(3))),
  nothing: (stream) => stream.close(untyped(null)),
  'a DataView': (stream) => stream.create({ data: untyped(new DataView(new ArrayBuffer(2))) }),
  'a number as name': (_stream, any) => any.stream('b', untyped(42)),
  'no name': (_stream, any) => any.stream('b', untyped(undefined)),
  'a long name': (_stream, any) => any.stream('b', LONG),
  'half a character': (_stream, any) => any.stream('b', 'a\ud800'),
  'a fork without a name': async (stream) => await stream.fork(untyped({})),
  'a fork to dots': async (stream) => await stream.fork({ name: '..' }),
  'a long type': async (stream) => await stream.create({ contentType: LONG }),
  'a type that no header has': async (stream) => await stream.create({ contentType: 'text/pl€' }),
  'the type of a writer': (_stream, any) => any.stream('b', 's', { contentType: 'text/plain\n' }),
  'a part of a second': async (stream) => await stream.create({ ttlSeconds: 1.5 }),
  'an offset below 0': async (stream) => await stream.follow({ offset: -1 }).next(),
  'an offset that is none': async (stream) => await stream.follow({ offset: Number.NaN }).next(),
  'an offset too far': async (stream) => await stream.follow({ offset: 2 ** 60 }).next(),
  'an offset of null': async (stream) => await stream.follow({ offset: untyped(null) }).next(),
  'a record below 0': async (stream) => await stream.records().follow({ record: -1 }).next(),
  'a tail below 0': async (stream) => await stream.records().follow({ tail: -1 }).next(),
  'attributes that are none': async (stream) => await stream.setAttributes(untyped(undefined)),
  'a URL with a password': () => connect(server.url.replace('//', '//me:secret@')),
  'a URL with a password and no slashes': () => connect(server.url.replace('http://', 'me:secret@')),
  'a URL with a query': () => connect(`${server.url}?a=b`),
  'a token that no header has': () => connect(server.url, { token: 'a€' }),
};

for (const [way, caller] of [
  ['a session', client],
  ['HTTP', far],
] as const) {
  test(`over ${way} what no node can take is refused at once, and others go on`, async () => {
    const stream = caller.stream('b', `wrong ${way}`, TEXT);
    await stream.create(TEXT);
    let tail = 0;
    for (const [what, call] of Object.entries(WRONG)) {
      const other = caller.stream('b', stream.name, TEXT);
      const under = other.append('x');
      const refusal: unknown = await (async () => await call(stream, caller))().catch((error: unknown) => error);
      assert(refusal instanceof StreamError && refusal.code === 'INVALID_ARGUMENT', what);
      assert.doesNotMatch(refusal.message, /secret/, what);
      assert.equal(await under, ++tail, what);
      assert.equal(await stream.append('x'), ++tail, what);
    }
  });

  test(`over ${way} bytes of another realm are bytes`, async () => {
    const stream = caller.stream('b', `realm ${way}`, TEXT);
    await stream.create(TEXT);
    const foreign: Uint8Array = runInNewContext('new Uint8Array([120, 97, 98, 99]).subarray(1)');
    assert(!(foreign instanceof Uint8Array));
    assert.equal(await stream.append(foreign), 3);
    const writer = createWritableStream(stream).getWriter();
    await writer.write(foreign);
    await writer.close();
    assert.equal(await textIn(stream), 'abcabc');
  });

  test(`over ${way} a call whose signal was aborted before does nothing`, async () => {
    const stream = caller.stream('b', `aborted ${way}`, TEXT);
    const signal = AbortSignal.abort(new Error('not any more'));
    await assert.rejects(stream.create({ ...TEXT, signal }), /not any more/);
    assert.equal(await codeOf(stream.head()), '404 STREAM_NOT_FOUND');
    await stream.create(TEXT);
    await stream.append('x');
    for (const call of [
      stream.append('y', { signal }),
      stream.close('y', { signal }),
      stream.setAttributes({ title: 'y' }, { signal }),
      stream.fork({ name: `fork ${way}`, signal }),
      stream.follow({ signal }).next(),
      stream.ready({ signal }),
      stream.delete({ signal }),
    ])
      await assert.rejects(call, /not any more/);
    const { offset, isClosed } = await stream.head();
    assert.deepEqual([offset, isClosed, await stream.attributes()], [1, false, {}]);
    assert.equal(await codeOf(caller.stream('b', `fork ${way}`).head()), '404 STREAM_NOT_FOUND');
  });
}

test('the names that are dots are refused in words that fit them', () => {
  for (const name of ['.', '..'])
    assert.throws(() => client.stream('b', name), /"\.+" cannot be the name .* but not "\." or "\.\."$/);
});
