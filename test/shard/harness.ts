// A shard with ports in memory and a clock that the test holds.
import type { RaftGroup } from '../../src/protocol/queries/summaries.ts';
import assert from 'node:assert/strict';
import { errorCode } from '../../src/base/errors.ts';
import type { ShardOptions } from '../../src/shard/options.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Shard } from '../../src/shard/shard.ts';
import { REPLY_RESULT, REPLY_TAIL, type Reply } from '../../src/protocol/reply.ts';
import { ALL_GROUPS, type Request, newRequest, requestFor } from '../../src/protocol/request.ts';
import { ArraySource, ArrayTarget, MemoryStorage } from './memory-ports.ts';
import { READ_FLAG_AWAIT } from '../../src/protocol/queries/read.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

export interface Fields {
  readonly body?: string | Uint8Array;
  readonly type?: string;
  readonly close?: boolean;
  readonly ttl?: number;
  readonly expires?: number;
  readonly seq?: string;
  readonly producer?: readonly [id: string, epoch: number, seq: number];
  readonly isTransferred?: boolean;
}

interface Status {
  readonly counters: Readonly<Record<string, number>>;
  readonly raft_groups: readonly RaftGroup[];
  readonly [name: string]: unknown;
}

export class Harness {
  readonly storage: MemoryStorage;
  readonly source = new ArraySource();
  readonly target = new ArrayTarget();
  readonly logLines: string[] = [];
  shard: Shard;
  nowMs = 1_700_000_000_000;
  /** The clock of periods, which never steps. */
  clockMs = 5000;
  /** Options beyond the usual ones; may be changed before a restart. */
  more: Partial<ShardOptions>;
  #slot = 0;

  constructor(
    groups: readonly number[] = [0, 1, 2, 3],
    storage = new MemoryStorage(),
    more: Partial<ShardOptions> = {},
  ) {
    this.storage = storage;
    this.more = more;
    this.shard = this.#boot(groups);
  }

  #boot(groups: readonly number[]): Shard {
    const shard = new Shard({
      shard: 0,
      nodeId: 1,
      groups,
      storage: this.storage,
      requests: this.source,
      replies: this.target,
      nodes: [1],
      voters: [1],
      runtime: PROCESS_RUNTIME,
      seed: 7,
      boot: 7,
      log: (level, message, fields) =>
        this.logLines.push(`${level} ${message}${fields === undefined ? '' : ` ${JSON.stringify(fields)}`}`),
      ...this.more,
    });
    shard.start(this.clockMs);
    shard.turn(this.nowMs, this.clockMs);
    for (const group of shard.groups) assert(group.leads, 'a single voter leads after one turn');
    return shard;
  }

  /** The process dies here: only the storage survives. */
  restart(): void {
    this.storage.crash();
    this.shard = this.#boot(this.shard.groups.map((group) => group.id));
  }

  turn(afterMs = 1): Reply[] {
    this.nowMs += afterMs;
    this.clockMs += afterMs;
    this.shard.turn(this.nowMs, this.clockMs);
    return this.target.take();
  }

  /** Puts a request into the mailbox; its slot. */
  push(request: Request, isTransferred = false): number {
    this.source.push(request, ++this.#slot, isTransferred);
    return this.#slot;
  }

  create(group: number, stream: string, fields: Fields = {}): number {
    return this.push(command(COMMANDS.create.number, group, stream, fields), fields.isTransferred);
  }

  append(group: number, stream: string, body: string | Uint8Array, fields: Fields = {}): number {
    const all = { type: 'text/plain', ...fields, body };
    return this.push(command(COMMANDS.append.number, group, stream, all), fields.isTransferred);
  }

  close(group: number, stream: string): number {
    return this.push(command(COMMANDS.append.number, group, stream, { close: true }));
  }

  remove(group: number, stream: string): number {
    return this.push(command(COMMANDS.deleteStream.number, group, stream, {}));
  }

  read(group: number, stream: string, topic = 0, offset = 0): number {
    return this.push(requestFor(QUERIES.read, group, { bucket: 'bucket', stream, topic, value: offset }));
  }

  /** A read of a stream that may not be there: its topic is told when it is made. */
  awaitStream(group: number, stream: string, topic: number): number {
    const asked = { bucket: 'bucket', stream, topic, readFlags: READ_FLAG_AWAIT };
    return this.push(requestFor(QUERIES.read, group, asked));
  }

  unwatch(group: number, topic: number): void {
    this.push(requestFor(QUERIES.unwatch, group, { topic }));
  }

  /** In a separate turn, `afterMs` later. */
  status(afterMs = 1): Status {
    const slot = this.push(requestFor(QUERIES.status, ALL_GROUPS, undefined));
    const { counters = {}, raft_groups = [], ...rest } = QUERIES.status.result.read(find(this.turn(afterMs), slot));
    return { counters, raft_groups, ...rest };
  }

  /** Everything that reading the stream gives, in a separate turn. */
  contents(group: number, stream: string): string {
    const slot = this.read(group, stream);
    return text(find(this.turn(), slot));
  }
}

function named(op: number, group: number, stream: string): Request {
  const request = newRequest();
  request.op = op;
  request.group = group;
  request.command.bucket = 'bucket';
  request.command.stream = stream;
  return request;
}

function command(kind: number, group: number, stream: string, fields: Fields): Request {
  const request = named(kind, group, stream);
  const { command } = request;
  command.kind = kind;
  command.contentType = fields.type ?? (kind === COMMANDS.create.number ? 'text/plain' : '');
  command.close = fields.close ?? false;
  command.ttlSeconds = fields.ttl ?? -1;
  command.expiresAtMs = fields.expires ?? -1;
  command.streamSeq = fields.seq;
  if (fields.producer !== undefined) {
    [command.producerId, command.producerEpoch, command.producerSeq] = fields.producer;
  }
  const { body } = fields;
  command.payload = typeof body === 'string' ? new Uint8Array(Buffer.from(body)) : body;
  return request;
}

export function find(replies: readonly Reply[], slot: number): Reply {
  const found = replies.filter((reply) => reply.kind === REPLY_RESULT && reply.id === slot);
  assert.equal(found.length, 1, `one answer for slot ${slot}`);
  return found[0] as Reply;
}

export function tails(replies: readonly Reply[], topic: number): Reply[] {
  return replies.filter((reply) => reply.kind === REPLY_TAIL && reply.id === topic);
}

export function code(reply: Reply): string {
  return errorCode(reply.code);
}

export function text(reply: Reply): string {
  assert.equal(code(reply), 'OK');
  return Buffer.from(reply.body ?? []).toString();
}
