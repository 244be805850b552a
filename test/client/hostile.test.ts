// Nodes that break the protocol, fall silent, refuse or leave: the client believes nothing, keeps nothing without a
// bound, and goes on with the next connection. The nodes are sockets in this process, and the time is the test's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StreamError } from '../../src/client/client.ts';
import {
  type Frame,
  HELLO,
  type NodeSide,
  SUBSCRIBE,
  TEXT,
  honest,
  refusing,
  silent,
  startFakes,
  startFakesAt,
  tail,
} from './fake-nodes.ts';

const GO_AWAY = [68, 'leave'];

test('the token goes in the protocol, to whichever node answers', async (t) => {
  const { client, connections } = startFakes(t, refusing, refusing, honest);
  assert.equal(await client.stream('b', 's', TEXT).append('x'), tail.offset);
  assert.equal(connections.length, 3);
  const urls = new Set(connections.map(({ url }) => url));
  assert.deepEqual([...urls].sort(), ['ws://a.example/__svc/session', 'wss://b.example/__svc/session']);
  assert.deepEqual(connections[2]?.protocols, ['millrace.session.v1', 'millrace.bearer.se%2Fcret']);
});

const BREAKS: Readonly<Record<string, (node: NodeSide, id: number) => void>> = {
  'a text': (node) => node.emit('message', { data: 'text' }),
  'no data at all': (node) => node.emit('message', {}),
  'half a frame': (node) => node.emit('message', { data: new Uint8Array([0x95, 65]).buffer }),
  'a second HELLO': (node) => node.say(HELLO),
  'fields that are none': (node, id) => node.say([65, id, 1, 'fields', null]),
  'an offset below zero': (node, id) => node.say([65, id, -5, {}, null]),
  'an end': (node) => node.emit('close', {}),
};

test('clients of a node that is lost spread over the others', async (t) => {
  const urls = ['http://a.example', 'http://b.example', 'http://c.example'];
  const moves = new Set<string>();
  await Promise.all(
    Array.from({ length: 200 }, async () => {
      const { client, connections } = startFakesAt(urls, t, [(node) => node.emit('close', {}), honest]);
      await client.stream('b', 's', TEXT).append('x');
      moves.add(connections.map(({ url }) => url.slice(5, 6)).join());
    }),
  );
  assert.deepEqual([...moves].toSorted(), ['a,b', 'a,c', 'b,a', 'b,c', 'c,a', 'c,b']);
});

test('what breaks the protocol ends the connection, and the next one is asked the same', async (t) => {
  for (const [what, act] of Object.entries(BREAKS)) {
    const { client, connections } = startFakes(t, (node, [, id]) => act(node, id), honest);
    await client.stream('b', 's', TEXT).append('x');
    const [first, second] = connections.map(({ got }) => got[0]);
    assert.equal(connections.length, 2, what);
    // The same producer and sequence.
    assert.deepEqual(first?.slice(2), second?.slice(2), what);
  }
});

test('an acknowledgement without an offset is an error, and one for nothing is nothing', async (t) => {
  const { client } = startFakes(t, (node, [, id]) => node.say([65, 999_999, 1, {}, null], [65, id, null, {}, null]));
  const append = client.stream('b', 's', TEXT).append('x');
  await assert.rejects(append, (error) => error instanceof StreamError && error.code === 'BAD_ANSWER');
});

test('events beyond the credit end the connection, and the follower goes on where it was', async (t) => {
  const mib = Buffer.alloc(1024 * 1024, 'x');
  const flood = (node: NodeSide, [kind, id]: Frame): void => {
    if (kind !== SUBSCRIBE) return;
    node.say([67, id, mib.length, {}, mib]);
    node.say([67, id, 2 * mib.length, {}, mib]);
  };
  const { client, connections } = startFakes(t, flood, honest);
  const follower = client.stream('b', 's').follow();
  assert.equal((await follower.next()).value?.data.length, mib.length);
  assert.equal((await follower.next()).value?.data.length, 2);
  assert.deepEqual(connections[1]?.got[0]?.at(-1), { offset: mib.length });
  assert.equal((await follower.next()).done, true);
  const empty = (node: NodeSide, [kind, id]: Frame): void => {
    if (kind === SUBSCRIBE) for (let i = 0; i < 5000; i++) node.say([67, id, 7, {}, null]);
  };
  const others = startFakes(t, empty, honest);
  assert.equal((await others.client.stream('b', 's').follow().next()).value?.data.length, 2);
  assert.equal(others.connections.length, 2);
});

test('a follower believes nodes that do not tell which stream it is, and ends when one tells of another', async (t) => {
  const told = [{}, { 'stream-incarnation': 'a' }, {}, { 'stream-incarnation': 'a' }, { 'stream-incarnation': 'b' }];
  let at = 0;
  const { client } = startFakes(t, (node, [kind, id]) => {
    if (kind !== SUBSCRIBE) return;
    node.say([67, id, at + 1, told[at++], Buffer.from('x')]);
    node.emit('close', {});
  });
  const follower = client.stream('b', 's').follow();
  for (let i = 1; i <= 4; i++) assert.equal((await follower.next()).value?.offset, i);
  await assert.rejects(follower.next(), { code: 'STREAM_NOT_FOUND', message: /another one of its name/ });
});

test('a follower that takes gives credit again, and one that leaves unsubscribes', async (t) => {
  const step = Buffer.alloc(100 * 1024);
  let sent = 0;
  const { client, connections } = startFakes(t, (node, [kind, id]) => {
    if (kind === SUBSCRIBE || kind === 6) {
      for (let i = 0; i < 2; i++) node.say([67, id, (sent += step.length), {}, step]);
    }
  });
  let taken = 0;
  for await (const { data } of client.stream('b', 's').follow()) if ((taken += data.length) === 4 * step.length) break;
  await Promise.resolve();
  await Promise.resolve();
  const kinds = connections[0]?.got.map(([kind, , credit]) => [kind, kind === 6 ? credit : 0]);
  assert.deepEqual(kinds, [
    [SUBSCRIBE, 0],
    [6, 2 * step.length],
    [7, 0],
  ]);
});

test('a follower that leaves while it waits unsubscribes', async (t) => {
  let subscribed: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    subscribed = resolve;
  });
  const { client, connections } = startFakes(t, subscribed);
  const follower = client.stream('b', 's').follow();
  const waiting = follower.next();
  await begun;
  assert.deepEqual(
    [await follower.return(), await waiting].map(({ done }) => done),
    [true, true],
  );
  await Promise.resolve();
  await Promise.resolve();
  assert.deepEqual(
    connections[0]?.got.map(([kind]) => kind),
    [SUBSCRIBE, 7],
  );
});

test('a follower that takes many short events slowly costs its connection nothing', async (t) => {
  const EVENTS = 5000;
  let pending: Promise<number> | undefined;
  const { client, connections } = startFakes(t, (node, frame) => {
    const [kind, id, , , , options] = frame;
    if (kind !== SUBSCRIBE) return honest(node, frame);
    const { offset: from = 0 } = options as { offset?: number };
    for (let at = from + 1; at <= EVENTS; at++)
      node.say([67, id, at, at === EVENTS ? { 'stream-closed': 'true' } : {}, Buffer.from('x')]);
    pending ??= client.stream('b', 'other', TEXT).append('y');
  });
  const follower = client.stream('b', 's').follow();
  let taken = (await follower.next()).value?.data.length ?? 0;
  await pending;
  for await (const { data } of follower) taken += data.length;
  assert.equal(taken, EVENTS);
  assert.equal(connections.length, 1);
});

test('a slow connection gets more time after each silence', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let ticks = 0;
  const { client, connections } = startFakes(t, (node, frame) => {
    if (frame[0] !== SUBSCRIBE) return;
    const saidAt = ticks + 25;
    void (async (): Promise<void> => {
      while (ticks < saidAt) await new Promise((resolve) => setImmediate(resolve));
      if (!node.isClosed) honest(node, frame);
    })();
  });
  const first = client.stream('b', 's').follow().next();
  for (; ticks < 90; ticks++) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(1000);
  }
  assert.equal((await first).value?.data.length, 2);
  assert.equal(connections.length, 2);
});

test('what waits for room in a session is not sent when its caller has left', async (t) => {
  const { client, connections } = startFakes(t, silent);
  const heads = Array.from({ length: 1024 }, (_, i) =>
    client
      .stream('b', `s${i}`)
      .head()
      .catch(() => undefined),
  );
  const leaving = new AbortController();
  const removal = client.stream('b', 'kept').delete({ signal: leaving.signal });
  await new Promise((resolve) => setImmediate(resolve));
  leaving.abort(new Error('left'));
  await assert.rejects(removal, /left/);
  for (const [, id] of connections[0]?.got ?? []) connections[0]?.say([65, id, 0, {}, null]);
  await new Promise((resolve) => setImmediate(resolve));
  const kinds = connections[0]?.got.map(([kind]) => kind) ?? [];
  assert(kinds.length > 800 && !kinds.includes(8), kinds.join(' '));
  client.close();
  await Promise.all(heads);
});

test('a node that falls silent, at the start or later, is given up', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { client, connections } = startFakes(t, silent, honest);
  const append = client.stream('b', 's', TEXT).append('x');
  for (let i = 0; i < 30; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(1000);
  }
  await append;
  // It was asked for a sign of life.
  assert.deepEqual(
    connections[0]?.got.map(([kind]) => kind),
    [2, 3],
  );
  assert.equal(connections.length, 2);
});

test('a refusal is repeated when the node says so, and told when it does not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let refusals = 0;
  const { client, connections } = startFakes(t, (node, frame) => {
    const [kind, id] = frame;
    if (kind !== 2 || refusals++ > 2) return honest(node, frame);
    // A node does not choose how long a client waits.
    return node.say([66, id, 503, 'NO_LEADER', 'no leader', { 'retry-after': refusals === 1 ? '99999999' : '1' }]);
  });
  const append = client.stream('b', 's', TEXT).append('x');
  for (let i = 0; i < 90; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(1000);
  }
  await append;
  const [first, ...others] = connections.flatMap(({ got }) => got.filter(([kind]) => kind === 2));
  assert.equal(others.length, 3);
  for (const other of others) assert.deepEqual(other.slice(2), first?.slice(2));
  const fenced = startFakes(t, (node, [, id]) => node.say([66, id, 409, 'PRODUCER_EPOCH_STALE', 'fenced', {}]));
  const stream = fenced.client.stream('b', 's', TEXT);
  for (let i = 0; i < 2; i++) {
    await assert.rejects(stream.append('x'), (error) => error instanceof StreamError && error.status === 409);
  }
  assert.equal(fenced.connections[0]?.got.length, 1);
});

test('a node that leaves answers what is under way, and what comes goes elsewhere', async (t) => {
  const waiting: number[] = [];
  const { client, connections } = startFakes(
    t,
    (node, [, id]) => {
      waiting.push(id);
      node.say(GO_AWAY);
      queueMicrotask(() => queueMicrotask(() => node.say([65, id, 1, {}, null])));
    },
    honest,
  );
  const stream = client.stream('b', 's', TEXT);
  tail.offset = 1;
  assert.deepEqual(
    await Promise.all([stream.append('x'), client.stream('b', 'other', TEXT).append('y')]).then(([x]) => x),
    1,
  );
  assert(connections[0]?.isClosed);
  await stream.append('z');
  assert.equal(connections.length, 2);
});

test('a removal whose answer was lost is done when the stream is gone', async (t) => {
  const gone = (node: NodeSide, [, id]: Frame): void =>
    node.say([66, id, 404, 'STREAM_NOT_FOUND', 'stream not found', {}]);
  const { client } = startFakes(t, (node) => node.emit('close', {}), gone);
  await client.stream('b', 's').delete();
  await assert.rejects(client.stream('b', 's').delete(), /stream not found/);
});
