// Which messages of other nodes ask for a turn before the next tick.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../../src/raft/types.ts';
import { openInbox } from '../../src/shard/inbox.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { newRequest } from '../../src/protocol/request.ts';
import { Follower } from './follower.ts';

/** Node 1, which leads, or follows node 2. */
class Node extends Follower {
  #wakes = 0;
  readonly #inbox = openInbox({
    shard: () => this.shard,
    wake: () => void this.#wakes++,
    runtime: { nowMs: () => 0 },
  });

  get #about(): Pick<Message, 'to' | 'term'> {
    return { to: 1, term: this.shard.groups[0]?.raft.term ?? 0 };
  }

  #wakesFor(message: Message): boolean {
    const before = this.#wakes;
    this.#inbox.onRaft(0, message);
    return this.#wakes > before;
  }

  hears(commit: number, round: number): boolean {
    const note = { allowedBoot: 0, restored: false };
    return this.#wakesFor({ type: 'heartbeat', from: 2, ...this.#about, commit, round, ...note });
  }

  /** The answer to the last message to that node. Of an append that it accepted with `index`. */
  isAnswered(from: number, index?: number): boolean {
    const rounds = this.sent.map((one) => (one.to === from && 'round' in one ? one.round : 0));
    const note = { round: Math.max(...rounds), boot: from, lost: 0, refusesLead: false, wantsState: false } as const;
    if (index === undefined) return this.#wakesFor({ type: 'heartbeat-response', from, ...this.#about, ...note });
    const found = { reject: false, index, hintIndex: 0, hintTerm: 0 };
    return this.#wakesFor({ type: 'append-response', from, ...this.#about, ...found, ...note });
  }
}

test('an answer to a heartbeat asks for a turn only where its node lacks something', () => {
  const node = new Node();
  node.lead();
  assert(node.isAnswered(2, 1), 'the first entry is committed');
  node.turn();
  assert(!node.isAnswered(2), 'it has the entry, and knows that it is committed');
  assert(node.isAnswered(3), 'the entry may be lost on the way');
  node.turn();
  assert(node.isAnswered(3, 1));
  node.turn();
  assert(!node.isAnswered(3));
  const create = newRequest();
  create.op = COMMANDS.create.number;
  Object.assign(create.command, { kind: create.op, bucket: 'b', stream: 's', contentType: 'text/plain' });
  node.request(create);
  node.turn();
  assert(node.isAnswered(2), 'an entry is on its way');
  assert(node.isAnswered(3, 2), 'that one is committed');
  assert.equal(node.turn().length, 1);
  assert(!node.isAnswered(3));
});

test('a follower answers a heartbeat at once, and applies what one without an answer commits', () => {
  const node = new Node();
  node.append(1, [0, 0], [{ index: 1, term: 1, kind: 2, data: new Uint8Array(0) }], 0);
  node.turn();
  assert(node.hears(0, 7));
  node.turn();
  assert(!node.hears(0, 0));
  assert(node.hears(1, 0));
});
