// Bugs that the simulator found, each as short as it can be told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Raft } from '../../src/raft/raft.ts';
import type { Message } from '../../src/raft/types.ts';
import { Harness, code, find } from '../shard/harness.ts';
import { MemoryLog } from '../raft/support/memory-log.ts';
import { adminRequest } from './requests.ts';

test('a shard at rest that met a full disk by hand finds the room again, and rests meanwhile (seed 0xbd3)', () => {
  const harness = new Harness([0]);
  harness.create(0, 's');
  harness.turn();
  harness.turn(1000);
  harness.storage.isFull = true;
  harness.push(adminRequest(0, { call: 'snapshot' }));
  harness.turn();
  assert(harness.shard.full);
  assert(harness.shard.waitMs(harness.clockMs) > 0, 'it does not turn without a pause');
  harness.storage.isFull = false;
  harness.turn(200);
  assert(!harness.shard.full);
  const slot = harness.append(0, 's', 'x');
  assert.equal(code(find(harness.turn(), slot)), 'OK');
});

test('a peer whose answer to a snapshot is lost gets the log behind it when the host knows (seed 0x2e)', () => {
  const raft = new Raft({
    nodeId: 1,
    electionTicks: 10,
    heartbeatTicks: 2,
    maxMessageBytes: 1024,
    maxInflightBytes: 4096,
    maxEntryBytes: 1e8,
    maxUncommittedBytes: 4096,
    seed: 1,
    lost: 0,
    log: new MemoryLog(),
    hardState: { term: 0, vote: 0, commit: 0 },
    configuration: { voters: [1, 2, 3], votersOutgoing: [], learners: [] },
    applied: 0,
    snapshotIndex: 0,
    snapshotTerm: 0,
  });
  const sent: Message[] = [];
  const work = (): void => {
    while (raft.hasReady()) {
      const ready = raft.take();
      sent.push(...ready.send, ...ready.afterPersist);
      if (ready.mustPersist) raft.persisted(ready.persistIndex);
      for (const { index } of ready.committed) raft.applied(index);
    }
  };
  const answer = { to: 1, round: 0, boot: 9, lost: 0, refusesLead: false, wantsState: false } as const;
  raft.campaign();
  work();
  raft.step({ type: 'vote-response', from: 3, to: 1, term: 1, pre: true, granted: true });
  work();
  raft.step({ type: 'vote-response', from: 3, to: 1, term: 1, pre: false, granted: true });
  work();
  assert.equal(raft.role, 'leader');
  const accept = {
    ...answer,
    type: 'append-response',
    from: 3,
    term: 1,
    reject: false,
    hintIndex: 0,
    hintTerm: 0,
  } as const;
  raft.step({ ...accept, index: 1 });
  work();
  raft.compacted(1);
  // Node 2 is there and has nothing: it needs a snapshot.
  const reject = {
    ...answer,
    type: 'append-response',
    from: 2,
    term: 1,
    reject: true,
    index: 0,
    hintIndex: 0,
    hintTerm: 0,
  } as const;
  raft.step({ ...answer, type: 'heartbeat-response', from: 2, term: 1 });
  work();
  raft.step({ ...reject });
  work();
  assert(sent.some(({ type, to }) => type === 'snapshot' && to === 2));
  sent.length = 0;
  raft.snapshotInstalled(2, 1);
  raft.step({ ...answer, type: 'heartbeat-response', from: 2, term: 1 });
  work();
  assert(sent.some((message) => message.type === 'append' && message.to === 2 && message.prevIndex === 1));
});
