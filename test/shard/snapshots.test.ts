// Outgoing snapshots: how many at once, who comes next, and that none is forgotten.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SNAPSHOTS_SENT_MAX, SNAPSHOTS_SENT_PER_NODE_MAX } from '../../src/base/limits.ts';
import type { Group } from '../../src/group/group.ts';
import type { SnapshotRequest } from '../../src/raft/types.ts';
import type { IncomingSnapshot, PeerPort, ShardStorage } from '../../src/shard/ports.ts';
import { IncomingSnapshots } from '../../src/shard/incoming-snapshots.ts';
import { OutgoingSnapshots } from '../../src/shard/outgoing-snapshots.ts';

type Outcome = 'installed' | 'lost';

interface Sent {
  readonly message: SnapshotRequest;
  readonly metadata: Uint8Array;
}

/** A shard's outgoing half: what started, and what raft was told. */
class Rig {
  readonly started: string[] = [];
  readonly told: string[] = [];
  readonly sent: Sent[] = [];
  readonly addresses = new Map<number, string>();
  readonly #running = new Map<string, (outcome: Outcome) => void>();
  readonly #groups = new Map<number, { leads: boolean; needy: Set<number>; asGroup: Group }>();
  openReaders = 0;
  wakes = 0;
  /** Nodes without a connection. */
  readonly unreachable = new Set<number>();
  readonly snapshots: OutgoingSnapshots;
  readonly incoming: IncomingSnapshots;

  constructor() {
    const storage = {
      clearStage: () => true,
      openSnapshot: () => {
        this.openReaders++;
        return { next: () => undefined, close: () => this.openReaders-- };
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
        return {};
      },
    };
    const port = storage as unknown as ShardStorage;
    this.snapshots = new OutgoingSnapshots(
      port,
      peers,
      () => {},
      () => this.wakes++,
    );
    this.incoming = new IncomingSnapshots(
      port,
      [],
      peers,
      () => {},
      () => undefined,
    );
  }

  group(id: number): { leads: boolean; needy: Set<number>; asGroup: Group } {
    const known = this.#groups.get(id);
    if (known !== undefined) return known;
    const needy = new Set<number>();
    const tell = (what: string) => (node: number) => {
      this.told.push(`${id}>${node} ${what}`);
      needy.delete(node);
    };
    const group = {
      id,
      leads: true,
      state: { appliedIndex: 10 * id, appliedTerm: 1 },
      raft: {
        configurationAt: () => ({ voters: [1, 2, 3], votersOutgoing: [], learners: [4], addresses: this.addresses }),
        peers: () => [2, 3, 4].map((node) => ({ node, state: needy.has(node) ? 'snapshot' : 'probe' })),
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
      asGroup: group as unknown as Group,
    };
    this.#groups.set(id, made);
    return made;
  }

  want(id: number, to: number): void {
    const { needy, asGroup } = this.group(id);
    needy.add(to);
    this.snapshots.want(asGroup, { type: 'snapshot', to } as unknown as SnapshotRequest);
  }

  /** The end of a turn; what started in it. */
  turn(): string[] {
    for (const { group, message } of this.snapshots.due()) this.snapshots.send(group, message);
    return this.started.splice(0);
  }

  /** What the receiver's raft is told of it; undefined when it is refused. */
  receive(message: SnapshotRequest, metadata: Uint8Array): SnapshotRequest | undefined {
    const incoming = { group: 7 } as unknown as IncomingSnapshot;
    this.incoming.begin(incoming, message, metadata);
    let told: SnapshotRequest | undefined;
    const raft = { step: (one: SnapshotRequest) => (told = one) };
    this.incoming.complete(incoming, { raft } as unknown as Group);
    this.incoming.settle(true, 0);
    return told;
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

test('two nodes are served side by side, a third one waits, and who stalls holds up only itself', () => {
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

test('who cannot be reached does not take a place', () => {
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

test('the addresses of members go along with a snapshot, beside the message', () => {
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
