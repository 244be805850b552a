// Three replicas of a group, whose leader compares their rows: shards with ports in memory, one after the other.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOL_VERSION, VERSION_WITH_REPAIR } from '../../src/peer/codec/handshake.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';
import type { Message } from '../../src/raft/types.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import type { ForwardOrigin, PeerPort } from '../../src/shard/ports.ts';
import { Shard } from '../../src/shard/shard.ts';
import { garbageBelow } from '../../src/stream/core/garbage.ts';
import { TAG, incarnationKey, positionKey } from '../../src/stream/core/keys.ts';
import { ArraySource, ArrayTarget, MemoryStorage } from './memory-ports.ts';

const [GROUP, OTHER] = [0, 1];
const IDS = [1, 2, 3] as const;
const LEADER = 1;
const PACE = { bytesPerSecond: 1e6, pauseMs: 300 };
const NOW_MS = 1_700_000_000_000;

class Node {
  readonly id: number;
  readonly storage = new MemoryStorage();
  readonly source = new ArraySource();
  readonly target = new ArrayTarget();
  readonly log: string[] = [];
  readonly sent: number[] = [];
  readonly cancelled: number[] = [];
  readonly shard: Shard;
  slots = 0;

  constructor(cluster: Cluster, id: number) {
    this.id = id;
    this.storage.compactable = () => 0;
    this.storage.openSnapshot = () => ({ next: () => undefined, close: () => undefined });
    const port: Partial<PeerPort> = {
      sendRaft: (to, group, message) => {
        if (message.type !== cluster.lost) cluster.deliver(to, ({ shard }) => shard.onRaft(group, message));
      },
      setJoined: () => undefined,
      connected: () => true,
      version: (node) => cluster.versions.get(node) ?? PROTOCOL_VERSION,
      forward: (to, group, bytes, onReply) => {
        cluster.asked.add(group);
        return cluster.forward({ from: id, to, group }, bytes, onReply);
      },
      reply: ({ node, correlation }, bytes) => cluster.reply(node, correlation, bytes.slice()),
      // The states of leaders do not arrive here.
      sendSnapshot: (_to, _group, { snapshot }) => {
        this.sent.push(snapshot.index);
        return { cancel: () => this.cancelled.push(snapshot.index) };
      },
      flush: () => undefined,
    };
    this.shard = new Shard({
      ...{ links: { peers: port as PeerPort, wake: () => undefined }, shard: 0, nodeId: id, groups: cluster.groups },
      ...{ storage: this.storage, requests: this.source, replies: this.target, nodes: IDS, voters: IDS },
      ...{ runtime: PROCESS_RUNTIME, seed: 7 * id, boot: 1, scrub: { ...PACE, pauseMs: cluster.pauseMs } },
      log: (level, message) => this.log.push(`${level} ${message}`),
    });
    this.shard.start(5000);
  }

  get counters(): Readonly<Record<string, number>> {
    return this.shard.status.counters;
  }
}

class Cluster {
  readonly versions = new Map<number, number>();
  readonly questions = new Map<number, number>();
  readonly #mail: (() => void)[] = [];
  readonly #waiting = new Map<number, (answer: Uint8Array | undefined) => void>();
  #correlation = 0;
  clockMs = 5000;
  readonly groups: readonly number[];
  readonly pauseMs: number;
  /** Groups of which digests were asked. */
  readonly asked = new Set<number>();
  /** Messages of this type do not arrive. */
  lost: Message['type'] | undefined;
  readonly nodes: readonly Node[];

  constructor(groups: readonly number[] = [GROUP], pauseMs = PACE.pauseMs) {
    this.groups = groups;
    this.pauseMs = pauseMs;
    this.nodes = IDS.map((id) => new Node(this, id));
  }

  node(id: number): Node {
    return this.nodes.find((node) => node.id === id) ?? assert.fail(`no node ${id}`);
  }

  deliver(to: number, handle: (node: Node) => void): void {
    this.#mail.push(() => handle(this.node(to)));
  }

  forward(
    { from, to, group }: { readonly from: number; readonly to: number; readonly group: number },
    bytes: Uint8Array,
    onReply: (answer: Uint8Array | undefined) => void,
  ): boolean {
    const origin: ForwardOrigin = { node: from, shard: 0, boot: 1, correlation: ++this.#correlation };
    const frame = bytes.slice();
    this.questions.set(to, (this.questions.get(to) ?? 0) + 1);
    this.#waiting.set(origin.correlation, onReply);
    this.deliver(to, ({ shard }) => shard.onForward(origin, group, frame, NOW_MS));
    return true;
  }

  reply(_to: number, correlation: number, bytes: Uint8Array): boolean {
    this.#mail.push(() => this.#waiting.get(correlation)?.(bytes));
    return true;
  }

  turn(afterMs = 5): void {
    this.clockMs += afterMs;
    for (const { shard } of this.nodes) {
      for (const handle of this.#mail.splice(0)) handle();
      shard.turn(NOW_MS + this.clockMs, this.clockMs);
    }
  }

  until(what: string, isTrue: () => boolean, work: () => void = () => undefined): void {
    for (let turns = 0; !isTrue(); turns++) {
      assert(turns < 5000, what);
      work();
      this.turn();
    }
  }

  get leader(): Node {
    return this.nodes.find(({ shard }) => shard.groups[0]?.leads) ?? assert.fail('one of them leads');
  }

  command(operation: 'create' | 'append', stream: string, body: string): void {
    const { leader } = this;
    const request = requestFor(COMMANDS.create, GROUP, { bucket: 'bucket', stream });
    request.op = request.command.kind = COMMANDS[operation].number;
    request.command.contentType = 'text/plain';
    request.command.payload = new Uint8Array(Buffer.from(body));
    leader.source.push(request, ++leader.slots);
  }
}

/** Changes the body of the stream on these nodes to something of its own, as if it had been written so. */
function change(cluster: Cluster, ids: readonly number[]): void {
  for (const id of ids) {
    const { storage } = cluster.node(id);
    const rows: (readonly [Uint8Array, Uint8Array])[] = [];
    storage.tx.range(Uint8Array.of(0, GROUP, TAG.data), Uint8Array.of(0, GROUP, TAG.data + 1), false, (key, value) => {
      return rows.push([key.slice(), value.slice()]) > 0;
    });
    const [key, value] = rows[0] ?? assert.fail('there is a data row');
    value[value.length - 1] = id;
    put(cluster, [id], [[key, value]]);
  }
}

function started(cluster = new Cluster()): Cluster {
  for (const { raft } of cluster.node(LEADER).shard.groups) raft.campaign();
  cluster.until('a node leads', () => cluster.nodes.some(({ shard }) => shard.groups[0]?.leads));
  cluster.command('create', 'stream', 'PRECIOUS');
  cluster.until('all is on disk', () => cluster.nodes.every(({ storage }) => /PRECIOUS/.test(storage.durableText)));
  for (let i = 0; i < 300; i++) cluster.turn();
  return cluster;
}

const compared = ({ leader }: Cluster): number => leader.counters['comparisons'] ?? 0;

function comparedAgain(cluster: Cluster, work?: () => void): void {
  const before = compared(cluster);
  cluster.until('the replicas are compared', () => compared(cluster) >= before + 2, work);
}

function said(cluster: Cluster, sentence: RegExp): number[] {
  return cluster.nodes.filter(({ log }) => log.some((line) => sentence.test(line))).map(({ id }) => id);
}

const stopped = ({ nodes }: Cluster): number[] =>
  nodes.filter(({ counters }) => counters['differingGroups'] === 1).map(({ id }) => id);

test('replicas with the same rows are compared again and again, also while they are written', () => {
  const cluster = started();
  comparedAgain(cluster);
  let appends = 0;
  comparedAgain(cluster, () => cluster.command('append', 'stream', `${++appends};`));
  assert(appends > 20);
  assert.deepEqual([said(cluster, /other rows/), said(cluster, /different rows/)], [[], []]);
  assert(Number(cluster.leader.counters['comparedBytes']) > 0);
});

for (const [who, different] of [
  ['a follower', 3],
  ['the leader', LEADER],
] as const) {
  test(`${who} whose rows differ from those of the others stops, and is told to take the state of a leader`, () => {
    const cluster = started();
    change(cluster, [different]);
    cluster.until('it stops', () => stopped(cluster).length > 0);
    assert.deepEqual([stopped(cluster), said(cluster, /has other rows of a group/)], [[different], [different]]);
    const group = cluster.node(different).shard.groups[0];
    assert.equal(group?.raft.wantsState, true);
    assert.equal(group.raft.electionPriority, 'low');
    if (different === LEADER) {
      const isLed = (): boolean => cluster.nodes.some(({ id, shard }) => id !== LEADER && shard.groups[0]?.leads);
      cluster.until('another node leads', isLed);
    }
    assert.deepEqual(said(cluster, /different rows/), []);
  });
}

test('a leader whose rows differ sends them nowhere while no other node leads', () => {
  const cluster = started();
  cluster.lost = 'timeout-now';
  const [{ leader }, [second, third]] = [cluster, [2, 3].map((id) => cluster.node(id).shard.groups[0])];
  second?.raft.wantState(true);
  cluster.until('a transfer begins', () => leader.sent.length === 1);
  change(cluster, [LEADER]);
  cluster.until('it stops', () => stopped(cluster).length > 0);
  assert.deepEqual([stopped(cluster), leader.cancelled], [[LEADER], leader.sent]);
  third?.raft.wantState(true);
  for (let i = 0; i < 100; i++) cluster.turn();
  assert.deepEqual([leader.shard.groups[0]?.leads, third?.raft.wantsState, leader.sent.length], [true, true, 1]);
});

test('all groups have their turn, also when a pass takes longer than the pause behind it', () => {
  const cluster = started(new Cluster([GROUP, OTHER], 1));
  cluster.asked.clear();
  cluster.until('both are compared', () => cluster.asked.size === 2);
});

test('no group is held up for a comparison while a checkpoint is under way', () => {
  const cluster = started();
  const { shard, storage } = cluster.leader;
  storage.checkpointLooks = Infinity;
  cluster.command('append', 'stream', 'more;');
  cluster.until('a checkpoint is under way', () => shard.status.checkpointMs > 0);
  // The checkpoint has nothing of it.
  cluster.command('append', 'stream', 'later;');
  for (let i = 0; i < 1200; i++) cluster.turn();
  cluster.questions.clear();
  for (let i = 0; i < 600; i++) cluster.turn();
  assert.equal(cluster.questions.size, 0);
});

test('where no majority has the same rows, none is changed, and it is told', () => {
  const cluster = started();
  change(cluster, IDS);
  cluster.until('it is told', () => said(cluster, /different rows/).length > 0);
  comparedAgain(cluster);
  assert.deepEqual([stopped(cluster), said(cluster, /different rows/)], [[], [LEADER]]);
  const lines = cluster.leader.log.filter((line) => /different rows/.test(line));
  assert.deepEqual([lines.length, cluster.leader.counters['undecidedGroups']], [1, 1]);
  const { shard } = cluster.leader;
  shard.groups[0]?.raft.transferLeadership(2);
  cluster.until('another node leads', () => cluster.node(2).shard.groups[0]?.leads === true);
  cluster.until('it counts no more', () => shard.status.counters.undecidedGroups === 0);
});

test('a node that is not asked settles later which of the others has other rows', () => {
  const cluster = started();
  cluster.versions.set(3, VERSION_WITH_REPAIR);
  change(cluster, [2]);
  cluster.until('it is told', () => said(cluster, /those that did not answer decide/).length > 0);
  cluster.until('the pass ends', () => compared(cluster) > 0);
  assert.deepEqual([cluster.leader.counters['undecidedGroups'], stopped(cluster)], [0, []]);
  cluster.versions.delete(3);
  for (let i = 0; i < 3000; i++) cluster.turn(20);
  cluster.until('it stops', () => stopped(cluster).length > 0);
  assert.deepEqual([stopped(cluster), said(cluster, /no majority/)], [[2], []]);
});

test('a node that could not be asked is compared as soon as it can be, and not with the next pass', () => {
  const cluster = new Cluster([GROUP], 3_600_000);
  cluster.versions.set(3, VERSION_WITH_REPAIR);
  started(cluster);
  change(cluster, [3]);
  cluster.until('the pass ends', () => compared(cluster) > 0);
  cluster.versions.delete(3);
  cluster.until('it stops', () => stopped(cluster).length > 0);
  assert.deepEqual(stopped(cluster), [3]);
});

test('nodes of an older protocol are not asked', () => {
  const cluster = started();
  cluster.versions.set(3, VERSION_WITH_REPAIR);
  cluster.questions.clear();
  change(cluster, [3]);
  comparedAgain(cluster);
  assert.deepEqual([cluster.questions.get(3), stopped(cluster)], [undefined, []]);
});

/** Puts rows into the store of these nodes, behind what they know of it. */
function put(cluster: Cluster, ids: readonly number[], rows: readonly (readonly [Uint8Array, Uint8Array])[]): void {
  for (const id of ids) {
    const { storage } = cluster.node(id);
    storage.startCheckpoint(() => rows.forEach(([key, value]) => storage.tx.put(key, value)));
    storage.endCheckpoint('wait');
  }
}

test('rows that one node still has, because it has not deleted its garbage, are no difference', () => {
  const [removed, trimmed] = [900, 901];
  const row = (incarnation: number, position: number): readonly [Uint8Array, Uint8Array] => [
    positionKey(GROUP, TAG.data, incarnation, position),
    Uint8Array.of(position),
  ];
  const mark = (incarnation: number, value: Uint8Array): readonly [Uint8Array, Uint8Array] => [
    incarnationKey(GROUP, TAG.garbage, incarnation),
    value,
  ];
  const cluster = started();
  put(cluster, IDS, [row(trimmed, 10)]);
  put(cluster, [2], [mark(removed, new Uint8Array(0)), row(removed, 7)]);
  put(cluster, [3], [mark(trimmed, garbageBelow(10, 0)), row(trimmed, 5)]);
  comparedAgain(cluster);
  assert.deepEqual([said(cluster, /other rows/), said(cluster, /different rows/)], [[], []]);
  put(cluster, [3], [row(trimmed, 11)]);
  cluster.until('it stops', () => stopped(cluster).length > 0);
  assert.deepEqual(stopped(cluster), [3]);
});
