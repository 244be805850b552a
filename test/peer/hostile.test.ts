// Strangers on the cluster port, and nodes of different clusters.
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { ConnectorHandshake } from '../../src/peer/handshake.ts';
import { PEER_LIMITS } from '../../src/peer/limits.ts';
import { PeerLink } from '../../src/peer/link.ts';
import { LogLimiter } from '../../src/peer/log-limiter.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, sealFrame } from '../../src/peer/codec/frame.ts';
import type { FrameKind } from '../../src/peer/codec/frame.ts';
import {
  NONCE_BYTES,
  PROTOCOL_VERSION,
  PROTOCOL_VERSION_LEAST,
  encodeChallenge,
  encodeWelcome,
} from '../../src/peer/codec/handshake.ts';
import type { Standing } from '../../src/peer/codec/standing.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { closed } from '../support/sockets.ts';
import { until } from '../support/until.ts';
import { GROUP_COUNT, HOST, SECRET, Waiter, makePeer } from './fixture.ts';
import type { LogLine, Overrides, TestPeer } from './fixture.ts';

const random = createRandom(seedFromEnvironment());

function reasons(lines: readonly LogLine[]): string {
  return lines.map(({ message, fields }) => `${message}: ${String(fields['reason'])}`).join('\n');
}

async function startPeer(
  t: TestContext,
  waiter: Waiter,
  overrides: Overrides = {},
): Promise<TestPeer & { port: number }> {
  const peer = makePeer(t, waiter, 1, { limits: { logWindowMs: 0 }, ...overrides });
  const port = await peer.peers.start();
  return { ...peer, port };
}

/** A connection that is closed when the test ends. */
function dial(t: TestContext, port: number): Socket {
  const socket = connect({ host: HOST, port });
  t.after(() => socket.destroy());
  socket.on('error', () => {});
  return socket;
}

const SELF = { clusterId: 'test', groupCount: GROUP_COUNT, node: 2, shard: 0, shardCount: 1, boot: 77 };

/** A socket behind a good handshake, as node 2. */
async function dialAsPeer(t: TestContext, port: number): Promise<Socket> {
  const socket = dial(t, port);
  const handshake = new ConnectorHandshake(
    { self: SELF, toNode: 1, toShard: 0, nonce: randomBytes(NONCE_BYTES) },
    SECRET,
  );
  socket.write(handshake.start());
  for (;;) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    const step = handshake.receive(chunk);
    if (step.kind === 'say') socket.write(step.bytes);
    if (step.kind === 'done') return socket;
    assert.notEqual(step.kind, 'over');
  }
}

const standingOf = (digit: string): Standing => ({
  ...{ identity: digit.repeat(32), directory: digit.repeat(16), incarnation: 1, settled: [], remembers: undefined },
});

const MISFITS: readonly { name: string; other: Overrides; told: RegExp }[] = [
  { name: 'another secret', other: { secret: 'battery staple' }, told: /wrong-secret: the cluster secret differs/ },
  { name: 'no secret', other: { secret: '' }, told: /wrong-secret/ },
  { name: 'another cluster', other: { self: { clusterId: 'other' } }, told: /other-cluster: .*"other".*"test"/ },
  {
    name: "another cluster's directory",
    other: { standing: () => standingOf('b') },
    told: /other-cluster: .* of node 2 is of cluster b{32}, that of node 1 of a{32}/,
  },
  { name: 'another group count', other: { self: { groupCount: 8 } }, told: /other-group-count: .* 8.* 16/ },
  { name: 'its own id', other: { self: { node: 1 } }, told: /wrong-node: both sides are node 1/ },
];

for (const { name, other, told } of MISFITS) {
  test(`a node with ${name} is refused, and both sides say why`, async (t) => {
    const waiter = new Waiter();
    const one = await startPeer(t, waiter, { standing: () => standingOf('a') });
    const two = makePeer(t, waiter, 2, { limits: { logWindowMs: 0 }, ...other });
    // As node 9 in the list, so that a node which believes to be node 1 does not skip it as itself.
    await two.peers.start();
    const toNode = other.self?.node === 1 ? 9 : 1;
    two.peers.setPeers([{ node: toNode, address: { host: HOST, port: one.port } }]);
    await waiter.until('both log lines', () => one.warnings().length > 0 && two.warnings().length > 0);
    assert.match(reasons(one.warnings()), new RegExp(`peer connection refused: ${told.source}`));
    assert.match(reasons(two.warnings()), new RegExp(`cannot link to peer: ${told.source}`));
    assert.equal(two.peers.connected(toNode, 0), false);
    assert.equal(one.peers.counters().peer_sessions, 0);
    assert.equal(one.peers.counters().peer_refused_connections > 0, true);
    assert.deepEqual([...one.heard.links, ...two.heard.links], []);
  });
}

test('an address that leads to another node or shard is refused', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter, { self: { shard: 1, shardCount: 2 } });
  const two = makePeer(t, waiter, 2, { limits: { logWindowMs: 0 } });
  await two.peers.start();
  two.peers.setPeers([{ node: 3, address: { host: HOST, port: one.port } }]);
  await waiter.until('a refusal', () => two.warnings().length > 0);
  assert.match(reasons(two.warnings()), /wrong-node: this is node 1, not node 3/);
  two.log.length = 0;
  two.peers.setPeers([{ node: 1, address: { host: HOST, port: one.port } }]);
  await waiter.until('a refusal', () => two.warnings().length > 0);
  assert.match(reasons(two.warnings()), /wrong-shard: this is shard 1, not shard 0/);
});

/** A link to a port, with nothing around it. */
function makeLink(t: TestContext, waiter: Waiter, port: number, newest?: number): { link: PeerLink; log: string[] } {
  const log: string[] = [];
  const limiter = new LogLimiter(
    (_level, _message, fields) => {
      log.push(String(fields?.['reason']));
      waiter.note();
    },
    PROCESS_RUNTIME.monotonicMs,
    0,
  );
  const handler = { onWelcome: () => undefined, onConnected() {}, onLost() {}, onDrain() {} };
  const link = new PeerLink({
    node: 1,
    shard: 0,
    address: { host: HOST, port },
    introduce: () => SELF,
    secret: SECRET,
    limits: PEER_LIMITS,
    runtime: PROCESS_RUNTIME,
    log: limiter,
    handler,
    newest,
  });
  t.after(() => link.stop());
  link.start();
  return { link, log };
}

test('a protocol version that is not spoken any more is refused, and both sides say why', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter);
  const { link, log } = makeLink(t, waiter, one.port, PROTOCOL_VERSION_LEAST - 1);
  const said = `one side speaks peer protocol ${PROTOCOL_VERSION}, the other ${PROTOCOL_VERSION_LEAST - 1}`;
  await waiter.until('both lines', () => log.length > 0 && one.warnings().length > 0);
  assert.ok(log.join().includes(`other-version: ${said}`), log.join());
  assert.ok(reasons(one.warnings()).includes(`other-version: ${said}`));
  assert.equal(link.connected, false);
});

/** Listens, and hands out connections to `talk`. */
async function acceptor(t: TestContext, talk: (socket: Socket) => void): Promise<number> {
  const server = createServer(talk).listen(0, HOST);
  t.after(() => server.close());
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

test('an acceptor that does not know the secret, is another node, or another version, gets no frames', async (t) => {
  const waiter = new Waiter();
  const impostor = { ...SELF, node: 1 };
  const wrongProof = createHmac('sha256', 'guess').update('anything').digest();
  const cases: readonly [RegExp, (said: number) => Uint8Array][] = [
    [
      /wrong-secret/,
      (said) =>
        said === 1 ? encodeChallenge(randomBytes(NONCE_BYTES)) : encodeWelcome({ self: impostor, proof: wrongProof }),
    ],
    [/malformed: a challenge was due/, () => encodeWelcome({ self: impostor, proof: wrongProof })],
    [
      /malformed: the answer is not of the peer protocol/,
      () => new TextEncoder().encode('HTTP/1.1 400 Bad Request\r\n\r\n'),
    ],
    [/malformed: more bytes/, () => new Uint8Array(5000)],
    [
      /other-version/,
      () => new Uint8Array([...encodeChallenge(randomBytes(NONCE_BYTES))].with(4, PROTOCOL_VERSION + 1)),
    ],
  ];
  for (const [told, answer] of cases) {
    const port = await acceptor(t, (socket) => {
      let said = 0;
      socket.on('error', () => {}).on('data', () => socket.write(answer(++said)));
    });
    const { link, log } = makeLink(t, waiter, port);
    await waiter.until('a refusal', () => log.length > 0);
    assert.match(log.join(), told);
    assert.equal(link.connected, false);
    link.stop();
  }
});

test('random bytes, other protocols and early ends are closed with one log line each', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter);
  const openings = [
    new TextEncoder().encode('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
    new TextEncoder().encode('GE'),
    Uint8Array.of(0x16, 0x03, 0x01, 0x02, 0x00),
    new Uint8Array(5000),
    new TextEncoder().encode('MRPL'),
    ...Array.from({ length: 40 }, () => new Uint8Array(random.bytes(random.int(1, 4000)))),
  ];
  for (const [i, bytes] of openings.entries()) {
    const socket = dial(t, one.port);
    socket.end(bytes);
    socket.resume();
    await waiter.until('a log line', () => one.warnings().length === i + 1);
  }
  assert.equal(one.peers.counters().peer_refused_connections, openings.length);
  assert.ok(one.log.every(({ message }) => message === 'peer connection refused'));
});

test('one address that hammers at the port gets one line, and the count later', async (t) => {
  const waiter = new Waiter();
  let clockMs = 1000;
  const one = await startPeer(t, waiter, {
    runtime: { ...PROCESS_RUNTIME, monotonicMs: () => clockMs },
    limits: { logWindowMs: 1000 },
  });
  const knock = async (count: number): Promise<void> => {
    const { peer_refused_connections: before } = one.peers.counters();
    for (let i = 0; i < count; i++) dial(t, one.port).end('hello?').resume();
    await waiter.until('refusals', () => one.peers.counters().peer_refused_connections === before + count);
  };
  await knock(50);
  assert.equal(one.warnings().length, 1);
  clockMs += 1001;
  await knock(1);
  assert.deepEqual(
    one.warnings().map(({ fields }) => fields['suppressed']),
    [undefined, 49],
  );
});

test('connections that say nothing, or stop in the middle, are closed in time', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter, { limits: { handshakeTimeoutMs: 50, logWindowMs: 0 } });
  const silent = dial(t, one.port).resume();
  const halfway = dial(t, one.port).resume();
  const handshake = new ConnectorHandshake(
    { self: SELF, toNode: 1, toShard: 0, nonce: randomBytes(NONCE_BYTES) },
    SECRET,
  );
  halfway.write(handshake.start());
  await Promise.all([closed(silent), closed(halfway)]);
  assert.equal(one.warnings().length, 2);
  assert.match(reasons(one.warnings()), /no handshake in time/);
});

test('too many handshakes at a time push out the oldest, and an honest node still gets in', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter, { limits: { handshakesMax: 8, logWindowMs: 0 } });
  const crowd = Array.from({ length: 50 }, () => dial(t, one.port).resume());
  await waiter.until('evictions', () => one.peers.counters().peer_refused_connections >= 42);
  const honest = await dialAsPeer(t, one.port);
  assert.equal(one.peers.counters().peer_sessions, 1);
  for (const socket of [...crowd, honest]) socket.destroy();
  await waiter.until('all gone', () => one.peers.counters().peer_sessions === 0);
});

test('a peer that falls silent is closed', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter, { limits: { tickMs: 20, silentTicksMax: 3, logWindowMs: 0 } });
  const socket = await dialAsPeer(t, one.port);
  await closed(socket.resume());
  assert.match(reasons(one.warnings()), /peer connection closed: no ping in time/);
});

test('a link whose other end stops answering is lost and tried again', async (t) => {
  const waiter = new Waiter();
  const two = await startPeer(t, waiter);
  // A relay that can go deaf without closing.
  let deaf = false;
  let relayed = 0;
  const port = await acceptor(t, (socket) => {
    relayed++;
    const onward = dial(t, two.port);
    socket.on('error', () => {}).on('data', (chunk) => deaf || onward.write(chunk));
    onward.on('data', (chunk) => deaf || socket.write(chunk));
    t.after(() => socket.destroy());
  });
  const one = makePeer(t, waiter, 3, { limits: { tickMs: 20, silentTicksMax: 3, logWindowMs: 0 } });
  await one.peers.start();
  one.peers.setPeers([{ node: 1, address: { host: HOST, port } }]);
  await waiter.until('the link', () => one.peers.connected(1, 0));
  deaf = true;
  await waiter.until('the loss', () => !one.peers.connected(1, 0));
  assert.match(reasons(one.warnings()), /peer link is lost: no answer for 3 pings/);
  deaf = false;
  await waiter.until('the link again', () => one.peers.connected(1, 0));
  assert.ok(relayed >= 2);
});

const BAD_FRAMES: readonly { name: string; bytes: () => Uint8Array; told: RegExp }[] = [
  {
    name: 'an oversized frame',
    bytes: () => Uint8Array.of(0xff, 0xff, 0xff, 0x7f, ...new Uint8Array(8)),
    told: /oversized frame/,
  },
  { name: 'random bytes', bytes: () => Uint8Array.of(9, 0, 0, 0, ...random.bytes(40)), told: /wrong checksum/ },
  {
    name: 'an unknown kind',
    bytes: () => sealFrame(new Uint8Array(FRAME_HEAD_BYTES), 99 as FrameKind),
    told: /unknown frame kind/,
  },
  {
    name: 'a kind of the other direction',
    bytes: () => sealFrame(new Uint8Array(FRAME_HEAD_BYTES), FRAME_KIND.pong),
    told: /a frame of kind 9 that makes no sense/,
  },
  {
    name: 'a message that is none',
    bytes: () => sealFrame(new Uint8Array(FRAME_HEAD_BYTES + 30), FRAME_KIND.raft),
    told: /a frame of kind 1 that makes no sense/,
  },
  {
    name: 'a group that is not here',
    // Group 16 of 16, timeout-now in term 0.
    bytes: () => {
      const frame = new Uint8Array(FRAME_HEAD_BYTES + 12);
      frame.set([16, 0, 8], FRAME_HEAD_BYTES);
      return sealFrame(frame, FRAME_KIND.raft);
    },
    told: /a frame of kind 1 that makes no sense/,
  },
];

for (const { name, bytes, told } of BAD_FRAMES) {
  test(`a peer that sends ${name} is closed with one log line`, async (t) => {
    const waiter = new Waiter();
    const one = await startPeer(t, waiter);
    const socket = await dialAsPeer(t, one.port);
    socket.write(bytes());
    await closed(socket.resume());
    await waiter.until('the end', () => one.peers.counters().peer_sessions === 0);
    assert.equal(one.warnings().length, 1);
    assert.match(reasons(one.warnings()), new RegExp(`peer connection closed: ${told.source}`));
    assert.deepEqual(one.heard.messages, []);
  });
}

test('a second connection of the same shard replaces the first', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter);
  const first = await dialAsPeer(t, one.port);
  const isClosed = closed(first.resume());
  await dialAsPeer(t, one.port);
  await isClosed;
  assert.equal(one.peers.counters().peer_sessions, 1);
  assert.match(reasons(one.warnings()), /replaced by a newer connection/);
});

test('floods of strangers leave no memory behind', async (t) => {
  const waiter = new Waiter();
  const one = await startPeer(t, waiter, { limits: { logWindowMs: 10_000 } });
  const flood = async (count: number): Promise<void> => {
    const { peer_refused_connections: before } = one.peers.counters();
    for (let left = count; left > 0; left -= 50) {
      const sockets = Array.from({ length: 50 }, () => dialOnce(one.port, random.bytes(3000)));
      await Promise.all(sockets);
    }
    await waiter.until('refusals', () => one.peers.counters().peer_refused_connections >= before + count);
  };
  await flood(500);
  const before = heapAndBuffers();
  await flood(2000);
  await until('memory is given back', () => heapAndBuffers() - before < 8 * 1024 * 1024);
});

function dialOnce(port: number, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ host: HOST, port });
    socket.on('error', () => {}).on('close', () => resolve());
    socket.resume().end(bytes);
  });
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapAndBuffers(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
