// Every frame and word of the peer protocol, byte for byte. The requests and answers inside of forwards are in
// command-layouts.test.ts and state-layouts.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeMetadata, withMetadata } from '../../src/shard/snapshot-metadata.ts';
import { FrameReader } from '../../src/peer/codec/frame-reader.ts';
import {
  FRAME_KIND,
  FRAME_HEAD_BYTES,
  LARGE_PAYLOAD_BYTES_MAX,
  pieceOf,
  sealFrame,
} from '../../src/peer/codec/frame.ts';
import {
  decodeForwardPiece,
  decodeForwardReplies,
  decodeForwards,
  encodeForwardPiece,
  encodeForwardReplies,
  encodeForwards,
} from '../../src/peer/codec/forward.ts';
import type { Message } from '../../src/raft/types.ts';
import { decodeRaftFrame, encodeRaftFrame, raftItemBytes } from '../../src/peer/codec/raft-frame.ts';
import {
  type SnapshotAck,
  decodeSnapshotAck,
  decodeSnapshotBegin,
  decodeSnapshotChunk,
  decodeSnapshotEnd,
  encodeSnapshotAck,
  encodeSnapshotBegin,
  encodeSnapshotChunk,
  encodeSnapshotEnd,
} from '../../src/peer/codec/snapshot-transfer.ts';
import type { GroupSnapshotRequest } from '../../src/raft/types.ts';
import { Layouts, bytesFrom, utf8 } from './layouts.ts';

/** Numbers that fill several of their bytes, and no two alike. */
const FROM = 0x0102_0304;
const TO = 0x1112_1314;
const GROUP = 0x0abc;
const TRANSFER = 0x2122_2324;
const BOOT = 1_234_567_890_123;
const INDEX = 2 ** 40 + 5;

const envelope = { from: FROM, to: TO, term: 70_001 };
const peerNote = { round: 901, boot: BOOT, lost: 0, refusesLead: false, wantsState: false } as const;
const note = { allowedBoot: 0, restored: false };

const MESSAGES: Readonly<Record<string, Message>> = {
  vote: { type: 'vote', ...envelope, pre: false, force: false, lastIndex: INDEX, lastTerm: 70_000 },
  'vote, pre-vote': { type: 'vote', ...envelope, pre: true, force: false, lastIndex: 0, lastTerm: 0 },
  'vote, forced': { type: 'vote', ...envelope, pre: false, force: true, lastIndex: INDEX, lastTerm: 3 },
  'vote-response': { type: 'vote-response', ...envelope, pre: false, granted: false },
  'vote-response, granted': { type: 'vote-response', ...envelope, pre: false, granted: true },
  'vote-response, pre-vote': { type: 'vote-response', ...envelope, pre: true, granted: true },
  'append, empty': {
    ...{ type: 'append', ...envelope, ...note },
    ...{ prevIndex: INDEX, prevTerm: 69_999, entries: [], commit: INDEX - 1, round: 77 },
  },
  'append, each kind of entry': {
    ...{ type: 'append', ...envelope, ...note, prevIndex: INDEX, prevTerm: 69_999, commit: 12, round: 78 },
    entries: [
      { term: 69_999, index: INDEX + 1, kind: 0, data: bytesFrom(1, 19) },
      { term: 70_000, index: INDEX + 2, kind: 1, data: bytesFrom(200, 6) },
      { term: 70_001, index: INDEX + 3, kind: 2, data: new Uint8Array(0) },
    ],
  },
  'append, allowed to revert': {
    ...{ type: 'append', ...envelope, allowedBoot: BOOT, restored: false },
    ...{ prevIndex: 0, prevTerm: 0, commit: 0, round: 1 },
    entries: [{ term: 1, index: 1, kind: 0, data: bytesFrom(9, 3) }],
  },
  'append, restored': {
    ...{ type: 'append', ...envelope, allowedBoot: BOOT, restored: true },
    ...{ prevIndex: 4, prevTerm: 2, commit: 3, round: 2, entries: [] },
  },
  'append-response': {
    ...{ type: 'append-response', ...envelope, ...peerNote },
    ...{ reject: false, index: INDEX, hintIndex: 0, hintTerm: 0 },
  },
  'append-response, rejected': {
    ...{ type: 'append-response', ...envelope, ...peerNote, lost: 1, refusesLead: true },
    ...{ reject: true, index: INDEX, hintIndex: INDEX - 9, hintTerm: 66 },
  },
  'append-response, rejected below what is kept': {
    ...{ type: 'append-response', ...envelope, ...peerNote, lost: 2 },
    ...{ reject: true, index: 5, hintIndex: 4, hintTerm: -1 },
  },
  heartbeat: { type: 'heartbeat', ...envelope, ...note, commit: INDEX, round: 0 },
  'heartbeat, allowed to revert': {
    type: 'heartbeat',
    ...envelope,
    allowedBoot: BOOT,
    restored: false,
    commit: 1,
    round: 8,
  },
  'heartbeat, restored': { type: 'heartbeat', ...envelope, allowedBoot: 0, restored: true, commit: 1, round: 9 },
  'heartbeat-response': { type: 'heartbeat-response', ...envelope, ...peerNote },
  'heartbeat-response, lost': { type: 'heartbeat-response', ...envelope, ...peerNote, lost: 1 },
  'heartbeat-response, does not want to lead': {
    type: 'heartbeat-response',
    ...envelope,
    ...peerNote,
    lost: 2,
    refusesLead: true,
  },
  'timeout-now': { type: 'timeout-now', ...envelope },
  'read-index': { type: 'read-index', ...envelope, context: 2 ** 33 + 1 },
  'read-index-response': { type: 'read-index-response', ...envelope, context: 2 ** 33 + 1, index: INDEX },
  'read-index-response, refused': { type: 'read-index-response', ...envelope, context: 5, index: 0 },
};

const snapshot = (more: Partial<GroupSnapshotRequest>): GroupSnapshotRequest => ({
  ...{ type: 'snapshot', ...envelope, ...note, round: 55 },
  snapshot: {
    index: INDEX,
    term: 69_000,
    configuration: { voters: [1, 2, 0x0304_0506], votersOutgoing: [], learners: [] },
  },
  ...more,
});

const SNAPSHOTS: Readonly<Record<string, GroupSnapshotRequest>> = {
  plain: snapshot({}),
  joint: snapshot({
    ...{ allowedBoot: BOOT, restored: true },
    snapshot: { index: 9, term: 3, configuration: { voters: [1, 2, 4], votersOutgoing: [1, 2, 3], learners: [7, 8] } },
  }),
};

/** The one frame in these bytes. */
function payloadOf(frame: Uint8Array, kind: number): Uint8Array {
  const found: Uint8Array[] = [];
  const reader = new FrameReader(LARGE_PAYLOAD_BYTES_MAX);
  const fault = reader.push(frame, (is, payload) => {
    assert.equal(is, kind);
    found.push(payload.slice());
  });
  assert.equal(fault, undefined);
  assert.equal(found.length, 1);
  return found[0] as Uint8Array;
}

test('a frame of each message of Raft', () => {
  const layouts = new Layouts('peer: raft frames');
  const all = Object.entries(MESSAGES);
  const check = (name: string, items: readonly { group: number; message: Message }[]): void => {
    const bytes = items.reduce((sum, { message }) => sum + raftItemBytes(message), 0);
    const frame = layouts.same(name, encodeRaftFrame(items, bytes));
    const read: unknown[] = [];
    const whole = decodeRaftFrame(payloadOf(frame, FRAME_KIND.raft), FROM, TO, (group, message) =>
      read.push({ group, message }),
    );
    assert(whole);
    assert.deepEqual(read, items);
  };
  for (const [name, message] of all) check(name, [{ group: GROUP, message }]);
  check(
    'several groups',
    all.slice(-4).map(([, message], group) => ({ group, message })),
  );
  layouts.end();
});

test('frames of a group snapshot on its way', () => {
  const layouts = new Layouts('peer: snapshot transfer');
  const about = { group: GROUP, transfer: TRANSFER };
  for (const [name, message] of Object.entries(SNAPSHOTS)) {
    const begin = { ...about, message, metadata: bytesFrom(60, 7) };
    const frame = layouts.same(`begin, ${name}`, encodeSnapshotBegin(begin));
    assert.deepEqual(decodeSnapshotBegin(payloadOf(frame, FRAME_KIND.snapshotBegin), FROM, TO), begin);
  }
  const chunk = { ...about, offset: 2 ** 35 + 3, bytes: bytesFrom(4, 21) };
  const chunkFrame = layouts.same('chunk', encodeSnapshotChunk(chunk));
  assert.deepEqual(decodeSnapshotChunk(payloadOf(chunkFrame, FRAME_KIND.snapshotChunk)), chunk);
  for (const complete of [true, false]) {
    const end = { ...about, totalBytes: 2 ** 36 + 1, complete };
    const frame = layouts.same(complete ? 'end' : 'end, given up', encodeSnapshotEnd(end));
    assert.deepEqual(decodeSnapshotEnd(payloadOf(frame, FRAME_KIND.snapshotEnd)), end);
  }
  for (const status of ['receiving', 'installed', 'failed'] satisfies SnapshotAck['status'][]) {
    const ack = { ...about, boot: BOOT, receivedBytes: 2 ** 34 + 7, status };
    const frame = layouts.same(`ack, ${status}`, encodeSnapshotAck(ack));
    assert.deepEqual(decodeSnapshotAck(payloadOf(frame, FRAME_KIND.snapshotAck)), ack);
  }
  layouts.end();
});

test('what a snapshot says beside its message', () => {
  const layouts = new Layouts('peer: snapshot metadata');
  const lists = { voters: [1, 2, 4], votersOutgoing: [1, 2, 3], learners: [7] };
  const full = {
    ...lists,
    addresses: new Map([
      [4, '10.0.0.4:7000'],
      [7, 'ünï.example:7001'],
    ]),
    identity: '0123456789abcdef'.repeat(2),
  };
  for (const [name, configuration] of [
    ['plain', lists],
    ['with addresses and identity', full],
  ] as const) {
    const meta = { index: 9, term: 3, configuration };
    const bytes = layouts.same(name, encodeMetadata(meta));
    // The message itself carries the lists alone.
    const read = withMetadata(snapshot({ snapshot: { ...meta, configuration: lists } }), bytes);
    assert.deepEqual(read?.snapshot, meta);
  }
  layouts.end();
});

test('forwards, their answers, and small frames', () => {
  const layouts = new Layouts('peer: other frames');
  const forwards = [
    { correlation: 0x3132_3334, group: GROUP, bytes: bytesFrom(1, 33) },
    { correlation: 2, group: 0, bytes: new Uint8Array(0) },
  ];
  const forwarded: unknown[] = [];
  const forwardFrame = layouts.same('forward', encodeForwards(forwards));
  const isWhole = decodeForwards(payloadOf(forwardFrame, FRAME_KIND.forward), (correlation, group, bytes) =>
    forwarded.push({ correlation, group, bytes: bytes.slice() }),
  );
  assert(isWhole);
  assert.deepEqual(forwarded, forwards);
  const [large] = forwards as [(typeof forwards)[0]];
  const pieceFrame = layouts.same('forward-piece', encodeForwardPiece(large, 7, 20));
  const piece = decodeForwardPiece(payloadOf(pieceFrame, FRAME_KIND.forwardPiece));
  assert.deepEqual(piece, { ...large, totalBytes: 33, at: 7, bytes: large.bytes.slice(7, 27) });
  const replies = forwards.map(({ correlation, bytes }) => ({ correlation, bytes }));
  const replied: unknown[] = [];
  const replyFrame = layouts.same('forward-reply', encodeForwardReplies(BOOT, replies));
  const areWhole = decodeForwardReplies(payloadOf(replyFrame, FRAME_KIND.forwardReply), (boot, correlation, bytes) => {
    assert.equal(boot, BOOT);
    replied.push({ correlation, bytes: bytes.slice() });
  });
  assert(areWhole);
  assert.deepEqual(replied, replies);
  const framed = (payload: Uint8Array): Uint8Array => {
    const frame = new Uint8Array(FRAME_HEAD_BYTES + payload.length);
    frame.set(payload, FRAME_HEAD_BYTES);
    return frame;
  };
  const empty = new Uint8Array(0);
  const address = utf8('127.0.0.1:7000');
  assert.deepEqual(payloadOf(layouts.same('ping', sealFrame(framed(empty), FRAME_KIND.ping)), FRAME_KIND.ping), empty);
  const told = layouts.same('ping with an address', sealFrame(framed(address), FRAME_KIND.ping));
  assert.deepEqual(payloadOf(told, FRAME_KIND.ping), address);
  assert.deepEqual(payloadOf(layouts.same('pong', sealFrame(framed(empty), FRAME_KIND.pong)), FRAME_KIND.pong), empty);
  const pieces = [0, 40].map((at) => layouts.same(`piece at ${at}`, pieceOf(forwardFrame, at, 40)));
  const joined = Buffer.concat(pieces.map((piece) => payloadOf(piece, FRAME_KIND.piece)));
  assert.deepEqual(new Uint8Array(joined), forwardFrame.slice(0, 80));
  layouts.end();
});
