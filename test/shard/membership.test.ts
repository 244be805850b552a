// An operator's change of voters: when it is refused, when it is answered, and what the metrics say meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import type { CallResult } from '../../src/protocol/queries/administration.ts';
import type { RaftGroup } from '../../src/protocol/queries/summaries.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { ALL_GROUPS, type Request, newRequest, requestFor } from '../../src/protocol/request.ts';
import type { Message } from '../../src/raft/types.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Shard } from '../../src/shard/shard.ts';
import { find } from './harness.ts';
import { listeningPort } from './listening-port.ts';
import { ArraySource, ArrayTarget, MemoryStorage } from './memory-ports.ts';

/** A node without a disk answers heartbeats only. */
type Manner = 'answers' | 'without a disk' | 'silent';

/** Node 1 of three leads; the others are the test itself. */
class Leader {
  readonly #storage = new MemoryStorage();
  readonly #source = new ArraySource();
  readonly #target = new ArrayTarget();
  readonly #shard: Shard;
  readonly manners = new Map<number, Manner>();
  /** Turns until the answer of a node arrives. */
  readonly delays = new Map<number, number>();
  readonly #replies = new Map<number, Reply>();
  readonly #sent: Message[] = [];
  #onTheWay: { readonly dueTurn: number; readonly message: Message }[] = [];
  #turns = 0;
  #clockMs = 5000;
  #slot = 0;

  constructor() {
    this.#shard = new Shard({
      links: { peers: listeningPort(this.#sent), wake: () => undefined },
      ...{ shard: 0, nodeId: 1, groups: [0], nodes: [1, 2, 3], voters: [1, 2, 3] },
      ...{ storage: this.#storage, requests: this.#source, replies: this.#target },
      ...{ runtime: PROCESS_RUNTIME, seed: 7, boot: 1, log: () => undefined },
    });
    this.#shard.start(this.#clockMs);
    this.turn();
    this.raft.campaign();
    for (let i = 0; i < 10; i++) this.turn();
    assert.equal(this.raft.role, 'leader');
  }

  get raft(): Shard['groups'][number]['raft'] {
    return this.#shard.groups[0]!.raft;
  }

  turn(afterMs = 1): void {
    this.#turns++;
    this.#clockMs += afterMs;
    this.#shard.turn(1_700_000_000_000 + this.#clockMs, this.#clockMs);
    for (const reply of this.#target.take()) this.#replies.set(reply.id, reply);
    for (const message of this.#sent.splice(0))
      this.#onTheWay.push({ dueTurn: this.#turns + (this.delays.get(message.to) ?? 0), message });
    const due = this.#onTheWay.filter(({ dueTurn }) => dueTurn <= this.#turns);
    this.#onTheWay = this.#onTheWay.filter(({ dueTurn }) => dueTurn > this.#turns);
    for (const { message } of due) {
      const answer = answerTo(message, this.manners.get(message.to) ?? 'answers');
      if (answer !== undefined) this.#shard.onRaft(0, answer);
    }
  }

  /** Lets so much time pass, in steps shorter than a tick. */
  pass(ms: number): void {
    for (let passed = 0; passed < ms; passed += 50) this.turn(50);
  }

  write(): void {
    const request = newRequest();
    request.op = COMMANDS.create.number;
    Object.assign(request.command, { kind: request.op, bucket: 'b', stream: `s${this.#slot}` });
    request.command.contentType = 'text/plain';
    this.#push(request);
  }

  /** The slot of the call. */
  change(...voters: readonly number[]): number {
    return this.#push(requestFor(QUERIES.admin, 0, { call: 'membership', voters }));
  }

  /** Undefined while there is none. */
  answerOf(slot: number): CallResult | undefined {
    const reply = this.#replies.get(slot);
    return reply === undefined ? undefined : QUERIES.admin.result.read(reply);
  }

  status(): RaftGroup {
    const slot = this.#push(requestFor(QUERIES.status, ALL_GROUPS, undefined));
    this.turn();
    const [group] = QUERIES.status.result.read(find([...this.#replies.values()], slot)).raft_groups ?? [];
    assert(group !== undefined);
    return group;
  }

  #push(request: Request): number {
    this.#source.push(request, ++this.#slot);
    return this.#slot;
  }
}

/** As of a follower whose log agrees with the leader's. */
function answerTo(message: Message, manner: Manner): Message | undefined {
  if (manner === 'silent') return undefined;
  const { from: to, to: from, term } = message;
  const about = { from, to, term };
  if (message.type === 'vote') return { type: 'vote-response', ...about, pre: message.pre, granted: true };
  if (message.type !== 'append' && message.type !== 'heartbeat') return undefined;
  const note = { round: message.round, boot: from, lost: 0, refusesLead: false, wantsState: false } as const;
  if (message.type === 'heartbeat')
    return message.round === 0 ? undefined : { type: 'heartbeat-response', ...about, ...note };
  if (manner === 'without a disk') return undefined;
  const index = message.prevIndex + message.entries.length;
  return { type: 'append-response', ...about, ...note, reject: false, index, hintIndex: 0, hintTerm: 0 };
}

function assertRefused(node: Leader, slot: number): void {
  const { outcome, body } = node.answerOf(slot) ?? {};
  assert.equal(outcome, 'refused');
  const reason = 'of the voters 1, 2 too many do not answer or are behind (node 2)';
  assert.deepEqual(body, { raft_group_id: 0, current_leader: 1, changed: false, reason });
  assert.deepEqual(node.raft.configuration.voters, [1, 2, 3]);
}

test('a change that the voters who stay cannot commit is not begun', () => {
  for (const manner of ['without a disk', 'silent'] as const) {
    const node = new Leader();
    // A node that falls silent while the group is idle has all of its log.
    node.pass(1000);
    node.manners.set(2, manner);
    if (manner !== 'silent') node.write();
    node.pass(2500);
    const slot = node.change(1, 2);
    node.turn();
    assertRefused(node, slot);
    node.manners.set(2, 'answers');
    node.pass(1000);
    const again = node.change(1, 2);
    node.pass(1000);
    assert.equal(node.answerOf(again)?.outcome, 'done', manner);
  }
});

test('a dead node can be taken out: those that commit without it keep up', () => {
  const node = new Leader();
  node.manners.set(3, 'silent');
  for (let i = 0; i < 30; i++) {
    node.write();
    node.pass(100);
  }
  const slot = node.change(1, 2);
  node.pass(1000);
  assert.equal(node.answerOf(slot)?.outcome, 'done');
});

test('a voter behind a long link keeps up, however many entries of a busy group are on their way to it', () => {
  const node = new Leader();
  node.delays.set(2, 100);
  const busy = (turns: number): void => {
    for (let i = 0; i < turns; i++) {
      node.write();
      node.turn();
    }
  };
  busy(500);
  const [far] = node.raft.peers();
  assert(far !== undefined && far.node === 2 && node.raft.commitIndex - far.match > 90, 'it is far away');
  const slot = node.change(1, 2);
  busy(300);
  assert.equal(node.answerOf(slot)?.outcome, 'done', JSON.stringify(node.answerOf(slot)));
});

test('a call is answered when the new set is committed, also one that finds the change under way', () => {
  const node = new Leader();
  const others = (manner: Manner): void => [2, 3].forEach((id) => node.manners.set(id, manner));
  others('silent');
  const slots = [node.change(1, 2)];
  node.turn();
  const { voter_ids: voters, outgoing_voter_ids: outgoing, membership_pending: isPending } = node.status();
  assert.deepEqual([voters, outgoing, isPending], [[1, 2], [1, 2, 3], true]);
  slots.push(node.change(1, 2));
  node.turn();
  others('answers');
  // The last answer commits the joint half, and the leader appends the other one.
  for (let i = 0; i < 2000 && node.raft.configuration.votersOutgoing.length > 0; i++) node.turn();
  others('silent');
  assert(node.raft.configurationIndex > node.raft.commitIndex, 'it is not committed');
  const { voter_ids: final, outgoing_voter_ids: none, membership_pending: isStillPending } = node.status();
  assert.deepEqual([final, none, isStillPending], [[1, 2], undefined, true]);
  slots.push(node.change(1, 2));
  node.pass(500);
  assert.deepEqual(
    slots.map((slot) => node.answerOf(slot)),
    [undefined, undefined, undefined],
  );
  const index = node.raft.configurationIndex;
  others('answers');
  node.pass(2000);
  const body = { raft_group_id: 0, voter_ids: [1, 2], log_index: index, changed: true };
  for (const slot of slots) assert.deepEqual(node.answerOf(slot), { outcome: 'done', body });
  assert.equal('membership_pending' in node.status(), false);
});
