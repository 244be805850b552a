// The rules of a transfer at both ends, without sockets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newPeerCounters } from '../../src/peer/counters.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { PEER_LIMITS } from '../../src/peer/limits.ts';
import type { PeerLink } from '../../src/peer/link.ts';
import type { Session } from '../../src/peer/listener.ts';
import { SnapshotReceiver } from '../../src/peer/snapshot-receiver.ts';
import type { IncomingSnapshot } from '../../src/shard/ports.ts';
import { SnapshotSender } from '../../src/peer/snapshot-sender.ts';
import type { GroupSnapshotRequest } from '../../src/raft/types.ts';
import { FRAME_HEAD_BYTES, FRAME_KIND, frameKind } from '../../src/peer/codec/frame.ts';
import { decodeSnapshotEnd } from '../../src/peer/codec/snapshot-transfer.ts';

const configuration = { voters: [1, 2], votersOutgoing: [], learners: [] };
const MESSAGE: GroupSnapshotRequest = {
  type: 'snapshot',
  from: 1,
  to: 2,
  term: 1,
  round: 1,
  allowedBoot: 0,
  restored: false,
  snapshot: { index: 5, term: 1, configuration },
};

function session(node: number): Session {
  const peer = { clusterId: 'test', groupCount: 16, node, shard: 0, shardCount: 1, boot: 100 + node };
  return { peer, fail: () => assert.fail('closed') };
}

function makeReceiver(): { receiver: SnapshotReceiver; events: string[]; snapshots: IncomingSnapshot[] } {
  const events: string[] = [];
  const snapshots: IncomingSnapshot[] = [];
  const receiver = new SnapshotReceiver(
    {
      onSnapshotBegin(snapshot) {
        snapshots.push(snapshot);
        events.push(`begin from ${snapshot.node}`);
      },
      onSnapshotChunk: (_snapshot, bytes) => events.push(`chunk ${bytes.length}`),
      onSnapshotComplete: () => events.push('complete'),
      onSnapshotAborted: (snapshot) => events.push(`aborted from ${snapshot.node}`),
    },
    ({ peer }, { transfer, receivedBytes, status }) =>
      events.push(`tell ${peer.node}: ${transfer} ${status} at ${receivedBytes}`),
  );
  return { receiver, events, snapshots };
}

const metadata = new Uint8Array(0);
const begin = (transfer: number) => ({ group: 3, transfer, message: MESSAGE, metadata });
const chunk = (transfer: number, offset: number, size: number) => {
  return { group: 3, transfer, offset, bytes: new Uint8Array(size) };
};
const end = (transfer: number, totalBytes: number, complete = true) => ({ group: 3, transfer, totalBytes, complete });

test('a gap, or an end that counts other bytes, fails the transfer; what comes behind is ignored', () => {
  const { receiver, events } = makeReceiver();
  const one = session(1);
  receiver.onBegin(one, begin(7));
  receiver.onChunk(one, chunk(7, 0, 100));
  receiver.onChunk(one, chunk(7, 200, 100));
  receiver.onChunk(one, chunk(7, 300, 100));
  receiver.onEnd(one, end(7, 400));
  assert.deepEqual(events.splice(0), ['begin from 1', 'chunk 100', 'aborted from 1', 'tell 1: 7 failed at 100']);
  receiver.onBegin(one, begin(8));
  receiver.onChunk(one, chunk(8, 0, 100));
  receiver.onEnd(one, end(8, 101));
  assert.deepEqual(events, ['begin from 1', 'chunk 100', 'aborted from 1', 'tell 1: 8 failed at 100']);
});

test('a newer snapshot of the group ends the older one of the same node', () => {
  const { receiver, events, snapshots } = makeReceiver();
  const one = session(1);
  receiver.onBegin(one, begin(7));
  receiver.onBegin(one, begin(8));
  receiver.onChunk(one, chunk(7, 0, 10));
  receiver.onChunk(one, chunk(8, 0, 20));
  receiver.onEnd(one, end(8, 20));
  assert.deepEqual(events.splice(0), [
    'begin from 1',
    'aborted from 1',
    'tell 1: 7 failed at 0',
    'begin from 1',
    'chunk 20',
    'complete',
  ]);
  const [older, newer] = snapshots as [IncomingSnapshot, IncomingSnapshot];
  assert.equal(receiver.result(older, 'installed'), false);
  // The connection is not needed while the payload is installed.
  receiver.onSessionEnd(one);
  assert.equal(receiver.result(newer, 'installed'), true);
  assert.equal(receiver.result(newer, 'installed'), false);
  assert.deepEqual(events, ['tell 1: 8 installed at 20']);
});

test('a transfer outlives a change of leader while it brings something, and gives way when it does not', () => {
  const { receiver, events } = makeReceiver();
  const [one, two] = [session(1), session(2)];
  receiver.onBegin(one, begin(7));
  // The same number from another node is another transfer.
  for (let offset = 0; offset < 30; offset += 10) {
    receiver.onBegin(two, begin(7));
    receiver.onChunk(two, chunk(7, 0, 20));
    receiver.onBegin(two, begin(8));
    receiver.onChunk(one, chunk(7, offset, 10));
  }
  const refused = ['tell 2: 7 failed at 0', 'tell 2: 8 failed at 0', 'chunk 10'];
  assert.deepEqual(events.splice(0), ['begin from 1', ...refused, ...refused, ...refused]);
  // Its end was lost, and it has gone on to something else.
  for (const transfer of [9, 10, 11]) receiver.onBegin(two, begin(transfer));
  receiver.onChunk(one, chunk(7, 30, 10));
  receiver.onChunk(two, chunk(11, 0, 20));
  assert.deepEqual(events, [
    'tell 2: 9 failed at 0',
    'tell 2: 10 failed at 0',
    'aborted from 1',
    'tell 1: 7 failed at 30',
    'begin from 2',
    'chunk 20',
  ]);
});

test('a transfer that waits for this node itself gives way to none', () => {
  const { receiver, events, snapshots } = makeReceiver();
  const [one, two] = [session(1), session(2)];
  receiver.onBegin(one, begin(7));
  receiver.pace(snapshots[0] as IncomingSnapshot, 'hold');
  events.length = 0;
  for (const transfer of [1, 2, 3, 4]) receiver.onBegin(two, begin(transfer));
  assert.deepEqual(
    events.splice(0),
    [1, 2, 3, 4].map((transfer) => `tell 2: ${transfer} failed at 0`),
  );
  receiver.pace(snapshots[0] as IncomingSnapshot, 'resume');
  receiver.onEnd(one, end(7, 0));
  for (const transfer of [5, 6, 7, 8]) receiver.onBegin(two, begin(transfer));
  assert.equal(receiver.result(snapshots[0] as IncomingSnapshot, 'installed'), true);
  receiver.onBegin(two, begin(9));
  assert.deepEqual(events.slice(-2), ['tell 1: 7 installed at 0', 'begin from 2']);
});

test('a transfer ends with its connection, or when the sender gives up', () => {
  const { receiver, events } = makeReceiver();
  const one = session(1);
  receiver.onBegin(one, begin(7));
  receiver.onSessionEnd(one);
  receiver.onSessionEnd(one);
  receiver.onBegin(one, begin(8));
  receiver.onEnd(one, end(8, 0, false));
  assert.deepEqual(events, ['begin from 1', 'aborted from 1', 'begin from 1', 'aborted from 1']);
});

test('the sender keeps to the window, and gives up a receiver that falls silent', () => {
  const frames: Uint8Array[] = [];
  const link = { node: 2, queuedBytes: 0, send: (frame: Uint8Array) => frames.push(frame) > 0, flush() {} };
  let clockMs = 0;
  const limits = { ...PEER_LIMITS, snapshotBytesPerSecond: 0 };
  const runtime = { ...PROCESS_RUNTIME, monotonicMs: () => clockMs, random: () => 0, setTimer: () => () => {} };
  const sender = new SnapshotSender(limits, runtime, newPeerCounters());
  const outcomes: string[] = [];
  const source = { next: () => new Uint8Array(1000), done: (outcome: string) => outcomes.push(outcome) };
  assert.ok(sender.send(link as unknown as PeerLink, 3, MESSAGE, metadata, source));
  sender.pump();
  const inWindow = frames.length - 1;
  assert.equal(inWindow, Math.ceil(limits.snapshotWindowBytes / 1000));
  sender.pump();
  assert.equal(frames.length - 1, inWindow);
  clockMs = 50_000;
  const ack = { group: 3, transfer: 0, boot: 1, receivedBytes: 5000, status: 'receiving' as const };
  assert.ok(sender.onAck(2, ack));
  assert.equal(frames.length - 1, inWindow + 5);
  assert.equal(sender.onAck(2, { ...ack, transfer: 1 }), false);
  assert.equal(sender.onAck(3, ack), false);
  clockMs = 50_000 + limits.snapshotStallMs - 1;
  sender.expire();
  assert.deepEqual(outcomes, []);
  clockMs++;
  sender.expire();
  sender.expire();
  assert.deepEqual(outcomes, ['lost']);
  const last = frames.at(-1) as Uint8Array;
  assert.equal(frameKind(last), FRAME_KIND.snapshotEnd);
  assert.equal(decodeSnapshotEnd(last.subarray(FRAME_HEAD_BYTES))?.complete, false);
});

test('"installed" before all was sent is a failure', () => {
  const link = { node: 2, queuedBytes: 0, send: () => true, flush() {} };
  const runtime = { ...PROCESS_RUNTIME, random: () => 0, setTimer: () => () => {} };
  const sender = new SnapshotSender(PEER_LIMITS, runtime, newPeerCounters());
  const outcomes: string[] = [];
  const source = { next: () => new Uint8Array(1000), done: (outcome: string) => outcomes.push(outcome) };
  sender.send(link as unknown as PeerLink, 3, MESSAGE, metadata, source);
  sender.onAck(2, { group: 3, transfer: 0, boot: 1, receivedBytes: 0, status: 'installed' });
  assert.deepEqual(outcomes, ['failed']);
});
