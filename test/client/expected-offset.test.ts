// Compare and append: an append that expects an offset is done there once or refused, over sessions and over HTTP, with
// answers that are lost and with writers that race.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type MillraceClient, type MillraceStream, OffsetConflict, connect } from '../../src/client/client.ts';
import { Relay } from '../support/relay.ts';
import { until } from '../support/until.ts';
import { codeOf, textIn, textOf } from './answers.ts';
import { NoSocket } from './no-socket.ts';
import { startNode } from './node.ts';

const TEXT = { contentType: 'text/plain' };
/** Each of them adds so many to the counter. */
const ROUNDS = 25;
const { server, client } = await startNode();
const far = connect(server.url, { WebSocket: NoSocket });
after(() => far.close());

async function refusalOf(append: Promise<unknown>): Promise<OffsetConflict> {
  const error: unknown = await append.catch((reason: unknown) => reason);
  assert(error instanceof OffsetConflict, String(error));
  return error;
}

/** Adds one to the counter that the records of the stream are. */
async function increment(stream: MillraceStream, from: { offset: number; count: number }): Promise<void> {
  for (;;) {
    for await (const { data, offset } of stream.follow({ offset: from.offset, live: false })) {
      const numbers: number[] = JSON.parse(textOf(data));
      Object.assign(from, { offset, count: numbers.at(-1) ?? from.count });
    }
    try {
      await stream.append(String(from.count + 1), { expectedOffset: from.offset });
      return;
    } catch (error) {
      if (!(error instanceof OffsetConflict)) throw error;
      assert(error.nextOffset > from.offset, 'another writer was there before');
    }
  }
}

for (const [way, writer, options] of [
  ['a session', client, {}],
  ['HTTP', far, { WebSocket: NoSocket }],
] as const) {
  test(`over ${way} it is done at the tail, else refused with the tail, and closure comes first`, async () => {
    const name = `s ${way}`;
    const stream = writer.stream('b', name, TEXT);
    await stream.create(TEXT);
    assert.equal(await stream.append('ab', { expectedOffset: 0 }), 2);
    const refusal = await refusalOf(stream.append('x', { expectedOffset: 1 }));
    assert.deepEqual([refusal.status, refusal.code, refusal.nextOffset], [409, 'EXPECTED_OFFSET_CONFLICT', 2]);
    assert.match(refusal.message, /is 0*1, the tail is 0*2/);
    // A refusal ends neither the writer nor those behind it, unless they expect the end of what was refused.
    const behind = [stream.append('x', { expectedOffset: 0 }), stream.append('y', { expectedOffset: 1 })];
    const plain = stream.append('c');
    assert.deepEqual(await Promise.all([...behind, plain].map(codeOf)), [
      '409 EXPECTED_OFFSET_CONFLICT',
      '409 EXPECTED_OFFSET_CONFLICT',
      'no error',
    ]);
    assert.equal(await plain, 3);
    const chain = Array.from({ length: 200 }, (_, i) => stream.append('d', { expectedOffset: 3 + i }));
    assert.deepEqual(
      await Promise.all(chain),
      chain.map((_, i) => 4 + i),
    );
    for (const expectedOffset of [-1, 0.5, Number.NaN])
      assert.equal(await codeOf(stream.append('x', { expectedOffset })), '0 INVALID_ARGUMENT');
    assert.equal(await codeOf(stream.close('', { expectedOffset: 5 })), '409 EXPECTED_OFFSET_CONFLICT');
    assert.equal(await stream.close('.', { expectedOffset: 203 }), 204);
    assert.equal(await stream.close('', { expectedOffset: 204 }), 204);
    for (const expectedOffset of [0, 204]) {
      assert.equal(await codeOf(stream.append('x', { expectedOffset })), '409 STREAM_CLOSED');
    }
    assert.equal(await codeOf(stream.close('', { expectedOffset: 203 })), '409 STREAM_CLOSED');
    assert.equal(await textIn(client.stream('b', name)), `abc${'d'.repeat(200)}.`);
  });

  test(`over ${way} an append whose answer is lost is not taken for one that came too late`, async () => {
    const relay = await Relay.open();
    relay.targetPort = server.port;
    const behindRelay = connect(`http://127.0.0.1:${relay.port}`, options);
    const name = `lost ${way}`;
    const near = client.stream('b', name, TEXT);
    await near.create(TEXT);
    for (const producer of [{}, { producer: { id: 'own' } }]) {
      const { offset } = await near.head();
      const stream = behindRelay.stream('b', name, { ...TEXT, ...producer });
      // The connection is there before its answers are lost.
      await stream.head();
      relay.losesAnswers = true;
      const append = stream.append('once;', { expectedOffset: offset });
      const next = stream.append('twice;', { expectedOffset: offset + 5 });
      await until('the append at the node', async () => (await near.head()).offset > offset);
      const later = near.append('another;');
      await later;
      relay.losesAnswers = false;
      relay.cut();
      assert.equal(await append, offset + 5);
      // It was on its way with the first, or not: the other writer was faster.
      const isRefused = (await codeOf(next)) === '409 EXPECTED_OFFSET_CONFLICT';
      assert.equal(
        await textIn(client.stream('b', name)).then((text) => text.slice(offset)),
        isRefused ? 'once;another;' : 'once;twice;another;',
      );
    }
    behindRelay.close();
    relay.close();
  });
}

test('writers that race for one counter, over connections that are cut, leave no gap and no number twice', async () => {
  const relay = await Relay.open();
  relay.targetPort = server.port;
  const cut = connect(`http://127.0.0.1:${relay.port}`);
  await client.stream('b', 'counter').create({ contentType: 'application/json' });
  const writers: readonly MillraceClient[] = [client, client, far, cut, cut];
  await Promise.all(
    writers.map(async (writer, i) => {
      const stream = writer.stream('b', 'counter');
      const from = { offset: 0, count: 0 };
      for (let round = 0; round < ROUNDS; round++) {
        await increment(stream, from);
        if (writer === cut && round % 5 === i % 5) relay.cut();
      }
    }),
  );
  // Tasks of one program may share a stream.
  const shared = client.stream('b', 'counter');
  await Promise.all(
    Array.from({ length: 5 }, async () => {
      const from = { offset: 0, count: 0 };
      for (let round = 0; round < ROUNDS / 5; round++) await increment(shared, from);
    }),
  );
  const numbers: number[] = JSON.parse(await textIn(client.stream('b', 'counter')));
  assert.deepEqual(
    numbers,
    Array.from({ length: (writers.length + 1) * ROUNDS }, (_, i) => i + 1),
  );
  cut.close();
  relay.close();
});
