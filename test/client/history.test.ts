// Histories of programs that append and follow while a leader is killed, and then three nodes are restarted one after the
// other: every append that resolved is there once and in order, and each follower saw a prefix without a gap.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type MillraceClient, connect } from '../../src/client/client.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const TEXT = { contentType: 'text/plain' };
const STREAMS = ['s0', 's1', 's2', 's3'];
/** Appends of one stream that are made at once. */
const AT_ONCE = 6;
/** Between them, so that the writers leave the nodes some processor. */
const PACE_MS = 15;
const KILLED_ID = 1;

interface History {
  /** In the order of the calls. */
  readonly appends: { readonly text: string; offset?: number }[];
  /** Bytes as each follower saw them, piece by piece, with the offset that came with them. */
  readonly followers: { readonly text: string; readonly offset: number }[][];
  /** The whole stream, read at the end. */
  final: string;
}

/** Names the first fault; undefined: there is none. */
function fault({ appends, followers, final }: History): string | undefined {
  let end = 0;
  for (const { text, offset } of appends.filter((one) => one.offset !== undefined)) {
    const at = final.indexOf(text);
    if (at < 0) return `${text} is lost`;
    if (final.indexOf(text, at + 1) >= 0) return `${text} is there twice`;
    if (at < end) return `${text} is out of order`;
    end = at + text.length;
    if (offset !== end) return `${text} ends at ${end}, and the client was told ${offset}`;
  }
  const all = appends.map(({ text }) => text).join('');
  if (all.length < final.length) return 'more is there than was appended';
  for (const pieces of followers) {
    let seen = '';
    for (const { text, offset } of pieces) {
      seen += text;
      if (offset !== seen.length) return `a follower has ${seen.length} bytes at offset ${offset}`;
    }
    if (!final.startsWith(seen)) return 'a follower saw what is not there';
  }
  return undefined;
}

async function write(client: MillraceClient, name: string, history: History, isOver: () => boolean): Promise<void> {
  const stream = client.stream('b', name, TEXT);
  await stream.create(TEXT);
  while (!isOver()) {
    const round = Array.from({ length: AT_ONCE }, async () => {
      const append: History['appends'][number] = { text: `<${history.appends.length}>` };
      history.appends.push(append);
      append.offset = await stream.append(append.text);
    });
    await Promise.all(round);
    await delay(PACE_MS);
  }
  await stream.close();
}

async function follow(client: MillraceClient, name: string, history: History): Promise<void> {
  const pieces: History['followers'][number] = [];
  history.followers.push(pieces);
  const decoder = new TextDecoder();
  for await (const { data, offset } of client.stream('b', name).follow({ wait: 'create' })) {
    pieces.push({ text: decoder.decode(data), offset });
  }
}

async function disturb(cluster: TestCluster, progress: () => Promise<void>): Promise<void> {
  await cluster.moveLeader(0, KILLED_ID);
  await cluster.kill(KILLED_ID);
  await progress();
  await cluster.restart(KILLED_ID);
  for (const id of cluster.ids) {
    await cluster.ready();
    await progress();
    await cluster.node(id).stop();
    await progress();
    await cluster.restart(id);
  }
}

test('kills and a rolling restart leave no trace in what programs appended and followed', async () => {
  await withCluster({ process: [KILLED_ID], groups: 2 }, async (cluster) => {
    const urls = cluster.ids.map((id) => cluster.node(id).url);
    const writer = connect(urls);
    // One for each node, which waits for it when it is away; and one for all.
    const clients = [connect(urls), ...urls.map((url) => connect(url))];
    const histories = STREAMS.map((): History => ({ appends: [], followers: [], final: '' }));
    let isOver = false;
    const done = () => histories.map(({ appends }) => appends.filter(({ offset }) => offset !== undefined).length);
    const work = STREAMS.flatMap((name, i) => {
      const history = histories[i] ?? assert.fail();
      return [write(writer, name, history, () => isOver), ...clients.map((client) => follow(client, name, history))];
    });
    const progress = async (): Promise<void> => {
      const before = done();
      await until('appends to every stream', () => done().every((count, i) => count > (before[i] ?? 0) + AT_ONCE));
    };
    const all = Promise.all(work);
    await Promise.race([all, disturb(cluster, progress)]);
    isOver = true;
    await all;
    const reader = connect(urls);
    for (const [i, name] of STREAMS.entries()) {
      const history = histories[i] ?? assert.fail();
      for await (const { data } of reader.stream('b', name).follow()) history.final += Buffer.from(data).toString();
      assert.equal(fault(history), undefined, name);
      assert.equal(history.appends.filter(({ offset }) => offset === undefined).length, 0);
      for (const pieces of history.followers) assert.equal(pieces.at(-1)?.offset, history.final.length);
      assert(history.appends.length > 10 * AT_ONCE, `${history.appends.length} appends`);
    }
    for (const client of [writer, reader, ...clients]) client.close();
  });
});

test('the check finds each fault that is planted', () => {
  const good = (): History => ({
    appends: [{ text: '<0>', offset: 3 }, { text: '<1>' }, { text: '<2>', offset: 9 }],
    followers: [
      [
        { text: '<0>', offset: 3 },
        { text: '<1><2>', offset: 9 },
      ],
      [{ text: '<0><', offset: 4 }],
    ],
    final: '<0><1><2>',
  });
  assert.equal(fault(good()), undefined);
  assert.equal(fault({ ...good(), appends: [{ text: '<2>', offset: 3 }], final: '<2>', followers: [] }), undefined);
  const planted: readonly [Partial<History>, RegExp][] = [
    [{ final: '<0><1>' }, /<2> is lost/],
    [{ final: '<0><1><2><0>' }, /<0> is there twice/],
    [{ final: '<2><1><0>' }, /told 3|out of order/],
    [{ final: '<0><2><1>' }, /<2> ends at 6, and the client was told 9/],
    [{ appends: [{ text: '<0>', offset: 3 }], followers: [] }, /more is there/],
    [
      {
        followers: [
          [
            { text: '<0>', offset: 3 },
            { text: '<2>', offset: 9 },
          ],
        ],
      },
      /a follower has 6 bytes at offset 9/,
    ],
    [{ followers: [[{ text: '<1>', offset: 3 }]] }, /a follower saw what is not there/],
    [
      {
        followers: [
          [
            { text: '<0>', offset: 3 },
            { text: '<0>', offset: 6 },
          ],
        ],
      },
      /a follower saw what is not there/,
    ],
  ];
  for (const [change, expected] of planted) assert.match(fault({ ...good(), ...change }) ?? '', expected);
});
