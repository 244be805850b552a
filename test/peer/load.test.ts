// Bounds under load: a peer that does not read, and a long snapshot.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { AcceptorHandshake } from '../../src/peer/handshake.ts';
import { SNAPSHOT_CHUNK_BYTES_MAX } from '../../src/peer/limits.ts';
import type { SnapshotOutcome, SnapshotSource } from '../../src/shard/ports.ts';
import type { Message, GroupSnapshotRequest } from '../../src/raft/types.ts';
import { NONCE_BYTES } from '../../src/peer/codec/handshake.ts';
import { GROUP_COUNT, HOST, SECRET, Waiter, makeCluster, makePeer } from './fixture.ts';
import type { Overrides, TestPeer } from './fixture.ts';

const MIB = 1024 * 1024;

function appendOf(dataBytes: number, round: number): Message {
  const entries = [{ term: 1, index: round, kind: 0 as const, data: new Uint8Array(dataBytes) }];
  const head = { type: 'append' as const, from: 1, to: 2, term: 1, allowedBoot: 0, restored: false };
  return { ...head, prevIndex: round - 1, prevTerm: 1, entries, commit: 0, round };
}

function snapshotMessage(index: number): GroupSnapshotRequest {
  const configuration = { voters: [1, 2], votersOutgoing: [], learners: [] };
  const head = { type: 'snapshot' as const, from: 1, to: 2, term: 3, round: 9, allowedBoot: 0, restored: false };
  return { ...head, snapshot: { index, term: 2, configuration } };
}

async function makePair(t: TestContext, waiter: Waiter, overrides: Overrides = {}): Promise<[TestPeer, TestPeer]> {
  const [one, two] = await makeCluster(t, waiter, 2, overrides);
  assert.ok(one !== undefined && two !== undefined);
  return [one, two];
}

/** Node 2 in name only: welcomes, then reads nothing until told. */
async function deafPeer(t: TestContext): Promise<{ port: number; sockets: Socket[] }> {
  const self = { clusterId: 'test', groupCount: GROUP_COUNT, node: 2, shard: 0, shardCount: 1, boot: 5 };
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const handshake = new AcceptorHandshake({
      introduce: () => self,
      secret: SECRET,
      nonce: PROCESS_RUNTIME.randomBytes(NONCE_BYTES),
    });
    sockets.push(socket);
    t.after(() => socket.destroy());
    const onData = (chunk: Buffer): void => {
      const step = handshake.receive(chunk);
      if (step.kind === 'say') socket.write(step.bytes);
      if (step.kind !== 'done') return;
      socket.write(step.say);
      socket.off('data', onData);
      socket.pause();
    };
    socket.on('error', () => {}).on('data', onData);
  }).listen(0, HOST);
  t.after(() => server.close());
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, sockets };
}

test('a peer that does not read costs a bounded queue; messages yield to forwards, and all is counted', async (t) => {
  const waiter = new Waiter();
  const deaf = await deafPeer(t);
  const queueBytesMax = 4 * MIB;
  // No pings: the link stays although nothing answers.
  const one = makePeer(t, waiter, 1, { limits: { queueBytesMax, tickMs: 1_000_000 } });
  await one.peers.start();
  one.peers.setPeers([{ node: 2, address: { host: HOST, port: deaf.port } }]);
  await waiter.until('the link', () => one.peers.connected(2, 0));
  const message = appendOf(64 * 1024, 1);
  const boundBytes = queueBytesMax + MIB;
  // 64 MiB and more: past what the kernel takes, the oldest go.
  for (let turns = 0; turns < 1000 || one.peers.counters().peer_dropped_frames < 500; turns++) {
    one.peers.sendRaft(2, 1, message);
    one.peers.flush();
    assert.ok(one.peers.counters().peer_queued_bytes <= boundBytes);
    if (turns % 100 === 0) await new Promise(setImmediate);
  }
  const { peer_dropped_frames: droppedFrames, peer_dropped_bytes: droppedBytes } = one.peers.counters();
  assert.ok(droppedFrames >= 500 && droppedBytes > droppedFrames * 64 * 1024);
  // Forwards are not dropped: messages yield half of the queue, and when that is full the caller is refused.
  let accepted = 0;
  while (one.peers.forward(2, 1, new Uint8Array(64 * 1024), () => {})) accepted++;
  assert.ok(accepted > 28 && accepted <= 32, `${accepted} accepted`);
  assert.ok(one.peers.counters().peer_queued_bytes <= boundBytes);
});

test('100 MB of snapshot pass with bounded memory, while messages go on', async (t) => {
  const waiter = new Waiter();
  const [one, two] = await makePair(t, waiter, { limits: { snapshotBytesPerSecond: 0 } });
  const total = 100 * MIB;
  const sentHash = createHash('sha256');
  const gotHash = createHash('sha256');
  two.heard.onChunk = (_snapshot, bytes) => gotHash.update(bytes);
  two.heard.onComplete = (snapshot) => assert.ok(two.peers.snapshotResult(snapshot, 'installed'));
  let produced = 0;
  let aheadMax = 0;
  let queuedMax = 0;
  let round = 0;
  const outcome = await new Promise<SnapshotOutcome>((resolve) => {
    const source: SnapshotSource = {
      next() {
        if (produced === total) return undefined;
        const chunk = new Uint8Array(SNAPSHOT_CHUNK_BYTES_MAX).fill(produced / SNAPSHOT_CHUNK_BYTES_MAX);
        sentHash.update(chunk);
        produced += chunk.length;
        aheadMax = Math.max(aheadMax, produced - two.heard.snapshotBytes);
        queuedMax = Math.max(queuedMax, one.peers.counters().peer_queued_bytes);
        one.peers.sendRaft(2, 3, appendOf(100, ++round));
        one.peers.flush();
        return chunk;
      },
      done: resolve,
    };
    assert.ok(one.peers.sendSnapshot(2, 5, snapshotMessage(777), new TextEncoder().encode('hello'), source));
    assert.equal(one.peers.sendSnapshot(2, 5, snapshotMessage(778), new Uint8Array(0), source), undefined);
  });
  assert.equal(outcome, 'installed');
  assert.deepEqual(two.heard.snapshots, ['begin 1/5 at 777: hello', 'complete 1/5']);
  assert.equal(two.heard.snapshotBytes, total);
  assert.equal(gotHash.digest('hex'), sentHash.digest('hex'));
  assert.equal(two.heard.messages.length, round);
  assert.ok(aheadMax <= 3 * MIB, `${aheadMax} bytes ahead of the receiver`);
  assert.ok(queuedMax <= MIB, `${queuedMax} bytes queued`);
  assert.equal(one.peers.counters().raft_grpc_snapshot_payload_bytes, total);
});

test('a snapshot keeps to its rate', async (t) => {
  const waiter = new Waiter();
  const bytesPerSecond = 40 * MIB;
  const [one, two] = await makePair(t, waiter, { limits: { snapshotBytesPerSecond: bytesPerSecond } });
  two.heard.onComplete = (snapshot) => void two.peers.snapshotResult(snapshot, 'installed');
  const total = 10 * MIB;
  let left = total;
  const startMs = performance.now();
  const outcome = await new Promise<SnapshotOutcome>((resolve) => {
    const next = (): Uint8Array | undefined => ((left -= MIB / 8) >= 0 ? new Uint8Array(MIB / 8) : undefined);
    one.peers.sendSnapshot(2, 5, snapshotMessage(1), new Uint8Array(0), { next, done: resolve });
  });
  assert.equal(outcome, 'installed');
  // The clock only bounds from below: a slow machine may take longer.
  const leastMs = (1000 * (total - 0.05 * bytesPerSecond - MIB)) / bytesPerSecond;
  assert.ok(performance.now() - startMs >= leastMs);
});

test('a snapshot that breaks off is aborted at one end and lost at the other; one that is refused has failed', async (t) => {
  const waiter = new Waiter();
  const [one, two] = await makePair(t, waiter);
  const outcomes: SnapshotOutcome[] = [];
  const endless: SnapshotSource = { next: () => new Uint8Array(1000), done: (outcome) => outcomes.push(outcome) };
  const cancelled = one.peers.sendSnapshot(2, 1, snapshotMessage(1), new Uint8Array(0), endless);
  await waiter.until('bytes', () => two.heard.snapshotBytes > 10_000);
  cancelled?.cancel();
  cancelled?.cancel();
  await waiter.until('the abort', () => two.heard.snapshots.includes('aborted 1/1'));
  two.heard.onChunk = (snapshot) => void two.peers.snapshotResult(snapshot, 'failed');
  one.peers.sendSnapshot(2, 2, snapshotMessage(1), new Uint8Array(0), endless);
  await waiter.until('the failure', () => outcomes.length === 2);
  two.heard.onChunk = () => {};
  one.peers.sendSnapshot(2, 3, snapshotMessage(1), new Uint8Array(0), endless);
  await waiter.until('bytes', () => two.heard.snapshots.includes('begin 1/3 at 1: '));
  await one.peers.stop();
  await waiter.until('the other abort', () => two.heard.snapshots.includes('aborted 1/3'));
  assert.deepEqual(outcomes, ['cancelled', 'failed', 'lost']);
});
