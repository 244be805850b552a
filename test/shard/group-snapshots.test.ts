// Outgoing snapshots: how many at once, in which order, and that none is forgotten.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SNAPSHOTS_SENT_MAX, SNAPSHOTS_SENT_PER_NODE_MAX } from '../../src/base/limits.ts';
import type { Group } from '../../src/group/group.ts';
import type { GroupSnapshotRequest } from '../../src/raft/types.ts';
import type { IncomingSnapshot, PeerPort, ShardStorage, SnapshotSource } from '../../src/shard/ports.ts';
import { IncomingGroupSnapshots } from '../../src/shard/incoming-group-snapshots.ts';
import { LOG_KEPT_BYTES } from '../../src/shard/log-pins.ts';
import { OutgoingGroupSnapshots, TOO_FAR_BEHIND } from '../../src/shard/outgoing-group-snapshots.ts';

const BOUNDS = { bytes: 1000, entries: 100 };
const CHUNK_BYTES = 32 * 1024;
/** A group of the rig. */
interface Scene {
  leads: boolean;
  readonly needy: Set<number>;
  /** The nodes' parts of its log. */
  readonly match: Map<number, number>;
  readonly asGroup: Group;
}

type Outcome = 'installed' | 'lost' | 'cancelled';

interface Sent {
  readonly message: GroupSnapshotRequest;
  readonly metadata: Uint8Array;
}

/** A shard's outgoing half: what started, and what raft was told. */
class Rig {
  readonly started: string[] = [];
  readonly told: string[] = [];
  #told: GroupSnapshotRequest | undefined;
  readonly sent: Sent[] = [];
  readonly addresses = new Map<number, string>();
  readonly #running = new Map<string, (outcome: Outcome) => void>();
  readonly #sources = new Map<string, SnapshotSource>();
  readonly #groups = new Map<number, Scene>();
  openReaders = 0;
  clockMs = 0;
  /** Log behind any index, in bytes. */
  readonly disk = { kept: 0, roomToGrow: true };
  readonly logged: string[] = [];
  wakes = 0;
  /** Nodes without a connection. */
  readonly unreachable = new Set<number>();
  readonly snapshots: OutgoingGroupSnapshots;
  readonly incoming: IncomingGroupSnapshots;

  constructor(bounds = BOUNDS) {
    const { disk } = this;
    const storage = {
      clearStage: () => true,
      get roomToGrow(): boolean {
        return disk.roomToGrow;
      },
      logBytesBehind: () => disk.kept,
      openSnapshot: () => {
        this.openReaders++;
        return { next: () => new Uint8Array(CHUNK_BYTES), close: () => this.openReaders-- };
      },
    };
    const peers: Pick<PeerPort, 'sendSnapshot' | 'snapshotResult' | 'paceSnapshot'> = {
      snapshotResult: () => true,
      paceSnapshot: () => undefined,
      sendSnapshot: (node, group, message, metadata, source) => {
        if (this.unreachable.has(node)) return undefined;
        this.sent.push({ message, metadata });
        this.started.push(`${group}>${node}`);
        this.#running.set(`${group}>${node}`, (outcome) => source.done(outcome));
        this.#sources.set(`${group}>${node}`, source);
        return { cancel: () => this.end(`${group}>${node}`, 'cancelled') };
      },
    };
    const port = storage as unknown as ShardStorage;
    this.snapshots = new OutgoingGroupSnapshots({
      storage: port,
      peers,
      log: (_level, message) => this.logged.push(message),
      wake: () => this.wakes++,
      bounds,
    });
    const nothing = (): void => undefined;
    const raft = { step: (one: GroupSnapshotRequest) => (this.#told = one) };
    const group = (): Group => ({ raft }) as unknown as Group;
    const rest = { groups: [], group, log: nothing, wake: nothing, isStuck: () => false };
    this.incoming = new IncomingGroupSnapshots({ storage: port, peers, ...rest });
  }

  group(id: number): Scene {
    const known = this.#groups.get(id);
    if (known !== undefined) return known;
    const needy = new Set<number>();
    const match = new Map<number, number>();
    const tell = (what: string) => (node: number) => {
      this.told.push(`${id}>${node} ${what}`);
      needy.delete(node);
    };
    const group = {
      id,
      leads: true,
      state: { appliedIndex: 10 * id, appliedTerm: 1 },
      raft: {
        lastIndex: 10 * id,
        configurationAt: () => ({ voters: [1, 2, 3], votersOutgoing: [], learners: [4], addresses: this.addresses }),
        peers: () =>
          [2, 3, 4].map((node) => ({
            node,
            state: needy.has(node) ? 'snapshot' : 'probe',
            match: match.get(node) ?? 0,
          })),
        snapshotInstalled: tell('installed'),
        snapshotFailed: tell('failed'),
      },
    };
    const made = {
      get leads(): boolean {
        return group.leads;
      },
      set leads(value: boolean) {
        group.leads = value;
      },
      needy,
      match,
      asGroup: group as unknown as Group,
    };
    this.#groups.set(id, made);
    return made;
  }

  want(id: number, to: number): void {
    const { needy, asGroup } = this.group(id);
    needy.add(to);
    this.snapshots.want(asGroup, { type: 'snapshot', to } as unknown as GroupSnapshotRequest);
  }

  /** The node requests this many chunks. */
  take(group: number, node: number, chunks: number): void {
    for (let i = 0; i < chunks; i++) this.#sources.get(`${group}>${node}`)?.next();
  }

  /** The end of a turn; what started in it. */
  turn(): string[] {
    this.snapshots.look(this.clockMs);
    for (const { group, message } of this.snapshots.due(this.clockMs)) this.snapshots.send(group, message);
    return this.started.splice(0);
  }

  /** The message to the receiver's raft; undefined when it is refused. */
  receive(message: GroupSnapshotRequest, metadata: Uint8Array): GroupSnapshotRequest | undefined {
    const incoming = { group: 7 } as unknown as IncomingSnapshot;
    this.#told = undefined;
    this.incoming.onSnapshotBegin(incoming, message, metadata);
    this.incoming.onSnapshotComplete(incoming);
    this.incoming.settle(true, 0);
    return this.#told;
  }

  end(which: string, outcome: Outcome): void {
    const done = this.#running.get(which);
    assert(done !== undefined, `${which} is under way`);
    this.#running.delete(which);
    done(outcome);
  }
}

test('the bounds are those that the tests below play with', () => {
  assert.deepEqual([SNAPSHOTS_SENT_MAX, SNAPSHOTS_SENT_PER_NODE_MAX], [2, 1]);
});

test('a node that needs every group gets one after the other, and each end asks for a turn', () => {
  const rig = new Rig();
  for (let group = 0; group < 16; group++) rig.want(group, 2);
  for (let group = 0; group < 16; group++) {
    assert.deepEqual(rig.turn(), [`${group}>2`]);
    assert.deepEqual([rig.turn(), rig.openReaders, rig.snapshots.waiting], [[], 1, 15 - group]);
    rig.end(`${group}>2`, group % 2 === 0 ? 'installed' : 'lost');
  }
  assert.deepEqual([rig.turn(), rig.openReaders, rig.wakes], [[], 0, 15]);
  assert.deepEqual(rig.told.slice(0, 2), ['0>2 installed', '1>2 failed']);
  assert.equal(rig.told.length, 16);
});

test('two nodes are served at the same time, a third one waits, and a stalled one delays only itself', () => {
  const rig = new Rig();
  for (let group = 0; group < 4; group++) for (const node of [2, 3, 4]) rig.want(group, node);
  assert.deepEqual(rig.turn(), ['0>2', '0>3']);
  rig.end('0>3', 'installed');
  assert.deepEqual(rig.turn(), ['0>4']);
  rig.end('0>4', 'installed');
  assert.deepEqual(rig.turn(), ['1>3']);
  rig.end('1>3', 'installed');
  rig.end('0>2', 'lost');
  assert.deepEqual(rig.turn(), ['1>2', '1>4']);
});

test('an unreachable node takes no place', () => {
  const rig = new Rig();
  rig.unreachable.add(2);
  for (let group = 0; group < 3; group++) for (const node of [2, 3]) rig.want(group, node);
  assert.deepEqual(rig.turn(), ['0>3']);
  assert.deepEqual(rig.told, ['0>2 failed']);
  assert.deepEqual([rig.turn(), rig.turn(), rig.openReaders], [[], [], 1]);
  assert.deepEqual(rig.told, ['0>2 failed', '1>2 failed', '2>2 failed']);
  rig.end('0>3', 'installed');
  assert.deepEqual(rig.turn(), ['1>3']);
});

test('the addresses of members travel with a snapshot, outside the message', () => {
  const rig = new Rig();
  rig.addresses.set(4, 'n4.example:4440');
  rig.want(0, 2);
  rig.turn();
  const { message, metadata } = rig.sent.at(-1) as Sent;
  const begun = rig.receive(message, metadata);
  assert.deepEqual(begun?.snapshot.configuration.addresses, new Map([[4, 'n4.example:4440']]));
  assert.equal(rig.receive(message, metadata.subarray(1)), undefined, 'refused');
});

test('a snapshot whose usage is counted in another unit is refused', () => {
  const rig = new Rig();
  rig.want(0, 2);
  rig.turn();
  const { message, metadata } = rig.sent.at(-1) as Sent;
  const other = metadata.slice();
  new DataView(other.buffer).setUint32(0, 10_000, true);
  assert.equal(rig.receive(message, other), undefined);
  assert.notEqual(rig.receive(message, metadata), undefined);
});

test('what is not needed any more gives its place to the next one', () => {
  const rig = new Rig();
  for (let group = 0; group < 4; group++) rig.want(group, 2);
  rig.turn();
  rig.group(1).leads = false;
  rig.group(2).needy.clear();
  rig.end('0>2', 'installed');
  assert.deepEqual(rig.turn(), ['3>2']);
  assert.equal(rig.snapshots.waiting, 0);
});

test('a request that is repeated while it waits is sent once, as it was asked last', () => {
  const rig = new Rig();
  rig.want(0, 2);
  rig.turn();
  rig.want(1, 2);
  rig.want(1, 2);
  assert.equal(rig.snapshots.waiting, 1);
  rig.end('0>2', 'installed');
  assert.deepEqual(rig.turn(), ['1>2']);
});

test('the log behind a snapshot is kept while it travels, and until the node has that log too', () => {
  const rig = new Rig({ bytes: 1e9, entries: 100 });
  const group = rig.group(3);
  rig.want(3, 2);
  rig.turn();
  const { pins } = rig.snapshots;
  assert.deepEqual([pins.oldest(3), pins.oldest(4)], [30, Infinity]);
  rig.end('3>2', 'installed');
  group.match.set(2, 30);
  rig.disk.kept = 3 * 1024 * 1024;
  rig.turn();
  assert.equal(pins.oldest(3), 30, 'else it would need the next one at once');
  group.match.set(2, 34);
  rig.turn();
  assert.equal(pins.oldest(3), 34);
  rig.disk.kept = 100;
  rig.turn();
  assert.equal(pins.oldest(3), Infinity);
  assert.equal(rig.snapshots.counters.tooFarBehind, 0);
});

test('a node slower than the writes is abandoned, in the snapshot or in the log after it', () => {
  const rig = new Rig();
  rig.want(3, 2);
  rig.turn();
  rig.disk.kept = BOUNDS.bytes;
  rig.turn();
  assert.deepEqual(rig.told, []);
  rig.disk.kept++;
  rig.turn();
  assert.deepEqual([rig.told, rig.snapshots.pins.oldest(3), rig.openReaders], [['3>2 failed'], Infinity, 0]);
  assert(rig.logged.includes(TOO_FAR_BEHIND));
  rig.disk.kept = 0;
  rig.want(3, 2);
  rig.clockMs += 500;
  assert.deepEqual(rig.turn(), ['3>2']);
  rig.end('3>2', 'installed');
  rig.group(3).match.set(2, 30);
  rig.disk.kept = 3 * 1024 * 1024;
  rig.turn();
  assert.deepEqual([rig.snapshots.pins.oldest(3), rig.snapshots.counters.tooFarBehind], [Infinity, 2]);
});

test('a node may be behind as much as it has received, unless the volume runs short', () => {
  const rig = new Rig();
  rig.want(3, 2);
  rig.turn();
  rig.take(3, 2, 100);
  const taken = 100 * CHUNK_BYTES;
  rig.disk.kept = taken;
  rig.turn();
  assert.deepEqual(rig.told, []);
  rig.disk.kept = 5 * 1024 * 1024;
  rig.take(3, 2, 200);
  rig.disk.roomToGrow = false;
  rig.turn();
  assert.deepEqual(rig.told, ['3>2 failed']);
});

test('a former leader goes on sending while the new one keeps the log behind that, and is not told to begin again', () => {
  const rig = new Rig({ bytes: 16 * LOG_KEPT_BYTES, entries: 100 });
  rig.want(3, 2);
  rig.turn();
  rig.group(3).leads = false;
  rig.disk.kept = LOG_KEPT_BYTES;
  assert.deepEqual([rig.turn(), rig.told], [[], []]);
  rig.group(3).leads = true;
  rig.want(3, 2);
  assert.deepEqual([rig.turn(), rig.told], [[], []], 'it leads again, and asks for what is under way');
  rig.group(3).leads = false;
  rig.disk.kept++;
  rig.turn();
  assert.deepEqual([rig.told, rig.snapshots.pins.oldest(3), rig.openReaders], [['3>2 failed'], Infinity, 0]);
  assert.deepEqual([rig.snapshots.counters.tooFarBehind, rig.logged.includes(TOO_FAR_BEHIND)], [0, false]);
});

test('a snapshot that fails is tried again after a pause that doubles, up to a minute, until one has come to something', () => {
  const rig = new Rig();
  const pauses: number[] = [];
  for (let i = 0; i < 9; i++) {
    rig.want(3, 2);
    let waitedMs = 0;
    while (rig.turn().length === 0) {
      waitedMs += 500;
      rig.clockMs += 500;
    }
    pauses.push(waitedMs);
    rig.end('3>2', 'lost');
  }
  assert.deepEqual(pauses, [0, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]);
  rig.want(3, 2);
  rig.clockMs += 60_000;
  assert.deepEqual(rig.turn(), ['3>2']);
  rig.group(3).match.set(2, 30);
  rig.end('3>2', 'installed');
  rig.turn();
  rig.want(3, 2);
  assert.deepEqual(rig.turn(), ['3>2'], 'nothing is held against it');
});

test('the log kept for a node that has its snapshot and goes away is compacted after half a minute', () => {
  const rig = new Rig();
  rig.want(3, 2);
  rig.turn();
  rig.end('3>2', 'installed');
  rig.disk.kept = 900;
  rig.turn();
  rig.clockMs += 30_000;
  rig.turn();
  assert.equal(rig.snapshots.pins.oldest(3), 30);
  rig.clockMs++;
  rig.turn();
  assert.equal(rig.snapshots.pins.oldest(3), Infinity);
});
