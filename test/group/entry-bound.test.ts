// However much arrives within one turn, a group's entries stay small enough to travel; what no message could carry is
// refused alone.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { test } from 'node:test';
import { errorCode } from '../../src/base/errors.ts';
import {
  BODY_BYTES_MAX,
  COMMAND_BYTES_MAX,
  ENTRY_BYTES_MAX,
  ENTRY_FILL_BYTES,
  PIECE_BYTES_MAX,
} from '../../src/base/limits.ts';
import { Group } from '../../src/group/group.ts';
import { Raft } from '../../src/raft/raft.ts';
import { ENTRY_DATA, type Entry, type LogReader, type RaftConfig } from '../../src/raft/types.ts';
import { State } from '../../src/stream/core/state.ts';
import { Command } from '../../src/protocol/command.ts';
import { eachCommand } from '../../src/group/entry.ts';
import { encodeRaftFrame, raftItemBytes } from '../../src/peer/codec/raft-frame.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { REQUEST_HEAD_BYTES, newRequest, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const MIB = 1024 * 1024;
/** Size of a command in addition to its payload. */
const HEAD_BYTES = 1024;

const NO_LOG: LogReader = { firstIndex: () => 1, lastIndex: () => 0, term: () => 0, entries: () => [] };

function soleVoter(): RaftConfig {
  return {
    nodeId: 1,
    electionTicks: 10,
    heartbeatTicks: 2,
    maxMessageBytes: MIB,
    maxInflightBytes: MIB,
    maxEntryBytes: ENTRY_BYTES_MAX,
    maxUncommittedBytes: 1024 * MIB,
    seed: 1,
    lost: 0,
    log: NO_LOG,
    hardState: { term: 0, vote: 0, commit: 0 },
    configuration: { voters: [1], votersOutgoing: [], learners: [] },
    applied: 0,
    snapshotIndex: 0,
    snapshotTerm: 0,
  };
}

class Host {
  readonly answers: [slot: number, code: string][] = [];
  readonly entries: Entry[] = [];
  readonly group: Group;
  readonly tx = new SortedMapTx();

  constructor() {
    const send = (reply: Reply): void => void this.answers.push([reply.id, errorCode(reply.code)]);
    this.group = new Group(new State(0, this.tx), soleVoter(), { send });
    this.group.raft.campaign();
    this.work();
    assert(this.group.leads);
    this.submit(0, COMMANDS.create.number, new Uint8Array(0));
    this.finish();
    this.answers.length = 0;
    this.entries.length = 0;
  }

  /** As it comes from another node, with the body inside, or from a mailbox, with the body transferred separately. */
  submit(slot: number, kind: number, body: Uint8Array, isTransferred = false): void {
    const request = newRequest();
    request.op = kind;
    request.command.kind = kind;
    request.command.bucket = 'bucket';
    request.command.stream = 'stream';
    request.command.contentType = 'text/plain';
    request.command.payload = body;
    const bytes = new Uint8Array(requestBytesMax(request));
    const view = new DataView(bytes.buffer);
    // A body that is transferred is not in the frame, which says its size.
    writeRequest(request, slot, isTransferred ? 1 : 0, bytes, view, 0);
    this.group.submit(slot, bytes, view, REQUEST_HEAD_BYTES, isTransferred ? body : undefined, 1000);
  }

  /** Turns until all are answered. */
  finish(): void {
    do {
      this.group.cut(1000);
      this.group.seal();
      this.work();
      this.checkpoint();
    } while (this.group.waitingCount > 0);
  }

  checkpoint(): void {
    this.tx.begin();
    this.group.state.flush();
    this.tx.commit();
    this.group.state.flushed();
  }

  work(): void {
    while (this.group.raft.hasReady()) {
      const ready = this.group.raft.take();
      this.entries.push(...ready.entries.filter(({ kind }) => kind === ENTRY_DATA));
      this.group.applyCommitted(ready.committed);
      if (ready.mustPersist) this.group.raft.persisted(ready.persistIndex);
    }
  }
}

function commandsOf({ data }: Entry): number {
  let count = 0;
  eachCommand(data, new Command(), () => count++);
  return count;
}

for (const isTransferred of [false, true]) {
  const where = isTransferred ? 'beside their frames' : 'in their frames';
  const sizes = [100, 3 * MIB, 2 * MIB, 200_000, 500_000, 4 * MIB, MIB, 10, 10, BODY_BYTES_MAX, 999_999, 5];
  const submitted = (cutsLarge: boolean): Host => {
    const host = new Host();
    host.group.large.areUnderstood = () => cutsLarge;
    for (const [i, size] of sizes.entries())
      host.submit(i, COMMANDS.append.number, Buffer.alloc(size, 'x'), isTransferred);
    host.finish();
    return host;
  };

  test(`bodies of all sizes in one turn, ${where}: entries stay small, small bodies come first`, () => {
    const { answers, entries, group } = submitted(true);
    const isLarge = (size: number): boolean => size > PIECE_BYTES_MAX - HEAD_BYTES;
    const order = [...sizes.keys()].sort((a, b) => Number(isLarge(sizes[a] ?? 0)) - Number(isLarge(sizes[b] ?? 0)));
    assert.deepEqual(
      answers,
      order.map((i) => [i, 'OK']),
    );
    for (const { data } of entries) assert(data.length <= ENTRY_FILL_BYTES, `an entry of ${data.length} bytes`);
    assert.equal(
      group.state.hotBytes,
      sizes.reduce((sum, size) => sum + size, 0),
    );
  });

  test(`bodies of all sizes in one turn, ${where}, whole: entries of several commands stay small, and all are answered in order`, () => {
    const { answers, entries } = submitted(false);
    assert.deepEqual(
      answers,
      sizes.map((_, i) => [i, 'OK']),
    );
    for (const entry of entries) {
      const commands = commandsOf(entry);
      const bytes = entry.data.length;
      assert(bytes <= ENTRY_FILL_BYTES || commands === 1, `an entry of ${bytes} bytes holds ${commands} commands`);
      assert(bytes <= BODY_BYTES_MAX + HEAD_BYTES, `an entry of ${bytes} bytes`);
    }
    assert.equal(
      entries.reduce((sum, entry) => sum + commandsOf(entry), 0),
      sizes.length,
    );
  });
}

test('thousands of small commands make entries that are full, not one for each', () => {
  const host = new Host();
  for (let slot = 0; slot < 5000; slot++) host.submit(slot, COMMANDS.append.number, Buffer.alloc(1000, 'x'));
  host.finish();
  assert.equal(host.answers.length, 5000);
  assert(host.entries.length >= 5 && host.entries.length <= 7, `${host.entries.length} entries`);
});

test('a command above every bound is refused alone', () => {
  const host = new Host();
  host.submit(1, COMMANDS.append.number, Buffer.alloc(10, 'x'));
  host.submit(2, COMMANDS.append.number, Buffer.alloc(COMMAND_BYTES_MAX + 1, 'x'));
  host.submit(3, COMMANDS.append.number, Buffer.alloc(COMMAND_BYTES_MAX + 1, 'x'), true);
  host.submit(4, COMMANDS.append.number, Buffer.alloc(10, 'x'));
  host.finish();
  assert.deepEqual(
    new Map(host.answers),
    new Map([
      [1, 'OK'],
      [2, 'BODY_TOO_LARGE'],
      [3, 'BODY_TOO_LARGE'],
      [4, 'OK'],
    ]),
  );
});

test('consensus takes no entry that no frame could carry, and the largest that it takes fits', () => {
  const raft = new Raft(soleVoter());
  raft.campaign();
  while (raft.hasReady()) {
    const ready = raft.take();
    if (ready.mustPersist) raft.persisted(ready.persistIndex);
  }
  assert.equal(raft.propose(new Uint8Array(ENTRY_BYTES_MAX + 1)), 0);
  const data = new Uint8Array(ENTRY_BYTES_MAX);
  const index = raft.propose(data);
  assert(index > 0);
  const message = {
    type: 'append',
    from: 1,
    to: 2,
    term: 1,
    prevIndex: index - 1,
    prevTerm: 1,
    entries: [{ term: 1, index, kind: ENTRY_DATA, data }],
    commit: 0,
    round: 1,
    allowedBoot: 0,
    restored: false,
  } as const;
  encodeRaftFrame([{ group: 0, message }], raftItemBytes(message));
});
