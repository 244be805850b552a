// A group as its shard sees it, with two silent peers: which requests wait, and their answers when nothing arrives.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../src/base/errors.ts';
import { Group } from '../../src/group/group.ts';
import { ENTRY_EMPTY, type Entry, type LogReader, type Message } from '../../src/raft/types.ts';
import { State } from '../../src/stream/core/state.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { REQUEST_HEAD_BYTES, newRequest, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

class Log implements LogReader {
  readonly all: Entry[] = [];
  firstIndex = (): number => 1;
  lastIndex = (): number => this.all.length;
  term = (index: number): number => this.all[index - 1]?.term ?? 0;
  entries = (lo: number, hi: number): Entry[] => this.all.slice(lo - 1, hi - 1);
}

class Host {
  readonly log = new Log();
  readonly answers = new Map<number, string>();
  readonly sent: Message[] = [];
  readonly group: Group;

  constructor() {
    const sink = {
      send: (reply: Reply): void => {
        assert(!this.answers.has(reply.id), `slot ${reply.id} is answered once`);
        this.answers.set(reply.id, errorCode(reply.code));
      },
    };
    this.group = new Group(
      new State(0, new SortedMapTx()),
      {
        nodeId: 1,
        electionTicks: 10,
        heartbeatTicks: 2,
        maxMessageBytes: 1e6,
        maxInflightBytes: 1e6,
        maxEntryBytes: 1e8,
        maxUncommittedBytes: 1e6,
        seed: 1,
        mayVote: true,
        log: this.log,
        hardState: { term: 0, vote: 0, commit: 0 },
        configuration: { voters: [1, 2, 3], votersOutgoing: [], learners: [] },
        applied: 0,
        snapshotIndex: 0,
        snapshotTerm: 0,
      },
      sink,
    );
  }

  /** Persists and applies until nothing is left to do. */
  work(): void {
    while (this.group.raft.hasReady()) {
      const ready = this.group.raft.take();
      this.sent.push(...ready.send, ...ready.afterPersist);
      if (ready.entries.length > 0) this.log.all.length = (ready.entries[0] as Entry).index - 1;
      this.log.all.push(...ready.entries);
      this.group.applyCommitted(ready.committed);
      if (ready.mustPersist) this.group.raft.persisted(ready.persistIndex, ready.persistTerm);
    }
  }

  submit(slot: number): void {
    const request = newRequest();
    request.op = COMMANDS.create.number;
    request.command.kind = COMMANDS.create.number;
    request.command.bucket = 'bucket';
    request.command.stream = `s${slot}`;
    const bytes = new Uint8Array(requestBytesMax(request));
    const view = new DataView(bytes.buffer);
    writeRequest(request, slot, 0, bytes, view, 0);
    this.group.submit(slot, bytes, view, REQUEST_HEAD_BYTES, undefined, 1000);
  }

  /** Node 2 says yes to everything that it was asked. */
  answerFrom2(): void {
    for (const message of this.sent.splice(0)) {
      if (message.to !== 2) continue;
      const note = { round: 0, boot: 2, lost: 0, refusesLead: false } as const;
      const { term } = message;
      if (message.type === 'vote') {
        this.group.raft.step({ type: 'vote-response', from: 2, to: 1, term, pre: message.pre, granted: true });
      } else if (message.type === 'append') {
        const index = message.prevIndex + message.entries.length;
        const { round } = message;
        this.group.raft.step({
          type: 'append-response',
          from: 2,
          to: 1,
          term,
          reject: false,
          index,
          hintIndex: 0,
          hintTerm: 0,
          ...note,
          round,
        });
      }
    }
    this.work();
  }

  elect(): void {
    this.group.raft.campaign();
    this.work();
    for (let i = 0; i < 5; i++) this.answerFrom2();
    assert(this.group.leads);
  }
}

test('a group that does not lead refuses commands at once', () => {
  const host = new Host();
  host.submit(1);
  assert.equal(host.answers.get(1), 'NO_LEADER');
  assert.equal(host.group.seal(), false);
});

test('commands of one turn are one entry, and are answered when a majority has it', () => {
  const host = new Host();
  host.elect();
  const before = host.group.raft.lastIndex;
  for (let slot = 1; slot <= 5; slot++) host.submit(slot);
  assert.equal(host.group.seal(), true);
  assert.equal(host.group.raft.lastIndex, before + 1);
  host.work();
  assert.equal(host.answers.size, 0, 'on one disk of three is not enough');
  assert.equal(host.group.waitingCount, 5);
  host.answerFrom2();
  assert.deepEqual([...host.answers.values()], ['OK', 'OK', 'OK', 'OK', 'OK']);
  assert.equal(host.group.waitingCount, 0);
});

test('a proposal whose place in the log another leader took is refused as not written', () => {
  const host = new Host();
  host.elect();
  host.submit(1);
  host.submit(2);
  host.group.seal();
  host.work();
  const { term, lastIndex } = host.group.raft;
  const index = lastIndex;
  // One more entry, whose index the new leader does not reach: nothing may ever be written there.
  host.submit(3);
  host.group.seal();
  host.work();
  const entry: Entry = { term: term + 1, index, kind: ENTRY_EMPTY, data: new Uint8Array(0) };
  host.group.raft.step({
    type: 'append',
    from: 3,
    to: 1,
    term: term + 1,
    prevIndex: index - 1,
    prevTerm: host.log.term(index - 1),
    entries: [entry],
    commit: index,
    round: 1,
    allowedBoot: 0,
    restored: false,
  });
  host.work();
  assert(!host.group.leads);
  assert.deepEqual(
    [...host.answers],
    [1, 2, 3].map((slot) => [slot, 'NO_LEADER']),
  );
  assert.equal(host.group.waitingCount, 0);
  assert.equal(host.group.state.appliedIndex, index);
});

test('requests that wait when the group stops get an unknown outcome', () => {
  const host = new Host();
  host.elect();
  host.submit(1);
  host.group.seal();
  host.work();
  host.submit(2);
  host.group.failWaiting();
  assert.equal(host.answers.get(1), 'OUTCOME_UNKNOWN', 'it is in the log');
  assert.equal(host.answers.get(2), 'STOPPING', 'it never was');
  host.answerFrom2();
  assert.equal(host.answers.size, 2, 'no request is answered twice');
  assert.equal(host.group.seal(), false, 'what was gathered is gone');
});

test('a group snapshot begins another lineage: its leader may have lost what readers hold', () => {
  const { group } = new Host();
  for (let lineage = 1; lineage <= 3; lineage++) {
    assert.equal(group.state.lineage, lineage);
    group.installState(new State(0, new SortedMapTx()));
  }
});
