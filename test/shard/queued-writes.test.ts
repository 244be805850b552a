// Writes that waited for a leader until their own node led, or went on leading: disk, rows and members may have changed
// since they came, so the shard asks again before it proposes one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Group } from '../../src/group/group.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { QUOTA_UNKNOWN, type Request, newRequest } from '../../src/protocol/request.ts';
import { TICK_MS } from '../../src/shard/shard.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { Follower, restarted, stopped } from './follower.ts';
import { code, find } from './harness.ts';

/** Ticks of an election timeout, in which a transfer has to be over. */
const TIMEOUT_TICKS = 10;

const groupOf = ({ shard }: Follower): Group => shard.groups[0] ?? assert.fail('it has a group');

function write(kind: number, stream: string, expectedOffset = -1): Request {
  const request = newRequest();
  const fields = { kind, bucket: 'b', stream, contentType: 'text/plain', payload: new Uint8Array(4), expectedOffset };
  return Object.assign(request, { op: kind, command: { ...request.command, ...fields } });
}

const append = (expectedOffset?: number): Request => write(COMMANDS.append.number, 's', expectedOffset);

/** Node 2 has everything that was sent to it. */
function acknowledge(node: Follower): void {
  const { raft } = groupOf(node);
  const note = { boot: 1, lost: 0, refusesLead: false, wantsState: false } as const;
  for (const message of node.sent.splice(0)) {
    if (message.to !== 2 || (message.type !== 'append' && message.type !== 'heartbeat')) continue;
    const about = { from: 2, to: 1, term: message.term, round: message.round, ...note };
    if (message.type === 'heartbeat') raft.step({ type: 'heartbeat-response', ...about });
    else {
      const index = message.prevIndex + message.entries.length;
      raft.step({ type: 'append-response', ...about, reject: false, index, hintIndex: 0, hintTerm: 0 });
    }
  }
}

/** It led without space, and began to hand over: the write waits for that. */
function handingOver(): { readonly node: Follower; readonly slot: number; readonly lastIndex: number } {
  const node = new Follower();
  node.lead();
  // Its configuration is in the log by then.
  for (let i = 0; i < 4; i++) {
    acknowledge(node);
    node.turn(TICK_MS);
  }
  node.storage.spaceLeft = false;
  const slot = node.request(append());
  assert.deepEqual(node.turn(), []);
  const { raft } = groupOf(node);
  assert.equal(raft.transferee, 2);
  return { node, slot, lastIndex: raft.lastIndex };
}

test('without space a write is refused when the hand-over that it waited for has failed', () => {
  const { node, slot, lastIndex } = handingOver();
  for (let i = 1; i < TIMEOUT_TICKS; i++) assert.deepEqual(node.turn(TICK_MS), []);
  assert.equal(code(find(node.turn(TICK_MS), slot)), 'DISK_FULL');
  node.turn();
  assert.equal(groupOf(node).raft.lastIndex, lastIndex, 'it was proposed');
  assert.equal(node.shard.counters.refusedDiskFull, 1);
});

test('it waits on while another hand-over begins, and as long as for any leader', () => {
  const { node, slot, lastIndex } = handingOver();
  let waitedMs = 0;
  for (let replies = node.turn(); ; replies = node.turn(TICK_MS)) {
    waitedMs += TICK_MS;
    acknowledge(node);
    assert.equal(groupOf(node).raft.lastIndex, lastIndex, 'it was proposed');
    if (replies.length > 0) {
      assert.equal(code(find(replies, slot)), 'NO_LEADER');
      break;
    }
    assert(waitedMs < 10_000, 'it is answered');
  }
  assert(waitedMs > TIMEOUT_TICKS * TICK_MS, `it waited for ${waitedMs} ms`);
});

test('one that needs a row which the disk changed is refused', () => {
  const node = restarted();
  node.storage.isDamaged = (key) => key[2] === TAG.bucket;
  const create = write(COMMANDS.create.number, 'another');
  create.quotaMark = QUOTA_UNKNOWN;
  const slot = node.request(create);
  assert.deepEqual(node.turn(), []);
  assert.equal(code(find(node.lead(), slot)), 'ROW_DAMAGED');
});

test('one to a group that has stopped is refused', () => {
  const node = stopped();
  // An election that ends without a leader.
  const asked = { pre: false, force: true, lastIndex: 0, lastTerm: 0 };
  node.shard.onRaft(0, { type: 'vote', from: 3, to: 1, term: 2, ...asked });
  // No row of its own has changed.
  const slot = node.request(write(COMMANDS.append.number, 'another'));
  assert.deepEqual(node.turn(), []);
  assert.equal(code(find(node.lead(), slot)), 'ROW_DAMAGED');
});

test('one that a member is known by now not to know is refused', () => {
  const node = new Follower();
  node.turn();
  const slot = node.request(append(0));
  assert.deepEqual(node.turn(), []);
  node.older.add(3);
  assert.equal(code(find(node.lead(), slot)), 'UPGRADE_UNFINISHED');
});

test('any other is proposed and answered', () => {
  const node = restarted();
  const slot = node.request(append());
  assert.deepEqual(node.turn(), []);
  assert.deepEqual(node.lead(), []);
  const replies: Reply[] = [];
  for (let i = 0; i < 4; i++) {
    acknowledge(node);
    replies.push(...node.turn());
  }
  assert.equal(code(find(replies, slot)), 'OK');
});
