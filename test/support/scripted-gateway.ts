// A gateway without shards: records requests and answers as the test's script says, always after send() has returned.
import assert from 'node:assert/strict';
import type { ReplyHandler, WriteGateway } from '../../src/ports.ts';
import { commandsWhere } from '../../src/protocol/operations.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { Query, type Request } from '../../src/protocol/request.ts';
import type { StreamName } from '../../src/protocol/flat-path.ts';
import { FakeGateway } from './fake-gateway.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { queryOf } from './asked-query.ts';

const FOR_QUOTAS = commandsWhere(({ quota }) => quota !== 'none');

/** A copy of a request, because the sender reuses its own. */
export interface Asked {
  readonly op: number;
  readonly group: number;
  readonly shard: number | undefined;
  readonly bucket: string;
  readonly stream: string;
  readonly close: boolean;
  readonly contentType: string;
  readonly streamSeq: string | undefined;
  readonly producer: readonly [string, number, number] | undefined;
  readonly recordMatch: number;
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
  readonly attributes: string | undefined;
  readonly payload: Buffer | undefined;
  readonly mode: number;
  readonly value: number;
  readonly maxBytes: number;
  readonly maxRecords: number;
  readonly readFlags: number;
  /** For a query: what the shard sees of it. */
  readonly query: Query;
}

/** Fills the reply; a false result keeps the handler waiting until release() is called. */
export type Script = (asked: Asked, reply: Reply) => boolean | void;

export class ScriptedGateway extends FakeGateway {
  readonly asked: Asked[] = [];
  script: Script = () => {};
  /** send() answers false, as with a full mailbox. */
  full = false;
  #held: { readonly handler: ReplyHandler; readonly asked: Asked }[] = [];
  #arrivals: (() => void)[] = [];

  constructor(groupCount = 4, shardCount = 2) {
    super(groupCount, shardCount);
  }

  get last(): Asked {
    const last = this.asked.at(-1);
    if (last === undefined) throw new Error('nothing was asked');
    return last;
  }

  /** In the place of the quota gate. */
  readonly writes: WriteGateway = {
    groupCount: this.groupCount,
    send: (request, handler) => this.#take(request, handler),
  };

  send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    assert(!FOR_QUOTAS.has(request.op), 'what quotas count, or what changes them, goes through the quota gate');
    return this.#take(request, handler, shard);
  }

  #take(request: Request, handler: ReplyHandler, shard?: number): boolean {
    if (this.full) return false;
    const asked = copy(request, shard);
    this.asked.push(asked);
    for (const arrive of this.#arrivals.splice(0)) arrive();
    queueMicrotask(() => this.#answer(asked, handler));
    return true;
  }

  /** Resolves at the next request. */
  nextRequest(): Promise<void> {
    return new Promise((resolve) => this.#arrivals.push(resolve));
  }

  get heldCount(): number {
    return this.#held.length;
  }

  /** Answers what the script held back. */
  release(fill: (asked: Asked, reply: Reply) => void = () => {}): void {
    for (const { handler, asked } of this.#held.splice(0)) {
      const reply = new Reply();
      fill(asked, reply);
      deliver(asked, reply, handler);
    }
  }

  #answer(asked: Asked, handler: ReplyHandler): void {
    const reply = new Reply();
    if (this.script(asked, reply) === false) this.#held.push({ handler, asked });
    else deliver(asked, reply, handler);
  }
}

/** The answer to a query that the script of the test leaves alone. */
const UNSCRIPTED: ReadonlyMap<number, (reply: Reply) => void> = new Map([
  unscripted(QUERIES.head, {
    ...{ tag: '', hotStart: 0, ttlSeconds: 0, expiresAtMs: 0, incarnation: 0, snapshot: undefined },
  }),
  unscripted(QUERIES.getAttributes, { json: Buffer.from('{}') }),
  unscripted(QUERIES.snapshot, { offset: 0, incarnation: 0, size: 0, digest: '', bytes: new Uint8Array(0) }),
  unscripted(QUERIES.list, []),
  unscripted(QUERIES.bucket, { streams: 0, exists: false, retainedBytes: 0, streamsMax: 0, retainedBytesMax: 0 }),
  unscripted(QUERIES.usage, { hasMore: false, rows: [] }),
  unscripted(QUERIES.status, {}),
  unscripted(QUERIES.forks, { pendingNotifications: [], pinChecks: [] }),
  unscripted(QUERIES.admin, { outcome: 'done', body: '' }),
  unscripted(QUERIES.flushStream, { outcome: 'done', body: '' }),
  unscripted(QUERIES.bucketGarbage, { isRestored: false, seqs: [], keys: [], next: undefined }),
  unscripted(QUERIES.observe, { incarnation: 0, tail: 0 }),
  unscripted(QUERIES.exportGroup, { id: 0, appliedCommands: 0, origin: '' }),
]);

function deliver({ op }: Asked, reply: Reply, handler: ReplyHandler): void {
  if (reply.code === 0 && reply.body === undefined) UNSCRIPTED.get(op)?.(reply);
  handler.onReply(reply);
}

function unscripted<Result>(
  { number, result }: { readonly number: number; readonly result: { write(reply: Reply, result: Result): void } },
  empty: Result,
): readonly [number, (reply: Reply) => void] {
  return [number, (reply) => result.write(reply, empty)];
}

function copy(request: Request, shard: number | undefined): Asked {
  const { command, read } = request;
  const isCommand = request.op < 32;
  const query = isCommand ? new Query() : queryOf(request);
  const named =
    isCommand || request.op === QUERIES.read.number ? command : (query.message as Partial<StreamName> | undefined);
  return {
    op: request.op,
    group: request.group,
    shard,
    bucket: named?.bucket ?? '',
    stream: named?.stream ?? '',
    close: command.close,
    contentType: command.contentType,
    streamSeq: command.streamSeq,
    producer: command.producerId === '' ? undefined : [command.producerId, command.producerEpoch, command.producerSeq],
    recordMatch: command.recordMatch,
    ttlSeconds: command.ttlSeconds,
    expiresAtMs: command.expiresAtMs,
    attributes: command.attributes === undefined ? undefined : Buffer.from(command.attributes).toString(),
    payload: isCommand && command.payload !== undefined ? Buffer.from(command.payload) : undefined,
    ...{ mode: read.mode, value: read.value, maxBytes: read.maxBytes, maxRecords: read.maxRecords },
    ...{ readFlags: read.readFlags, query },
  };
}
