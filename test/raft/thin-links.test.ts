// A leader whose links carry heartbeats and answers at once and entries hardly at all, or late.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Raft } from '../../src/raft/raft.ts';
import type { Message } from '../../src/raft/types.ts';
import { MemoryLog } from './support/memory-log.ts';

const ELECTION_TICKS = 10;

class Leader {
  readonly #log = new MemoryLog();
  readonly raft = new Raft({
    nodeId: 1,
    electionTicks: ELECTION_TICKS,
    heartbeatTicks: 2,
    maxMessageBytes: 1024 * 1024,
    maxInflightBytes: 16 * 1024 * 1024,
    maxEntryBytes: 32 * 1024 * 1024,
    maxUncommittedBytes: 64 * 1024 * 1024,
    seed: 1,
    lost: 0,
    log: this.#log,
    hardState: { term: 0, vote: 0, commit: 0 },
    configuration: { voters: [1, 2, 3], votersOutgoing: [], learners: [] },
    applied: 0,
    snapshotIndex: 0,
    snapshotTerm: 0,
  });

  constructor() {
    this.elect();
    for (const node of [2, 3]) this.accept(node, 1, 0);
    assert.equal(this.raft.commitIndex, 1);
    this.sent();
  }

  elect(): void {
    const vote = { type: 'vote-response', from: 3, to: 1, term: this.raft.term + 1, granted: true } as const;
    this.raft.campaign();
    this.sent();
    this.raft.step({ ...vote, pre: true });
    this.sent();
    this.raft.step({ ...vote, pre: false });
    this.sent();
    assert.equal(this.raft.role, 'leader');
  }

  /** Everything that leaves. */
  sent(): Message[] {
    const sent: Message[] = [];
    while (this.raft.hasReady()) {
      const ready = this.raft.take();
      sent.push(...ready.send, ...ready.afterPersist);
      this.#log.write(ready.entries);
      if (ready.mustPersist) this.raft.persisted(ready.persistIndex);
      for (const { index } of ready.committed) this.raft.applied(index);
    }
    return sent;
  }

  accept(from: number, index: number, round: number): void {
    const told = { from, to: 1, term: this.raft.term, reject: false, hintIndex: 0, hintTerm: 0 } as const;
    this.raft.step({
      ...told,
      type: 'append-response',
      index,
      round,
      boot: 9,
      lost: 0,
      refusesLead: false,
      wantsState: false,
    });
  }

  answerHeartbeats(sent: readonly Message[], refusesLead = false): void {
    for (const message of sent) {
      if (message.type !== 'heartbeat' || message.round === 0) continue;
      const { to: from, round } = message;
      const { term } = this.raft;
      this.raft.step({
        type: 'heartbeat-response',
        from,
        to: 1,
        term,
        round,
        boot: 9,
        lost: 0,
        refusesLead,
        wantsState: false,
      });
    }
  }

  /** One tick with answered heartbeats; what was sent. */
  tick(refusesLead = false): Message[] {
    this.raft.tick();
    const sent = this.sent();
    this.answerHeartbeats(sent, refusesLead);
    return [...sent, ...this.sent()];
  }
}

const bytesOf = (message: Message): number =>
  message.type === 'append' ? message.entries.reduce((sum, { data }) => sum + data.length, 0) : 0;

test('answers to rounds before the last check do not keep a leader in office', () => {
  const leader = new Leader();
  const heartbeats: Message[] = [];
  for (let tick = 0; tick < ELECTION_TICKS; tick++) {
    leader.raft.tick();
    heartbeats.push(...leader.sent());
  }
  // None was answered within the first period, except the entry that the election began with.
  for (let tick = 0; tick < ELECTION_TICKS && leader.raft.role === 'leader'; tick++) {
    leader.answerHeartbeats(heartbeats.slice(0, 4));
    leader.raft.tick();
    leader.sent();
  }
  assert.equal(leader.raft.role, 'follower');
});

test('what is under way to a follower shrinks to what its link carries, and grows again', () => {
  const leader = new Leader();
  const { raft } = leader;
  const due: { readonly to: number; readonly index: number; readonly bytes: number; readonly round: number }[] = [];
  const body = new Uint8Array(2000);
  let creditBytes = 0;
  let mostBytes = 0;
  const run = (ticks: number, bytesPerTick: number): void => {
    for (let tick = 0; tick < ticks; tick++) {
      for (let i = 0; i < 50; i++) raft.propose(body);
      for (const message of leader.tick()) {
        if (message.type !== 'append') continue;
        const index = message.prevIndex + message.entries.length;
        // Node 2 has all links that it could wish for.
        if (message.to === 2) leader.accept(2, index, message.round);
        else due.push({ to: 3, index, bytes: bytesOf(message) + 100, round: message.round });
      }
      creditBytes = Math.min(creditBytes, 0) + bytesPerTick;
      for (let one = due[0]; one !== undefined && creditBytes > 0; one = due[0]) {
        creditBytes -= one.bytes;
        leader.accept(3, one.index, one.round);
        due.shift();
      }
      mostBytes = Math.max(mostBytes, raft.peers().find(({ node }) => node === 3)?.inflightBytes ?? 0);
    }
  };
  run(100, 5000);
  mostBytes = 0;
  run(100, 5000);
  assert.equal(raft.role, 'leader');
  // An election timeout's worth, and a message.
  assert(mostBytes <= 1.5 * ELECTION_TICKS * 5000, `${mostBytes} bytes under way`);
  assert(mostBytes >= 5000, `${mostBytes} bytes under way`);
  run(100, 10_000_000);
  const match = raft.peers().find(({ node }) => node === 3)?.match ?? 0;
  assert(raft.lastIndex - match <= 200, `node 3 has ${match} of ${raft.lastIndex} entries`);
});

test('a leader that commits nothing gives its office to a follower that answers, and takes none for a while', () => {
  const leader = new Leader();
  const { raft } = leader;
  raft.propose(new Uint8Array(100));
  const sent: Message[] = [];
  let ticks = 0;
  for (; raft.role === 'leader'; ticks++) {
    assert(ticks < 100, 'it leads on');
    sent.push(...leader.tick());
  }
  assert(ticks >= 30, `it had patience for ${ticks} ticks`);
  assert(sent.some(({ type }) => type === 'timeout-now'));
  assert.equal(raft.abdications, 1);
  raft.step({ type: 'timeout-now', from: 2, to: 1, term: 1 });
  leader.sent();
  assert.equal(raft.role, 'follower');
  // A lost log starts a new life, with a new count of ticks.
  assert(raft.isShy);
  raft.loseLog();
  assert(!raft.isShy);
});

test('a leader continues when no other node wants to lead, and waits longer for a large entry', () => {
  const leader = new Leader();
  leader.raft.propose(new Uint8Array(100));
  for (let tick = 0; tick < 100; tick++) leader.tick(true);
  assert.equal(leader.raft.role, 'leader');

  const other = new Leader();
  other.raft.propose(new Uint8Array(8 * 1024 * 1024));
  for (let tick = 0; tick < 100; tick++) other.tick();
  assert.equal(other.raft.role, 'leader');
});

test('each stall doubles the patience until something is committed', () => {
  const leader = new Leader();
  const { raft } = leader;
  const patience = (): number => {
    let ticks = 0;
    for (; raft.role === 'leader'; ticks++) leader.tick();
    return ticks;
  };
  raft.propose(new Uint8Array(100));
  const first = patience();
  leader.elect();
  const second = patience();
  assert(second >= 2 * first - ELECTION_TICKS, `${first} ticks, then ${second}`);
  leader.elect();
  for (const node of [2, 3]) leader.accept(node, raft.lastIndex, 0);
  leader.sent();
  leader.tick();
  raft.propose(new Uint8Array(100));
  assert(patience() <= first + ELECTION_TICKS);
});

test('a node that must not lead gives its office away when two transfers came to nothing', () => {
  const leader = new Leader();
  const { raft } = leader;
  raft.electionPriority = 'none';
  for (let attempt = 1; attempt <= 2; attempt++) {
    raft.propose(new Uint8Array(100));
    leader.tick();
    while (raft.transferLeadership(2) !== 'started') leader.tick();
    assert.equal(raft.propose(new Uint8Array(1)), 0);
    for (let tick = 0; tick < ELECTION_TICKS; tick++) leader.tick();
  }
  assert.equal(raft.role, 'follower');
  assert.equal(raft.abdications, 1);
});
