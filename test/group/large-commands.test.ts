// Large commands of a leader: cut into pieces between which others pass, cut from the beginning in another term, and bounded.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { BODY_BYTES_MAX, LARGE_WAITING_BYTES_MAX } from '../../src/base/limits.ts';
import { PIECE_BOUNDS } from '../../src/group/large-commands.ts';
import { eachCommand } from '../../src/group/entry.ts';
import { PIECE_HEAD_BYTES } from '../../src/protocol/piece.ts';
import { Command, type CommandFields } from '../../src/protocol/command.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { ENTRY_DATA } from '../../src/raft/types.ts';
import { planTail } from '../../src/stream/operations/read.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { Host } from './host.ts';

const NOW = 1000;
const PIECE_BYTES = 1000;
const STREAM = { stream: 'large', contentType: 'text/plain' } as const;
const APPEND = { kind: COMMANDS.append.number, ...STREAM } as const;

function bodyOf(bytes: number, first: string): Buffer {
  return Buffer.from(Array.from({ length: bytes }, (_, i) => (first.charCodeAt(0) + (i % 23)) % 256));
}

function leader(): Host {
  const host = new Host();
  host.group.large.bounds = { ...PIECE_BOUNDS, piece: PIECE_BYTES };
  host.elect();
  host.submit(1, STREAM);
  turn(host);
  assert.equal(host.answers.get(1), 'OK');
  return host;
}

/** One piece, and everything that the turn has; with the answers of node 2. */
function turn(host: Host): number {
  const bytes = host.group.cut(NOW);
  host.group.seal();
  host.work();
  host.answerFrom2();
  host.answerFrom2();
  return bytes;
}

function finish(host: Host): void {
  for (let left = 1000; host.group.waitingCount > 0; left--) {
    assert(left > 0, 'all are answered');
    turn(host);
  }
}

function append(host: Host, slot: number, payload: Buffer, more: Partial<CommandFields> = {}): void {
  host.submit(slot, { ...APPEND, payload, ...more });
}

function content(host: Host, stream = 'large'): string {
  const { state } = host.group;
  const key = Buffer.from(`bucket\0${stream}`);
  const head = state.find(key, 0, key.length);
  assert(head !== undefined);
  return Buffer.from(planTail(state, head, 0, 1e6, new Reply())?.body ?? []).toString('latin1');
}

test('a large command with attributes keeps its body when its frame is overwritten', () => {
  const host = leader();
  const payload = bodyOf(3 * PIECE_BYTES, 'a');
  host.submit(2, { stream: 'other', contentType: 'text/plain', attributes: Buffer.from('{"a":1}'), payload });
  finish(host);
  assert.equal(host.answers.get(2), 'OK');
  assert.equal(content(host, 'other'), payload.toString('latin1'));
});

test('small commands pass between the pieces of a large one, and each entry is small', () => {
  const host = leader();
  const large = bodyOf(10 * PIECE_BYTES, 'a');
  append(host, 2, large);
  for (let slot = 3; slot < 8; slot++) {
    append(host, slot, Buffer.from(`<${slot}>`));
    assert(turn(host) > 0);
    assert.equal(host.answers.get(slot), 'OK', 'in the turn in which it came');
    assert(!host.answers.has(2));
  }
  finish(host);
  assert.equal(host.answers.get(2), 'OK');
  assert.equal(content(host), `<3><4><5><6><7>${large.toString('latin1')}`, 'whole, where its last piece is');
  for (const { kind, data } of host.log.all) {
    assert(kind !== ENTRY_DATA || data.length < PIECE_BYTES + PIECE_HEAD_BYTES + 200, `${data.length} bytes`);
  }
});

test('a refusal comes with the last piece, and leaves nothing', () => {
  const host = leader();
  append(host, 2, bodyOf(5 * PIECE_BYTES, 'a'), { contentType: 'text/html' });
  append(host, 3, bodyOf(5 * PIECE_BYTES, 'b'), { stream: 'nowhere' });
  finish(host);
  assert.deepEqual([host.answers.get(2), host.answers.get(3)], ['CONTENT_TYPE_MISMATCH', 'STREAM_NOT_FOUND']);
  assert.equal(content(host), '');
});

test("what a producer sends behind a large command stays behind it, and others' commands do not", () => {
  const host = leader();
  const producer = { producerId: 'p', producerEpoch: 0 };
  const large = bodyOf(5 * PIECE_BYTES, 'a');
  append(host, 2, large, { ...producer, producerSeq: 0 });
  append(host, 3, Buffer.from('<next>'), { ...producer, producerSeq: 1 });
  append(host, 4, Buffer.from('<other>'), { producerId: 'q', producerEpoch: 0, producerSeq: 0 });
  turn(host);
  assert.deepEqual([host.answers.get(2), host.answers.get(3), host.answers.get(4)], [undefined, undefined, 'OK']);
  finish(host);
  assert.deepEqual([host.answers.get(2), host.answers.get(3)], ['OK', 'OK']);
  assert.equal(content(host), `<other>${large.toString('latin1')}<next>`);
});

test('a leader that is deposed between two pieces answers that nothing was done', () => {
  const host = leader();
  append(host, 2, bodyOf(5 * PIECE_BYTES, 'a'));
  turn(host);
  turn(host);
  const term = host.group.raft.term + 1;
  const note = { round: 0, allowedBoot: 0, restored: false } as const;
  host.group.raft.step({ type: 'heartbeat', from: 3, to: 1, term, commit: 0, ...note });
  host.work();
  assert.equal(host.group.cut(NOW), 0);
  assert.equal(host.answers.get(2), 'NO_LEADER');
  assert.equal(host.group.waitingCount, 0);
});

test('a leader that returns in another term cuts from the beginning', () => {
  const host = leader();
  const large = bodyOf(5 * PIECE_BYTES, 'a');
  append(host, 2, large);
  turn(host);
  turn(host);
  const term = host.group.raft.term + 1;
  const note = { round: 0, allowedBoot: 0, restored: false } as const;
  host.group.raft.step({ type: 'heartbeat', from: 3, to: 1, term, commit: 0, ...note });
  host.work();
  host.sent.length = 0;
  host.elect();
  finish(host);
  assert.equal(host.answers.get(2), 'OK');
  assert.equal(content(host), large.toString('latin1'));
});

test('no more is in flight than followers take in two turns, and no second command begins before the first is applied', () => {
  const host = leader();
  host.group.large.bounds = PIECE_BOUNDS;
  append(host, 2, Buffer.alloc(3 * 1024 * 1024, 'a'));
  append(host, 3, Buffer.alloc(1024 * 1024, 'b'));
  let cut = 0;
  for (let bytes = -1; bytes !== 0; cut += Math.max(0, bytes)) bytes = host.group.cut(NOW);
  assert(cut <= 1024 * 1024, `${cut} bytes`);
  assert(host.group.nextPieceBytes === 0);
  host.group.seal();
  host.work();
  assert(host.group.nextPieceBytes === 0, 'nothing is committed');
  host.answerFrom2();
  host.answerFrom2();
  assert(host.group.nextPieceBytes > 0);
  while (!host.answers.has(2)) {
    let isFirst = true;
    for (let bytes = -1; bytes !== 0; isFirst = false) bytes = host.group.cut(NOW);
    assert(!isFirst);
    host.group.seal();
    host.work();
    host.answerFrom2();
    host.answerFrom2();
    assert(!host.answers.has(3));
  }
});

test('large commands that wait are bounded; small ones are taken', () => {
  const host = leader();
  const most = Buffer.alloc(BODY_BYTES_MAX, 'x');
  const fit = LARGE_WAITING_BYTES_MAX / BODY_BYTES_MAX - 1;
  for (let i = 0; i < fit; i++) append(host, 10 + i, most, { stream: `s${i}` });
  assert.equal(host.answers.size, 1);
  append(host, 20, most);
  assert.equal(host.answers.get(20), 'UNCOMMITTED_FULL');
  append(host, 21, Buffer.from('small'));
  turn(host);
  assert.equal(host.answers.get(21), 'OK');
  host.group.failWaiting();
  assert.equal(host.answers.get(10), 'STOPPING');
  assert.equal(host.group.waitingCount, 0);
});

test('where a member does not know pieces, commands stay whole', () => {
  const host = leader();
  host.group.large.areUnderstood = () => false;
  append(host, 2, bodyOf(10 * PIECE_BYTES, 'a'));
  turn(host);
  assert.equal(host.answers.get(2), 'OK');
  const kinds = new Set<number>();
  for (const { kind, data } of host.log.all) {
    const command = new Command();
    if (kind === ENTRY_DATA) eachCommand(data, command, () => kinds.add(command.kind));
  }
  assert(!kinds.has(COMMANDS.piece.number));
});

test('a leader that commits nothing answers large commands; one that has begun goes on for no client', () => {
  const host = leader();
  const first = bodyOf(3 * PIECE_BYTES, 'a');
  append(host, 2, first);
  append(host, 3, bodyOf(3 * PIECE_BYTES, 'b'));
  host.group.cut(NOW);
  host.group.seal();
  host.work();
  const waits = { followerMs: 1000, leaderMs: 30_000 };
  const at = (clockMs: number): void => {
    host.group.beginTurn(clockMs);
    host.group.expireWaiting(waits);
  };
  at(30_000);
  assert.equal(host.answers.size, 1);
  append(host, 4, bodyOf(3 * PIECE_BYTES, 'c'));
  at(30_001);
  assert.deepEqual(
    [2, 3, 4].map((slot) => host.answers.get(slot)),
    ['OUTCOME_UNKNOWN', 'OUTCOME_UNKNOWN', undefined],
  );
  finish(host);
  assert.equal(host.answers.get(4), 'OK');
  assert.equal(content(host), first.toString('latin1') + bodyOf(3 * PIECE_BYTES, 'c').toString('latin1'));
  assert.equal(host.group.large.bytes, 0);
});
