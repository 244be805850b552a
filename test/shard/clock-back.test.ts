// The wall clock is set back by an hour while requests wait: all are still answered within the usual time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../src/base/errors.ts';
import type { Message } from '../../src/raft/types.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Shard } from '../../src/shard/shard.ts';
import { type Request, fillRequest, newRequest } from '../../src/protocol/request.ts';
import { listeningPort } from './listening-port.ts';
import { ArraySource, ArrayTarget, MemoryStorage } from './memory-ports.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

const HOUR_MS = 3_600_000;
/** The longest of all waits (those of operators) and a little. */
const LONGEST_MS = 11_000;

/** Node 1 of three; the others are the test itself. */
class Node {
  readonly storage = new MemoryStorage();
  readonly source = new ArraySource();
  readonly target = new ArrayTarget();
  readonly answers = new Map<number, string>();
  readonly shard: Shard;
  nowMs = 1_700_000_000_000;
  clockMs = 5000;
  readonly sent: Message[] = [];
  #slots = 0;

  constructor() {
    this.storage.compactable = () => 0;
    this.shard = new Shard({
      links: { peers: listeningPort(this.sent), wake: () => undefined },
      shard: 0,
      nodeId: 1,
      groups: [0],
      storage: this.storage,
      requests: this.source,
      replies: this.target,
      nodes: [1, 2, 3],
      voters: [1, 2, 3],
      runtime: PROCESS_RUNTIME,
      seed: 7,
      boot: 1,
      log: () => undefined,
    });
    this.shard.start(this.clockMs);
    this.turn();
  }

  get raft(): Shard['groups'][number]['raft'] {
    return (this.shard.groups[0] as Shard['groups'][number]).raft;
  }

  turn(afterMs = 1): void {
    this.nowMs += afterMs;
    this.clockMs += afterMs;
    this.shard.turn(this.nowMs, this.clockMs);
    for (const reply of this.target.take()) {
      this.answers.set(reply.id, errorCode(reply.code));
    }
  }

  push(op: number, change: (request: Request) => void = () => undefined): number {
    const request = newRequest();
    request.op = op;
    request.command.kind = op;
    request.command.bucket = 'bucket';
    request.command.stream = 'stream';
    change(request);
    this.source.push(request, ++this.#slots, false);
    return this.#slots;
  }

  /** A leader: node 2 votes for it. */
  lead(): void {
    this.raft.campaign();
    for (let i = 0; i < 2; i++) {
      this.turn();
      for (const message of this.sent.splice(0)) {
        if (message.type !== 'vote' || message.to !== 2) continue;
        const { term, pre } = message;
        this.raft.step({ type: 'vote-response', from: 2, to: 1, term, pre, granted: true });
      }
    }
    this.turn();
    assert.equal(this.raft.role, 'leader');
  }

  /** Node 3 leads now, and says nothing more. */
  follow(): void {
    const term = this.raft.term + 1;
    const about = { prevIndex: 0, prevTerm: 0, entries: [], commit: 0, round: 1, allowedBoot: 0, restored: false };
    this.raft.step({ type: 'append', from: 3, to: 1, term, ...about });
    this.turn();
    assert.equal(this.raft.leader, 3);
  }

  /** Sets the wall clock back; what the slot is answered with, and when. */
  waitFor(slot: number): readonly [answer: string | undefined, afterMs: number] {
    this.nowMs -= HOUR_MS;
    let waitedMs = 0;
    for (; waitedMs < LONGEST_MS && !this.answers.has(slot); waitedMs += 50) this.turn(50);
    return [this.answers.get(slot), waitedMs];
  }
}

test('a write that a former leader has in its log', () => {
  const node = new Node();
  node.lead();
  const slot = node.push(COMMANDS.create.number);
  node.turn();
  node.follow();
  const [answer, afterMs] = node.waitFor(slot);
  assert.equal(answer, 'OUTCOME_UNKNOWN');
  assert(afterMs <= 5200, `${afterMs} ms`);
});

test('a write that waits for a leader', () => {
  const node = new Node();
  const slot = node.push(COMMANDS.append.number);
  node.turn();
  const [answer, afterMs] = node.waitFor(slot);
  assert.equal(answer, 'NO_LEADER');
  assert(afterMs <= 5200, `${afterMs} ms`);
});

test('a read of what is not here, and one that waits for the group to catch up', () => {
  for (const query of [QUERIES.head, QUERIES.read]) {
    const op = query.number;
    const node = new Node();
    const slot = node.push(op, (request) => fillRequest(request, query, 0, { bucket: 'b', stream: 'missing' }));
    node.turn();
    assert.equal(node.answers.size, 0);
    const [answer, afterMs] = node.waitFor(slot);
    assert.notEqual(answer, undefined, `op ${op}`);
    assert(afterMs <= 5200, `${afterMs} ms`);
  }
});

test("an operator's call that waits for a majority", () => {
  const node = new Node();
  node.lead();
  const slot = node.push(QUERIES.admin.number, (request) =>
    fillRequest(request, QUERIES.admin, 0, { call: 'learner', node: 3, address: '' }),
  );
  node.turn();
  const [answer] = node.waitFor(slot);
  assert.notEqual(answer, undefined);
});

test('a refusal for lack of space shows for a second only', () => {
  const node = new Node();
  const group = node.shard.groups[0] as Shard['groups'][number];
  node.lead();
  group.admission.hot.bytesMax = 10;
  const body = (request: Request): void => {
    request.command.contentType = 'text/plain';
    request.command.payload = new Uint8Array(9);
  };
  node.push(COMMANDS.create.number, body);
  const slot = node.push(COMMANDS.create.number, body);
  node.turn();
  assert.equal(node.answers.get(slot), 'BACKPRESSURE');
  assert.equal(group.admission.show(group.state), 'refusing');
  node.nowMs -= HOUR_MS;
  node.turn(1001);
  assert.notEqual(group.admission.show(group.state), 'refusing');
});
