import { PROTOCOL_VERSION } from '../../src/peer/codec/handshake.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ForwardOrigin } from '../../src/shard/ports.ts';
import type { Message } from '../../src/raft/types.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { MESSAGE_TYPES, randomMessage } from '../raft/codec/random-messages.ts';
import { HOST, Waiter, makeCluster, makePeer, linkedPair } from './fixture.ts';
import { freePort, freePorts } from '../support/ports.ts';
import type { TestPeer } from './fixture.ts';

const random = createRandom(seedFromEnvironment());
const seed = `SEED=${random.seed}`;

function heartbeat(from: number, to: number, round: number): Message {
  return { type: 'heartbeat', from, to, term: 1, commit: 0, round, allowedBoot: 0, restored: false };
}

function pair(cluster: readonly TestPeer[]): [TestPeer, TestPeer] {
  const [one, two] = cluster;
  assert.ok(one !== undefined && two !== undefined);
  return [one, two];
}

test('a node that joins is linked, keeps its link while it stays, and is unlinked afterwards', async (t) => {
  const waiter = new Waiter();
  const [one, two] = pair(await makeCluster(t, waiter, 2));
  const four = makePeer(t, waiter, 4);
  const port = await four.peers.start();
  const joined = new Map([[4, `${HOST}:${port}`]]);
  one.peers.setJoined(joined);
  await waiter.until('the link', () => one.peers.connected(4, 0));
  one.peers.sendRaft(4, 0, heartbeat(1, 4, 1));
  one.peers.flush();
  await waiter.until('the message', () => four.heard.messages.length === 1);
  // Neither its own node nor those of the file are led astray, and what cannot be read is left out.
  one.peers.setJoined(new Map([...joined, [1, `${HOST}:1`], [2, `${HOST}:1`], [5, 'nowhere']]));
  assert(one.peers.connected(4, 0) && one.peers.connected(2, 0));
  assert.equal(one.peers.counters().peer_links_up, 2);
  one.peers.setJoined(new Map());
  assert(!one.peers.connected(4, 0) && one.peers.connected(2, 0) && two.peers.connected(1, 0));
  await waiter.until('the end of the session', () => four.peers.counters().peer_sessions === 0);
});

test('nodes of the version before and of this one are linked both ways, and each comes back as either', async (t) => {
  const waiter = new Waiter();
  const standing = {
    identity: 'a'.repeat(32),
    directory: 'b'.repeat(16),
    incarnation: 3,
    settled: [],
    remembers: undefined,
  };
  const here = { standing: () => standing };
  const one = makePeer(t, waiter, 1, here);
  const address = { host: HOST, port: await freePort() };
  const peers = [
    { node: 1, address: { host: HOST, port: await one.peers.start() } },
    { node: 2, address },
  ];
  one.peers.setPeers(peers);
  for (const [newest, told] of [
    [2, undefined],
    [3, standing],
    [2, undefined],
  ] as const) {
    const two = makePeer(t, waiter, 2, { listen: address, peers, newest, ...here });
    await two.peers.start();
    await waiter.until('both ways', () => two.peers.connected(1, 0) && one.peers.connected(2, 0));
    one.peers.sendRaft(2, 0, heartbeat(1, 2, 1));
    two.peers.sendRaft(1, 0, heartbeat(2, 1, 1));
    one.peers.flush();
    two.peers.flush();
    await waiter.until('messages', () => one.heard.messages.length > 0 && two.heard.messages.length > 0);
    for (const { heard } of [one, two]) {
      assert.deepEqual(heard.introduced, [
        ['hello', told],
        ['welcome', told],
      ]);
      heard.introduced.length = 0;
    }
    await two.peers.stop();
    await waiter.until('the end', () => !one.peers.connected(2, 0) && one.peers.counters().peer_sessions === 0);
    one.heard.messages.length = 0;
  }
});

test('a node of protocol 4 is not told that a state is damaged', async (t) => {
  for (const newest of [4, 5]) {
    const waiter = new Waiter();
    const [one, two] = await linkedPair(t, waiter, newest);
    const note = { round: 7, boot: 9, lost: 0, refusesLead: true, wantsState: true } as const;
    one.peers.sendRaft(2, 0, { type: 'heartbeat-response', from: 1, to: 2, term: 1, ...note });
    one.peers.flush();
    await waiter.until('the answer', () => two.heard.messages.length > 0);
    const told = { ...note, wantsState: newest === 5 };
    assert.deepEqual(two.heard.messages[0]?.message, { type: 'heartbeat-response', from: 1, to: 2, term: 1, ...told });
  }
});

test('the protocol version of a node is known, also when it is older', async (t) => {
  for (const newest of [5, PROTOCOL_VERSION - 1, PROTOCOL_VERSION]) {
    const [one, two] = await linkedPair(t, new Waiter(), newest);
    assert.equal(one.peers.version(2, 0), newest);
    await two.peers.stop();
    assert.equal(one.peers.version(2, 0), newest, 'also while it is away');
    assert.equal(one.peers.version(9, 0), 0, 'a node that was never heard');
  }
});

test('a node that connects to one that does not know it gets answers, for as long as it stays', async (t) => {
  const waiter = new Waiter();
  const one = makePeer(t, waiter, 1, { self: { shardCount: 2 } });
  const address = { host: HOST, port: await freePorts(2) };
  const onePort = await one.peers.start();
  const peers = [
    { node: 1, address: { host: HOST, port: onePort } },
    { node: 4, address },
  ];
  const four = makePeer(t, waiter, 4, { listen: address, peers });
  await four.peers.start();
  await waiter.until('both ways', () => four.peers.connected(1, 0) && one.peers.connected(4, 0));
  one.peers.sendRaft(4, 2, heartbeat(1, 4, 1));
  one.peers.flush();
  await waiter.until('the message', () => four.heard.messages.length === 1);
  await four.peers.stop();
  await waiter.until('the end', () => one.peers.counters().peer_sessions === 0);
  assert.equal(one.peers.counters().peer_links_up, 0);
  const { raft_grpc_append_stream_session_failures: failures } = one.peers.counters();
  // A node that was only known by its own connection is not looked for.
  one.peers.sendRaft(4, 2, heartbeat(1, 4, 2));
  assert.equal(one.peers.counters().raft_grpc_append_stream_session_failures, failures);
});

test('three nodes exchange every kind of message; appends keep their order, and so does the rest', async (t) => {
  const waiter = new Waiter();
  const cluster = await makeCluster(t, waiter, 3);
  const types = MESSAGE_TYPES.filter((type) => type !== 'snapshot');
  const sent = new Map<string, { group: number; message: Message }[]>();
  for (let turn = 0; turn < 50; turn++) {
    for (const [i, { peers }] of cluster.entries()) {
      for (let left = random.int(0, 5); left > 0; left--) {
        const from = i + 1;
        const to = random.pick([1, 2, 3].filter((node) => node !== from));
        const item = { group: random.int(0, 15), message: randomMessage(random, random.pick(types), from, to) };
        peers.sendRaft(to, item.group, item.message);
        sent.set(`${from}>${to}`, [...(sent.get(`${from}>${to}`) ?? []), item]);
      }
      peers.flush();
    }
  }
  const total = [...sent.values()].reduce((sum, items) => sum + items.length, 0);
  await waiter.until(
    'all messages',
    () => cluster.reduce((sum, { heard }) => sum + heard.messages.length, 0) === total,
  );
  for (const [way, items] of sent) {
    const [from, to] = way.split('>').map(Number) as [number, number];
    const got = cluster[to - 1]?.heard.messages.filter(({ message }) => message.from === from);
    for (const isAppend of [true, false]) {
      const inLane = ({ message }: { message: Message }): boolean => (message.type === 'append') === isAppend;
      assert.deepEqual(got?.filter(inLane), items.filter(inLane), seed);
    }
  }
});

test('the messages of a turn leave at the flush, as one frame per peer', async (t) => {
  const waiter = new Waiter();
  const [one, two] = pair(await makeCluster(t, waiter, 2));
  for (let group = 0; group < 16; group++) one.peers.sendRaft(2, group, heartbeat(1, 2, group));
  assert.equal(one.peers.counters().raft_grpc_append_stream_request_frames, 0);
  one.peers.flush();
  const counters = one.peers.counters();
  assert.equal(counters.raft_grpc_append_stream_request_frames, 1);
  assert.equal(counters.raft_grpc_append_stream_batch_items_max, 16);
  assert.equal(counters.raft_grpc_append_heartbeat_requests, 16);
  await waiter.until('heartbeats', () => two.heard.messages.length === 16);
  assert.equal(two.peers.counters().raft_grpc_append_stream_response_frames, 1);
});

test('an entry as large as entries get passes, and small messages overtake it', async (t) => {
  const waiter = new Waiter();
  const [one, two] = pair(await makeCluster(t, waiter, 2));
  const data = new Uint8Array(38 * 1024 * 1024).fill(7);
  const entries = [{ term: 1, index: 1, kind: 0 as const, data }];
  one.peers.sendRaft(2, 0, heartbeat(1, 2, 1));
  const append = {
    from: 1,
    to: 2,
    term: 1,
    prevIndex: 0,
    prevTerm: 0,
    commit: 0,
    round: 2,
    allowedBoot: 0,
    restored: false,
  };
  one.peers.sendRaft(2, 3, { type: 'append', ...append, entries });
  one.peers.sendRaft(2, 0, heartbeat(1, 2, 3));
  one.peers.flush();
  await waiter.until('three messages', () => two.heard.messages.length === 3);
  const large = two.heard.messages[2]?.message;
  assert.ok(large?.type === 'append');
  assert.ok(Buffer.from(data).equals(large.entries[0]?.data ?? new Uint8Array(0)));
});

test('a forwarded request gets its own answer, in any order', async (t) => {
  const waiter = new Waiter();
  const [one, two] = pair(await makeCluster(t, waiter, 2));
  const waiting: { origin: ForwardOrigin; bytes: Uint8Array }[] = [];
  two.heard.onForwarded = (origin, group, bytes) => waiting.push({ origin, bytes: Uint8Array.of(group, ...bytes) });
  const answers = new Map<number, Uint8Array | undefined>();
  for (let i = 0; i < 100; i++) {
    const sent = one.peers.forward(2, i % 16, Uint8Array.of(i), (answer) => answers.set(i, answer?.slice()));
    assert.ok(sent);
  }
  one.peers.flush();
  await waiter.until('requests', () => waiting.length === 100);
  for (const { origin, bytes } of waiting.reverse()) assert.ok(two.peers.reply(origin, bytes));
  two.peers.flush();
  await waiter.until('answers', () => answers.size === 100);
  for (let i = 0; i < 100; i++) assert.deepEqual(answers.get(i), Uint8Array.of(i % 16, i));
  assert.equal(one.peers.counters().peer_forwards_waiting, 0);
});

test('a forward to a node that is gone says so: at once when unsent, else its outcome is unknown', async (t) => {
  const waiter = new Waiter();
  const [one, two] = pair(await makeCluster(t, waiter, 2));
  const answers: (Uint8Array | undefined)[] = [];
  assert.ok(one.peers.forward(2, 1, Uint8Array.of(1), (answer) => answers.push(answer)));
  one.peers.flush();
  await waiter.until('the request', () => two.heard.forwards.length === 1);
  await two.peers.stop();
  await waiter.until('the loss', () => answers.length === 1);
  assert.deepEqual(answers, [undefined]);
  assert.equal(
    one.peers.forward(2, 1, Uint8Array.of(2), () => assert.fail('called')),
    false,
  );
  assert.equal(
    one.peers.forward(9, 1, Uint8Array.of(2), () => assert.fail('called')),
    false,
  );
  one.peers.sendRaft(2, 1, heartbeat(1, 2, 1));
  assert.equal(one.peers.counters().peer_dropped_messages, 1);
});

test('a forward without an answer ends, and a late answer is counted', async (t) => {
  const waiter = new Waiter();
  const limits = { forwardTimeoutMs: 20, tickMs: 20, silentTicksMax: 1000 };
  const [one, two] = pair(await makeCluster(t, waiter, 2, { limits }));
  const answers: (Uint8Array | undefined)[] = [];
  one.peers.forward(2, 1, Uint8Array.of(1), (answer) => answers.push(answer));
  one.peers.flush();
  await waiter.until('the end', () => answers.length === 1 && two.heard.forwards.length === 1);
  assert.deepEqual(answers, [undefined]);
  const [forward] = two.heard.forwards;
  assert.ok(forward !== undefined && two.peers.reply(forward.origin, Uint8Array.of(2)));
  two.peers.flush();
  await waiter.until('the late answer', () => one.peers.counters().peer_replies_dropped === 1);
  assert.equal(answers.length, 1);
});

test('an answer does not reach another run of the asker', async (t) => {
  const waiter = new Waiter();
  const port = await freePort();
  const asker = (): TestPeer => makePeer(t, waiter, 1, { listen: { host: HOST, port } });
  const first = asker();
  await first.peers.start();
  const two = makePeer(t, waiter, 2);
  const portOfTwo = await two.peers.start();
  const addresses = [
    { node: 1, address: { host: HOST, port } },
    { node: 2, address: { host: HOST, port: portOfTwo } },
  ];
  first.peers.setPeers(addresses);
  two.peers.setPeers(addresses);
  await waiter.until('links', () => first.peers.connected(2, 0) && two.peers.connected(1, 0));
  first.peers.forward(2, 1, Uint8Array.of(1), () => {});
  first.peers.flush();
  await waiter.until('the request', () => two.heard.forwards.length === 1);
  await first.peers.stop();
  const second = asker();
  await second.peers.start();
  second.peers.setPeers(addresses);
  await waiter.until('links again', () => second.peers.connected(2, 0) && two.peers.connected(1, 0));
  const [forward] = two.heard.forwards;
  assert.ok(forward !== undefined);
  assert.equal(two.peers.reply(forward.origin, Uint8Array.of(1)), false);
  assert.equal(two.peers.counters().peer_replies_dropped, 1);
});

test('links come back by themselves when a node restarts', async (t) => {
  const waiter = new Waiter();
  const ports = await freePorts(2);
  const addresses = [1, 2].map((node) => ({ node, address: { host: HOST, port: ports + node - 1 } }));
  const make = (node: number): TestPeer =>
    makePeer(t, waiter, node, { listen: { host: HOST, port: ports + node - 1 }, peers: addresses });
  const one = make(1);
  await one.peers.start();
  for (let round = 1; round <= 3; round++) {
    const two = make(2);
    await two.peers.start();
    await waiter.until('links', () => one.peers.connected(2, 0) && two.peers.connected(1, 0));
    one.peers.sendRaft(2, 0, heartbeat(1, 2, round));
    one.peers.flush();
    await waiter.until('the message', () => two.heard.messages.length === 1);
    await two.peers.stop();
    await waiter.until('the loss', () => !one.peers.connected(2, 0));
  }
  assert.deepEqual(one.heard.links, ['up 2/0', 'down 2/0', 'up 2/0', 'down 2/0', 'up 2/0', 'down 2/0']);
});

test('nodes with different numbers of shards find the shards of each group', async (t) => {
  const waiter = new Waiter();
  const counts = [2, 3] as const;
  const ports = await freePorts(5);
  const addresses = [
    { node: 1, address: { host: HOST, port: ports } },
    { node: 2, address: { host: HOST, port: ports + 2 } },
  ];
  const start = async (node: 1 | 2, shardCount: number): Promise<TestPeer[]> => {
    const shards = Array.from({ length: shardCount }, (_, shard) => {
      const listen = addresses[node - 1]?.address as { host: string; port: number };
      return makePeer(t, waiter, node, {
        self: { shard, shardCount, boot: 100 * node + shardCount },
        listen,
        peers: addresses,
      });
    });
    for (const { peers } of shards) await peers.start();
    return shards;
  };
  const ones = await start(1, counts[0]);
  const allLinked = (from: readonly TestPeer[], to: number): boolean =>
    Array.from({ length: 16 }, (_, group) => from[group % from.length]?.peers.connected(to, group)).every(Boolean);
  // The second time, node 2 has come back with fewer shards.
  for (const shardCount of [counts[1], 1]) {
    const twos = await start(2, shardCount);
    await waiter.until('links', () => allLinked(ones, 2) && allLinked(twos, 1));
    for (let group = 0; group < 16; group++) {
      ones[group % 2]?.peers.sendRaft(2, group, heartbeat(1, 2, group + 1));
      twos[group % shardCount]?.peers.sendRaft(1, group, heartbeat(2, 1, group + 1));
    }
    for (const { peers } of [...ones, ...twos]) peers.flush();
    await waiter.until(
      'all heartbeats',
      () => twos.concat(ones).reduce((sum, { heard }) => sum + heard.messages.length, 0) >= 32,
    );
    for (const shards of [ones, twos]) {
      for (const [shard, { heard }] of shards.entries()) {
        const groups = heard.messages.splice(0).map(({ group }) => group);
        assert.ok(groups.length > 0 && groups.every((group) => group % shards.length === shard));
      }
    }
    for (const { peers } of twos) await peers.stop();
    await waiter.until('the loss', () => ones.every(({ peers }) => peers.counters().peer_links_up === 0));
  }
});

test('a node that left the list is not linked to any more', async (t) => {
  const waiter = new Waiter();
  const [one] = pair(await makeCluster(t, waiter, 2));
  const opened = one.peers.counters().raft_grpc_append_stream_sessions_opened;
  one.peers.setPeers([]);
  assert.equal(one.peers.connected(2, 0), false);
  assert.equal(one.peers.counters().peer_links_up, 0);
  assert.equal(one.peers.counters().raft_grpc_append_stream_sessions_opened, opened);
  assert.deepEqual(one.heard.links, ['up 2/0', 'down 2/0']);
});
