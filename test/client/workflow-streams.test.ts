// The streams of a Workflow World on a real node, as its interface has them. The DevKit's own suite runs with
// `npm run workflow-suite`.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { connect } from '../../src/client/client.ts';
import { type WorkflowStreamer, createStreamer } from '../../src/client/workflow-streams.ts';
import { until } from '../support/until.ts';
import { codeOf } from './answers.ts';
import { startNode } from './node.ts';

const { server, client } = await startNode();
const elsewhere = connect(server.url);
after(() => elsewhere.close());
/** As two processes have them. */
const { streams } = createStreamer({ client });
const other = createStreamer({ client: elsewhere, ttlSeconds: 3600 });

const BYTES = Uint8Array.from({ length: 256 }, (_, i) => i);
const RUN = 'wrun_1';

async function chunksOf(stream: ReadableStream<Uint8Array>, most = Number.POSITIVE_INFINITY): Promise<string[]> {
  const chunks: string[] = [];
  for await (const chunk of stream) if (chunks.push(Buffer.from(chunk).toString()) === most) break;
  return chunks;
}

const read = async (name: string, index?: number): Promise<string[]> =>
  await chunksOf(await other.streams.get(RUN, name, index));

test('a reader that came before the writer gets each chunk, and the end', async () => {
  const name = 'strm_1_user';
  const seen = read(name);
  const bytes = await other.streams.get(RUN, name);
  await Promise.all([streams.write(RUN, name, 'one'), streams.writeMulti(RUN, name, ['two', '', 'é', BYTES])]);
  await streams.writeMulti(RUN, name, []);
  await streams.close(RUN, name);
  await streams.close(RUN, name);
  assert.deepEqual((await seen).slice(0, 3), ['one', 'two', 'é']);
  const whole = new Uint8Array(await new Response(bytes).arrayBuffer());
  assert.deepEqual(whole.slice(-BYTES.length), BYTES);
  assert.deepEqual(await read(name, 2), (await seen).slice(2), 'an empty chunk has an index, and no reader gets it');
  assert.deepEqual(await read(name, -1), (await seen).slice(3));
  assert.deepEqual(await read(name, -100), await seen);
  assert.deepEqual(await read(name, 7), []);
  // A step that is repeated writes again what it had written before the end.
  await streams.write(RUN, name, 'late');
  await other.streams.write(RUN, name, 'late');
  assert.deepEqual(await read(name), await seen);
  assert.deepEqual(await streams.getInfo(RUN, name), { tailIndex: 4, done: true });
});

test('a reader begins at an index that is to come, and cancelling ends it', async () => {
  const name = 'strm_2_user';
  await streams.write(RUN, name, 'a');
  const later = chunksOf(await other.streams.get(RUN, name, 2), 1);
  const reader = (await other.streams.get(RUN, name)).getReader();
  assert.equal(Buffer.from((await reader.read()).value ?? []).toString(), 'a');
  const pending = reader.read();
  await reader.cancel();
  assert.deepEqual(await pending, { done: true, value: undefined });
  for (const text of ['b', 'c']) await streams.write(RUN, name, text);
  assert.deepEqual(await later, ['c']);
});

test('pages have a cursor while more is there, and tell whether it is the end', async () => {
  const name = 'strm_3_user';
  const nothing = { data: [], cursor: null, hasMore: false, done: false };
  assert.deepEqual(await streams.getChunks(RUN, name), nothing);
  assert.deepEqual(await streams.getInfo(RUN, name), { tailIndex: -1, done: false });
  await streams.writeMulti(
    RUN,
    name,
    Array.from({ length: 250 }, (_, i) => `${i}`),
  );
  const sizes: number[] = [];
  const all: string[] = [];
  for (let cursor: string | null = '0'; cursor !== null;) {
    const page = await other.streams.getChunks(RUN, name, { cursor });
    sizes.push(page.data.length);
    for (const { index, data } of page.data) all.push(`${index}=${Buffer.from(data).toString()}`);
    assert.deepEqual([page.hasMore, page.done], [page.cursor !== null, false]);
    ({ cursor } = page);
  }
  assert.deepEqual(sizes, [100, 100, 50]);
  assert.deepEqual(
    all,
    Array.from({ length: 250 }, (_, i) => `${i}=${i}`),
  );
  await streams.close(RUN, name);
  const last = await streams.getChunks(RUN, name, { cursor: '249', limit: 5 });
  assert.deepEqual([last.data.map(({ index }) => index), last.cursor, last.done], [[249], null, true]);
  assert.deepEqual(await streams.getChunks(RUN, name, { cursor: '300' }), { ...nothing, done: true });
  assert.equal(await codeOf(streams.getChunks(RUN, name, { cursor: '-1' })), '0 INVALID_ARGUMENT');
});

test('the streams of a run are listed once, whichever process wrote them', async () => {
  assert.deepEqual(await streams.list('wrun_4'), []);
  await Promise.all([streams.write('wrun_4', 'strm_4_user', 'a'), other.streams.write('wrun_4', 'strm_4_user', 'b')]);
  await other.streams.close('wrun_4', 'strm_4_user_more');
  assert.deepEqual((await streams.list('wrun_4')).toSorted(), ['strm_4_user', 'strm_4_user_more']);
  assert.deepEqual((await read('strm_4_user_more')).length, 0);
});

test('a run that writes longer than the TTL keeps its list', async () => {
  const short = createStreamer({ client, ttlSeconds: 4 });
  const isListed = async (): Promise<boolean> => {
    await short.streams.write('wrun_8', 'strm_8_user', 'a');
    return (await short.streams.list('wrun_8')).includes('strm_8_user');
  };
  assert(await isListed());
  await client.stream('workflow', 'streams of wrun_8').delete();
  assert.deepEqual(await short.streams.list('wrun_8'), []);
  await until('the list is made again', isListed);
});

test('Worlds of version 4 have the same under other names', async () => {
  const { streams: _, ...old }: WorkflowStreamer = other;
  const name = 'strm_5_user';
  await old.writeToStream(name, 'wrun_5', 'a');
  await old.writeToStreamMulti(name, 'wrun_5', ['b', 'c']);
  await old.closeStream(name, 'wrun_5');
  assert.deepEqual(await chunksOf(await old.readFromStream(name, 1)), ['b', 'c']);
  assert.deepEqual(await old.listStreamsByRunId('wrun_5'), [name]);
  assert.deepEqual((await old.getStreamChunks(name, 'wrun_5', { limit: 2 })).cursor, '2');
  assert.deepEqual(await old.getStreamInfo(name, 'wrun_5'), { tailIndex: 2, done: true });
});

test('what a node refuses is told, and the next write makes a stream that is gone', async () => {
  // Clients count the characters of names, nodes their bytes.
  assert.match(await codeOf(streams.write(RUN, '€'.repeat(1000), 'a')), /^4\d\d /);
  const name = 'strm_6_user';
  await streams.write(RUN, name, 'a');
  await client.stream('workflow', name).delete();
  assert.equal(await codeOf(streams.write(RUN, name, 'b')), '404 STREAM_NOT_FOUND');
  await streams.write(RUN, name, 'c');
  await streams.close(RUN, name);
  assert.deepEqual(await read(name), ['c']);
  await client.stream('workflow', 'strm_7_user').create({ contentType: 'text/plain' });
  assert.match(await codeOf(streams.write(RUN, 'strm_7_user', 'a')), /^4\d\d /);
});
