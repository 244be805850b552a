// A snapshot that comes while its half of the key space is not empty: it waits, step by step, and nothing of either is
// lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Group } from '../../src/group/group.ts';
import type { GroupSnapshotRequest } from '../../src/raft/types.ts';
import { HELD_BYTES_MAX, IncomingGroupSnapshots, STAGE_BYTES } from '../../src/shard/incoming-group-snapshots.ts';
import { encodeMetadata } from '../../src/shard/snapshot-metadata.ts';
import { type IncomingSnapshot, type ShardStorage, StorageFullError } from '../../src/shard/ports.ts';

const configuration = { voters: [1, 2], votersOutgoing: [], learners: [] };
const META = { index: 5, term: 1, configuration };
const MESSAGE = { type: 'snapshot', from: 2, to: 1, snapshot: META } as unknown as GroupSnapshotRequest;
const GROUP = 7;

class Rig {
  /** Steps that are left until the half is empty. */
  steps = 0;
  isFull = false;
  isStuck = false;
  readonly events: string[] = [];
  /** By commit. */
  readonly stagedBytes: number[] = [];
  readonly incoming: IncomingGroupSnapshots;
  wakes = 0;

  constructor(groups: readonly number[] = [GROUP]) {
    const guard = (): void => {
      assert(!this.isStuck, 'a commit would wait for the checkpoint that hangs');
      if (this.isFull) throw new StorageFullError();
    };
    const storage: Pick<ShardStorage, 'clearStage' | 'stage'> = {
      clearStage: () => {
        guard();
        this.events.push('clear');
        return --this.steps <= 0;
      },
      stage: (_group, pieces) => {
        guard();
        this.events.push(`stage ${pieces.map(([first]) => first).join('+')}`);
        this.stagedBytes.push(pieces.reduce((sum, { length }) => sum + length, 0));
      },
    };
    const raft = { step: () => this.events.push('told') };
    this.incoming = new IncomingGroupSnapshots({
      storage: storage as ShardStorage,
      groups,
      group: () => ({ raft }) as unknown as Group,
      peers: {
        snapshotResult: (_snapshot, status) => this.events.push(status) > 0,
        paceSnapshot: (_snapshot, pace) => void this.events.push(pace),
      },
      log: () => undefined,
      wake: () => this.wakes++,
      isStuck: () => this.isStuck,
    });
  }

  begin(): IncomingSnapshot {
    const snapshot = { group: GROUP, node: 2, receivedBytes: 0 };
    this.incoming.onSnapshotBegin(snapshot, MESSAGE, encodeMetadata(META));
    return snapshot;
  }

  take(): string[] {
    return this.events.splice(0);
  }
}

const rows = (first: number, bytes = 10): Uint8Array => new Uint8Array(bytes).fill(first);

test('an empty half holds nothing up', () => {
  const rig = new Rig();
  const snapshot = rig.begin();
  rig.incoming.onSnapshotChunk(snapshot, rows(1));
  rig.incoming.onSnapshotComplete(snapshot);
  rig.incoming.settle(true, 0);
  assert.deepEqual(
    rig.take(),
    ['clear', 'resume', 'stage 1', 'told', 'installed', 'clear'],
    'the other half is the empty one now',
  );
});

test('a half that is not empty is cleared by one step a turn, and what comes meanwhile waits in order', () => {
  const rig = new Rig();
  rig.steps = 4;
  const snapshot = rig.begin();
  assert.deepEqual(rig.take(), ['clear', 'hold'], 'one step only where a socket is read');
  const buffer = rows(1);
  rig.incoming.onSnapshotChunk(snapshot, buffer);
  buffer.fill(9);
  rig.incoming.onSnapshotChunk(snapshot, rows(2));
  rig.incoming.settle(true, 100);
  assert.deepEqual([rig.take(), rig.wakes], [['clear'], 1], 'and the next turn comes at once');
  rig.incoming.onSnapshotComplete(snapshot);
  rig.incoming.settle(true, 200);
  assert.deepEqual(rig.take(), ['clear']);
  rig.incoming.settle(true, 300);
  assert.deepEqual(rig.take(), ['clear', 'resume', 'stage 1+2', 'told']);
  rig.incoming.settle(true, 400);
  assert.deepEqual(rig.take(), ['installed', 'clear']);
});

test('a waiting sender gets a keep-alive every few seconds', () => {
  const rig = new Rig();
  rig.steps = 1000;
  rig.begin();
  rig.take();
  for (let ms = 0; ms <= 20_000; ms += 100) rig.incoming.settle(true, ms);
  assert.equal(rig.take().filter((event) => event === 'hold').length, 4);
});

test('more than a window, or a full disk, ends the transfer; the next one finds the half cleared further', () => {
  const rig = new Rig();
  rig.steps = 5;
  const first = rig.begin();
  for (let bytes = 0; bytes <= HELD_BYTES_MAX; bytes += 2 ** 20) rig.incoming.onSnapshotChunk(first, rows(1, 2 ** 20));
  assert.deepEqual(rig.take(), ['clear', 'hold', 'failed']);
  rig.begin();
  rig.isFull = true;
  rig.incoming.settle(false, 0);
  assert.deepEqual(rig.take(), ['clear', 'hold', 'failed']);
  rig.begin();
  assert.deepEqual(rig.take(), ['failed']);
  rig.isFull = false;
  for (let i = 0; i < 3; i++) rig.incoming.settle(true, 0);
  assert.deepEqual(rig.take(), ['clear', 'clear', 'clear'], 'no sender waits, and it continues');
  rig.incoming.settle(true, 0);
  assert.deepEqual(rig.take(), []);
});

test('an aborted transfer leaves rows that the next one waits for', () => {
  const rig = new Rig();
  const first = rig.begin();
  rig.incoming.onSnapshotChunk(first, rows(1));
  rig.incoming.onSnapshotAborted(first);
  rig.take();
  rig.steps = 2;
  const second = rig.begin();
  rig.incoming.onSnapshotChunk(first, rows(1));
  rig.incoming.onSnapshotChunk(second, rows(2));
  rig.incoming.settle(true, 0);
  assert.deepEqual(rig.take(), ['clear', 'hold', 'clear', 'resume']);
  rig.incoming.onSnapshotComplete(second);
  assert.deepEqual(rig.take(), ['stage 2', 'told']);
});

test('pieces share a commit up to its bound, also those that waited, and the rest goes before raft is told', () => {
  for (const steps of [0, 2]) {
    const rig = new Rig();
    rig.steps = steps;
    const [pieces, bytes] = [70, 32 * 1024];
    const snapshot = rig.begin();
    for (let i = 0; i < pieces; i++) {
      rig.incoming.onSnapshotChunk(snapshot, rows(i, bytes));
      // Pieces that are not on disk are in memory.
      const staged = rig.stagedBytes.reduce((sum, size) => sum + size, 0);
      if (steps === 0) assert((i + 1) * bytes - staged < STAGE_BYTES);
    }
    rig.incoming.settle(true, 0);
    rig.incoming.onSnapshotComplete(snapshot);
    assert.equal(rig.stagedBytes.length, Math.ceil((pieces * bytes) / STAGE_BYTES));
    assert(rig.stagedBytes.every((size) => size <= STAGE_BYTES));
    const staged = rig.take().filter((event) => event.startsWith('stage'));
    const order = staged.flatMap((event) => event.slice('stage '.length).split('+').map(Number));
    assert.deepEqual(order, [...Array(pieces).keys()]);
  }
});

test('a disk that is full at the last commit ends the transfer, and raft is not told', () => {
  const rig = new Rig();
  const snapshot = rig.begin();
  rig.incoming.onSnapshotChunk(snapshot, rows(1));
  rig.take();
  rig.isFull = true;
  rig.incoming.onSnapshotComplete(snapshot);
  assert.deepEqual(rig.take(), ['failed']);
});

test('while a checkpoint hangs the sender waits, nothing is committed, and all of it follows behind', () => {
  for (const steps of [0, 2]) {
    const rig = new Rig();
    rig.steps = steps;
    const chunk = 32 * 1024;
    const first = rig.begin();
    rig.isStuck = true;
    for (let i = 0; i < 12; i++) rig.incoming.onSnapshotChunk(first, rows(i, chunk));
    rig.incoming.onSnapshotComplete(first);
    for (let ms = 0; ms <= 6000; ms += 100) rig.incoming.settle(true, ms);
    const waiting = rig.take();
    assert.deepEqual(waiting, [...(steps === 0 ? ['clear', 'resume', 'hold'] : ['clear', 'hold']), 'hold']);
    rig.isStuck = false;
    for (let ms = 6100; ms < 6400; ms += 100) rig.incoming.settle(true, ms);
    const behind = rig.take().filter((event) => event !== 'clear');
    const staged = behind.filter((event) => event.startsWith('stage')).flatMap((event) => event.slice(6).split('+'));
    assert.deepEqual(
      staged,
      Array.from({ length: 12 }, (_, i) => `${i}`),
    );
    assert.deepEqual(behind.slice(-3), ['resume', 'told', 'installed']);
  }
});

test('a transfer that begins or ends while a checkpoint hangs waits, too', () => {
  const rig = new Rig();
  rig.isStuck = true;
  const begun = rig.begin();
  assert.deepEqual(rig.take(), ['hold']);
  rig.isStuck = false;
  rig.incoming.settle(true, 0);
  assert.deepEqual(rig.take(), ['clear', 'resume']);
  rig.incoming.onSnapshotChunk(begun, rows(1));
  rig.isStuck = true;
  rig.incoming.onSnapshotComplete(begun);
  rig.incoming.settle(true, 100);
  assert.deepEqual(rig.take(), ['hold']);
  rig.isStuck = false;
  rig.incoming.settle(true, 200);
  assert.deepEqual(rig.take(), ['resume', 'stage 1', 'told']);
});
