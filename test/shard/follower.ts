// A node of a cluster that follows; the other nodes are the test itself.
import assert from 'node:assert/strict';
import { PROTOCOL_VERSION, VERSION_WITH_EXPECTATIONS } from '../../src/peer/codec/handshake.ts';
import type { PeerPort } from '../../src/shard/ports.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import type { ShardOptions } from '../../src/shard/options.ts';
import { Shard } from '../../src/shard/shard.ts';
import type { Entry, Message } from '../../src/raft/types.ts';
import { Command, newCommandFields, writeCommand } from '../../src/protocol/command.ts';
import { EntryBuilder } from '../../src/group/entry.ts';
import type { Reply } from '../../src/protocol/reply.ts';
import { ALL_GROUPS, type Request, requestFor } from '../../src/protocol/request.ts';
import { listeningPort } from './listening-port.ts';
import { ArraySource, ArrayTarget, MemoryStorage } from './memory-ports.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { TAG } from '../../src/stream/core/keys.ts';

const LEADER = 2;

export class Follower {
  readonly storage = new MemoryStorage();
  source = new ArraySource();
  target = new ArrayTarget();
  readonly sent: Message[] = [];
  /** Called when messages that were sent leave. */
  onFlush: () => void = () => undefined;
  /** Nodes of a version that does not know commands that expect a tail. */
  readonly older = new Set<number>();
  readonly forwarded: Uint8Array[] = [];
  /** Told to the sender of a group snapshot. */
  readonly paces: string[] = [];
  /** To requests that other nodes sent. */
  readonly replies: Uint8Array[] = [];
  clockMs = 5000;
  boots = 0;
  shard: Shard;
  #slot = 0;
  #round = 0;

  readonly #more: Partial<ShardOptions>;

  constructor(more: Partial<ShardOptions> = {}) {
    this.#more = more;
    this.storage.compactable = () => 0;
    this.shard = this.boot();
  }

  /** Another process on the same disk. */
  boot(): Shard {
    this.source = new ArraySource();
    this.target = new ArrayTarget();
    const port: PeerPort = {
      ...listeningPort(this.sent),
      version: (node) => (this.older.has(node) ? VERSION_WITH_EXPECTATIONS - 1 : PROTOCOL_VERSION),
      forward: (_node, _group, bytes) => this.forwarded.push(bytes) > 0,
      reply: (_origin, bytes) => this.replies.push(bytes) > 0,
      paceSnapshot: (_snapshot, pace) => void this.paces.push(pace),
      snapshotResult: (_snapshot, status) => this.paces.push(status) > 0,
      flush: () => this.onFlush(),
    };
    this.shard = new Shard({
      links: { peers: port, wake: () => undefined },
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
      boot: ++this.boots,
      log: () => undefined,
      ...this.#more,
    });
    this.shard.start(this.clockMs);
    return this.shard;
  }

  turn(afterMs = 1): Reply[] {
    this.clockMs += afterMs;
    this.shard.turn(1_700_000_000_000 + this.clockMs, this.clockMs);
    return this.target.take();
  }

  /** The leader of `term` sends entries behind `prev`. */
  append(term: number, prev: readonly [index: number, term: number], entries: readonly Entry[], commit: number): void {
    this.shard.onRaft(0, {
      type: 'append',
      from: LEADER,
      to: 1,
      term,
      prevIndex: prev[0],
      prevTerm: prev[1],
      entries,
      commit,
      round: ++this.#round,
      allowedBoot: 0,
      restored: false,
    });
  }

  /** It leads from now on, because node 2 votes for it. The answers of the turn in which it learns that. */
  lead(): Reply[] {
    const raft = this.shard.groups[0]?.raft ?? assert.fail('it has a group');
    raft.campaign();
    for (let i = 0; i < 2; i++) {
      this.turn();
      for (const message of this.sent.splice(0)) {
        if (message.type !== 'vote' || message.to !== LEADER) continue;
        const { term, pre } = message;
        raft.step({ type: 'vote-response', from: LEADER, to: 1, term, pre, granted: true });
      }
    }
    assert.equal(raft.role, 'leader');
    return this.turn();
  }

  ask(op: number, topic = 0, offset = 0): number {
    const stream = { bucket: 'b', stream: 's' };
    const asked = new Map<number, () => Request>([
      [QUERIES.read.number, () => requestFor(QUERIES.read, 0, { ...stream, topic, value: offset, maxRecords: 10 })],
      [QUERIES.head.number, () => requestFor(QUERIES.head, 0, stream)],
      [
        QUERIES.list.number,
        () => requestFor(QUERIES.list, ALL_GROUPS, { bucket: 'b', prefix: '', after: '', limit: 10 }),
      ],
      [QUERIES.bucket.number, () => requestFor(QUERIES.bucket, ALL_GROUPS, { bucket: 'b' })],
      [QUERIES.usage.number, () => requestFor(QUERIES.usage, ALL_GROUPS, { after: '', limit: 10 })],
      [QUERIES.status.number, () => requestFor(QUERIES.status, ALL_GROUPS, undefined)],
    ]);
    const make = asked.get(op);
    assert(make !== undefined, `no question ${op}`);
    return this.request(make());
  }

  request(request: Request): number {
    this.source.push(request, ++this.#slot);
    return this.#slot;
  }

  /** The questions that it sent to the leader since the last call. */
  questions(): number[] {
    return this.sent.splice(0).flatMap((message) => (message.type === 'read-index' ? [message.context] : []));
  }

  tell(context: number, index: number, term = 1): void {
    this.shard.onRaft(0, { type: 'read-index-response', from: LEADER, to: 1, term, context, index });
  }
}

export function entry(index: number, term: number, kind: number, payload?: string): Entry {
  const fields = newCommandFields();
  fields.kind = kind;
  fields.bucket = 'b';
  fields.stream = 's';
  fields.contentType = 'text/plain';
  if (payload !== undefined) fields.payload = new Uint8Array(Buffer.from(payload));
  const bytes = new Uint8Array(2048);
  const view = new DataView(bytes.buffer);
  writeCommand(fields, bytes, view, 0);
  const command = new Command();
  command.read(bytes, view, 0);
  const builder = new EntryBuilder();
  builder.add(command, 1_700_000_000_000);
  return { index, term, kind: 0, data: builder.finish() };
}

export const CREATE = entry(1, 1, COMMANDS.create.number);
export const HELLO = entry(2, 1, COMMANDS.append.number, 'hello');
export const empty = (index: number, term: number): Entry => ({ index, term, kind: 2, data: new Uint8Array(0) });

/** Its rows are in the store and nowhere else. */
export function restarted(): Follower {
  const node = new Follower();
  node.append(1, [0, 0], [CREATE, HELLO], 2);
  node.turn();
  node.shard.stop(0, node.clockMs);
  node.boot();
  node.turn();
  return node;
}

/** An entry needed a row that the disk changed. */
export function stopped(): Follower {
  const node = restarted();
  node.append(1, [2, 1], [entry(3, 1, COMMANDS.append.number, 'more')], 2);
  node.turn();
  node.storage.isDamaged = (key) => key[2] === TAG.head;
  node.append(1, [3, 1], [], 3);
  node.turn();
  assert(node.shard.status.counters['stoppedGroups'] === 1);
  return node;
}
