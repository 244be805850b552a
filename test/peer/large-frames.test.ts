// Large frames travel in pieces between which urgent ones leave; peers of the version before get them whole, as far as
// they take them.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { Egress } from '../../src/peer/egress.ts';
import { ConnectorHandshake } from '../../src/peer/handshake.ts';
import { IncomingForwards } from '../../src/peer/incoming-forwards.ts';
import { PRIORITY_CONTROL } from '../../src/peer/send-queue.ts';
import type { Message } from '../../src/raft/types.ts';
import { FrameReader } from '../../src/peer/codec/frame-reader.ts';
import {
  FRAME_KIND,
  FRAME_HEAD_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  type FrameKind,
  LARGE_PAYLOAD_BYTES_MAX,
  frameKind,
  pieceOf,
  sealFrame,
} from '../../src/peer/codec/frame.ts';
import { encodeForwardPiece } from '../../src/peer/codec/forward.ts';
import { NONCE_BYTES, PROTOCOL_VERSION, VERSION_WITH_PIECES } from '../../src/peer/codec/handshake.ts';
import { sameBytes } from '../support/same-bytes.ts';
import { closed } from '../support/sockets.ts';
import { GROUP_COUNT, HOST, SECRET, type TestPeer, Waiter, linkedPair } from './fixture.ts';

const MIB = 1024 * 1024;
const QUEUE_BYTES = 80 * MIB;
/** Above what one frame holds, as the first release could write it. */
const OLD_ENTRY_BYTES = 97 * MIB;

const frameOf = (kind: FrameKind, bytes: number): Uint8Array =>
  sealFrame(Buffer.alloc(FRAME_HEAD_BYTES + bytes, 'frame '), kind);

/** The frames that leave, with a way that carries everything at once. */
function leave(egress: Egress, most = Infinity): Uint8Array[] {
  const left: Uint8Array[] = [];
  while (left.length < most) {
    const frame = egress.next(0);
    if (frame === undefined) break;
    if (frameKind(frame) === FRAME_KIND.ping) egress.onPong(0);
    else left.push(frame);
  }
  return left;
}

test('an urgent frame waits for one piece of a large one, and an answer too; all arrive whole and in their order', () => {
  const egress = new Egress(QUEUE_BYTES);
  egress.takesPieces = true;
  const large = [frameOf(FRAME_KIND.forward, 31 * MIB), frameOf(FRAME_KIND.raft, 5), frameOf(FRAME_KIND.raft, 3 * MIB)];
  for (const frame of large) assert(egress.push(frame));
  const left = leave(egress, 10);
  assert.deepEqual(new Set(left.map(frameKind)), new Set([FRAME_KIND.piece]));
  const urgent = frameOf(FRAME_KIND.raft, 20);
  const reply = frameOf(FRAME_KIND.forwardReply, 30);
  egress.push(reply);
  egress.push(urgent, PRIORITY_CONTROL);
  const next = leave(egress, 2);
  assert.deepEqual(next, [urgent, reply]);
  left.push(...next, ...leave(egress));
  assert(egress.isEmpty && egress.bytes === 0);
  assert(left.every((frame) => frame.length <= 70_000));
  const whole: number[] = [];
  const inner = new FrameReader(LARGE_PAYLOAD_BYTES_MAX);
  const outer = new FrameReader();
  for (const frame of left) {
    const fault = outer.push(frame, (kind, payload) => {
      if (kind !== FRAME_KIND.piece) whole.push(payload.length);
      else
        assert.equal(
          inner.push(payload, (_kind, bytes) => whole.push(bytes.length)),
          undefined,
        );
    });
    assert.equal(fault, undefined);
  }
  assert.deepEqual(whole, [20, 30, 31 * MIB, 5, 3 * MIB]);
});

test('nothing of a frame that was cut is left over for the next connection', () => {
  const egress = new Egress(QUEUE_BYTES);
  egress.takesPieces = true;
  egress.push(frameOf(FRAME_KIND.forward, MIB));
  leave(egress, 1);
  egress.clear();
  assert(egress.isEmpty);
  egress.push(frameOf(FRAME_KIND.raft, 10));
  assert.deepEqual(leave(egress).map(frameKind), [FRAME_KIND.raft]);
});

test('requests take half of the queue, so that the largest entry still fits', () => {
  const egress = new Egress(QUEUE_BYTES);
  const request = frameOf(FRAME_KIND.forward, 31 * MIB);
  assert(egress.queue.hasRoom(request.length));
  egress.push(request);
  assert(!egress.queue.hasRoom(request.length));
  assert(egress.push(frameOf(FRAME_KIND.raft, 33 * MIB)));
});

function appendOf(dataBytes: number, index: number): Message {
  const entries = [{ term: 1, index, kind: 0 as const, data: new Uint8Array(dataBytes).fill(7) }];
  const head = { type: 'append' as const, from: 1, to: 2, term: 1, allowedBoot: 0, restored: false };
  return { ...head, prevIndex: index - 1, prevTerm: 1, entries, commit: 0, round: index };
}

const lastIndex = ({ heard }: TestPeer): number => {
  const message = heard.messages.at(-1)?.message;
  return message?.type === 'append' ? message.prevIndex + message.entries.length : 0;
};

test('an entry of an old log that no frame holds arrives whole', async (t) => {
  const waiter = new Waiter();
  const [one, two] = await linkedPair(t, waiter);
  one.peers.sendRaft(2, 0, appendOf(OLD_ENTRY_BYTES, 1));
  one.peers.flush();
  await waiter.until('the entry', () => lastIndex(two) === 1);
  const message = two.heard.messages[0]?.message;
  assert(message?.type === 'append' && message.entries[0]?.data.length === OLD_ENTRY_BYTES);
  sameBytes(message.entries[0].data, new Uint8Array(OLD_ENTRY_BYTES).fill(7));
});

test('a peer of the version before gets large frames whole, and none that would end its link', async (t) => {
  const waiter = new Waiter();
  const [one, two] = await linkedPair(t, waiter, 2);
  one.peers.sendRaft(2, 0, appendOf(31 * MIB, 1));
  one.peers.flush();
  await waiter.until('31 MiB', () => lastIndex(two) === 1);
  one.peers.sendRaft(2, 0, appendOf(OLD_ENTRY_BYTES, 2));
  one.peers.flush();
  one.peers.sendRaft(2, 0, appendOf(10, 3));
  one.peers.flush();
  await waiter.until('what follows', () => lastIndex(two) === 3);
  assert.equal(two.heard.messages.length, 2);
  assert.match(
    one
      .warnings()
      .map(({ message }) => message)
      .join(),
    /upgrade that node/,
  );
  assert.deepEqual(one.heard.links, ['up 2/0']);
});

for (const newest of [PROTOCOL_VERSION, VERSION_WITH_PIECES]) {
  test(`a small request does not wait for a large one to a peer of protocol ${newest}`, async (t) => {
    const waiter = new Waiter();
    const [one, two] = await linkedPair(t, waiter, newest);
    const large = Buffer.alloc(31 * MIB, 'large');
    two.heard.onForwarded = (origin, _group, bytes) => two.peers.reply(origin, bytes.slice(0, 5));
    const answers: string[] = [];
    const forward = (bytes: Uint8Array): boolean =>
      one.peers.forward(2, 0, bytes, (answer) => answers.push(Buffer.from(answer ?? []).toString()));
    assert(forward(large));
    one.peers.flush();
    assert(forward(Buffer.from('small')));
    one.peers.flush();
    await waiter.until('both requests', () => {
      two.peers.flush();
      return answers.length === 2;
    });
    assert.deepEqual(answers, ['small', 'large']);
    assert(two.heard.forwards[1]?.bytes.length === large.length && large.equals(two.heard.forwards[1].bytes));
  });
}

test('a large request whose link ends midway is answered with nothing, and what came of it is dropped', async (t) => {
  const waiter = new Waiter();
  const [one, two] = await linkedPair(t, waiter);
  const answers: unknown[] = [];
  assert(one.peers.forward(2, 0, Buffer.alloc(31 * MIB, 'lost'), (answer) => answers.push(answer)));
  one.peers.flush();
  await two.peers.stop();
  await waiter.until('no answer', () => answers.length === 1);
  assert.deepEqual([answers, two.heard.forwards], [[undefined], []]);

  const taken: number[] = [];
  const incoming = new IncomingForwards(
    { onForward: (_origin, _group, bytes) => taken.push(bytes.length) },
    () => true,
  );
  const session = { peer: { clusterId: '', groupCount: 1, node: 2, shard: 0, shardCount: 1, boot: 1 }, fail() {} };
  const pieceOfRequest = (at: number): Uint8Array => encodeForwardPiece(request, at, 600).subarray(FRAME_HEAD_BYTES);
  assert(incoming.piece(session, pieceOfRequest(0)));
  incoming.onSessionEnd(session);
  assert(!incoming.piece(session, pieceOfRequest(600)), 'the rest has nothing to continue');
  incoming.onSessionEnd(session);
  assert(incoming.piece(session, pieceOfRequest(0)) && incoming.piece(session, pieceOfRequest(600)));
  assert.deepEqual(taken, [1000]);
});

const request = { correlation: 1, group: 0, bytes: new Uint8Array(1000) };
const NONSENSE: Readonly<Record<string, () => Uint8Array>> = {
  'an announced size above every bound': () => {
    const head = frameOf(FRAME_KIND.raft, 100);
    new DataView(head.buffer, head.byteOffset).setUint32(0, LARGE_PAYLOAD_BYTES_MAX + 1, true);
    return pieceOf(head, 0, 1000);
  },
  'a damaged frame': () => {
    const frame = frameOf(FRAME_KIND.raft, 100);
    frame[50] = 255;
    return pieceOf(frame, 0, 1000);
  },
  'a piece within a piece': () => pieceOf(pieceOf(frameOf(FRAME_KIND.raft, 9), 0, 100), 0, 1000),
  'a piece of a request within a piece': () => pieceOf(encodeForwardPiece(request, 0, 10), 0, 1000),
  'a piece that does not continue its request': () => encodeForwardPiece(request, 10, 10),
  'pieces of two requests at once': () =>
    Buffer.concat([encodeForwardPiece(request, 0, 10), encodeForwardPiece({ ...request, correlation: 2 }, 10, 10)]),
  'a request beyond what a frame may hold': () => {
    const bytes = new Uint8Array(FRAME_PAYLOAD_BYTES_MAX + 1);
    return encodeForwardPiece({ ...request, bytes }, 0, 10);
  },
  'a large request for a group that is not here': () => encodeForwardPiece({ ...request, group: GROUP_COUNT }, 0, 10),
  'a ping within a piece': () => pieceOf(frameOf(FRAME_KIND.ping, 0), 0, 1000),
};

for (const [what, make] of Object.entries(NONSENSE)) {
  test(`${what} ends its connection and nothing else`, async (t) => {
    const waiter = new Waiter();
    const [one, two] = await linkedPair(t, waiter);
    const socket = connect(one.peers.port, HOST);
    t.after(() => socket.destroy());
    const self = { clusterId: 'test', groupCount: GROUP_COUNT, node: 3, shard: 0, shardCount: 1, boot: 77 };
    const hello = { self, toNode: 1, toShard: 0, nonce: Buffer.alloc(NONCE_BYTES, 5) };
    const handshake = new ConnectorHandshake(hello, SECRET);
    socket.write(handshake.start());
    for (let isDone = false; !isDone;) {
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      const step = handshake.receive(chunk);
      assert.notEqual(step.kind, 'over');
      if (step.kind === 'say') socket.write(step.bytes);
      isDone = step.kind === 'done';
    }
    socket.on('data', () => undefined);
    socket.write(make());
    await closed(socket);
    two.peers.sendRaft(1, 0, { ...appendOf(10, 1), from: 2, to: 1 });
    two.peers.flush();
    await waiter.until('the others go on', () => lastIndex(one) === 1);
  });
}
