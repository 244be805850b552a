/** One client: does one thing at a time, through any node, and repeats what is safe to repeat. */
import { type ErrorCode, errorCode } from '../../src/base/errors.ts';
import { REPLY_DUPLICATE, type Reply } from '../../src/protocol/reply.ts';
import type { Request } from '../../src/protocol/request.ts';
import { type Random, createRandom } from '../support/random.ts';
import type { Clients, SimStream } from './clients.ts';
import type { AppendOp } from './history.ts';
import { ClientReads } from './client-reads.ts';
import { acceptedFrames } from './frames.ts';
import { type Producer, appendRequest, batchRequest, createRequest, deleteRequest, PURGED_BUCKET } from './requests.ts';
import { jsonPayload, textPayload } from './tokens.ts';
import { Purging } from './purging.ts';
import { Trimming } from './trimming.ts';
import type { World } from './world.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

/** Nothing was done and nothing will be; anything else that is no success may still take effect. */
const NOT_DONE: ReadonlySet<ErrorCode> = new Set([
  'NO_LEADER',
  'LEADER_BUSY',
  'DISK_FULL',
  'SHARD_BUSY',
  'ROW_DAMAGED',
  'STREAM_CLOSED',
  'RECORD_PRECONDITION_FAILED',
  'EXPECTED_OFFSET_CONFLICT',
  'STREAM_NOT_FOUND',
  'CREATE_CONFLICT',
  'STOPPING',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
  'QUOTA_EXCEEDED',
]);
/** Refusals that end by themselves. */
export const FOR_A_WHILE: ReadonlySet<ErrorCode> = new Set([
  'NO_LEADER',
  'LEADER_BUSY',
  'DISK_FULL',
  'SHARD_BUSY',
  'ROW_DAMAGED',
  'STOPPING',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
  'QUOTA_EXCEEDED',
]);
const BIG_BYTES = 5000;
const ALIKE_BYTES = 30;

export class Client {
  readonly #all: Clients;
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  readonly #reads: ClientReads;
  readonly #trimming: Trimming;
  readonly #purging: Purging;
  /** One per stream. */
  readonly #producers = new Map<SimStream, Producer>();

  constructor(all: Clients, world: World, name: string, random: Random) {
    this.#all = all;
    this.#world = world;
    this.#name = name;
    this.#random = createRandom(random.int(1, 1e9));
    this.#reads = new ClientReads(all, world, this.#random);
    this.#purging = new Purging(world, all);
    this.#trimming = new Trimming(all, world, this.#random);
  }

  next(): void {
    const { thinkMs } = this.#world.options;
    this.#world.queue.after(thinkMs * (0.2 + 1.6 * this.#random.next()), () => {
      if (this.#all.working) this.#act();
    });
  }

  #node(): number {
    // Clients know most of the time which nodes are down.
    const up = this.#world.nodes.filter(({ process }) => process !== undefined);
    return up.length > 0 && this.#random.chance(0.95)
      ? this.#random.pick(up).id
      : this.#random.pick(this.#world.nodes).id;
  }

  #act(): void {
    const random = this.#random;
    const { streams } = this.#all;
    const { trims = false, churning = 0 } = this.#world.cold?.options ?? {};
    const stream = random.pick(
      churning > 0 && random.chance(churning) ? streams.filter(({ use }) => use === 'churn') : streams,
    );
    if (!stream.created || (stream.use !== 'plain' && stream.use !== 'closable' && random.chance(0.2))) {
      this.#create(stream);
    } else if (stream.use !== 'short' && random.chance(0.03)) this.#watch(stream);
    else if (random.chance(0.3)) this.#reads.through(this.#node(), stream, () => this.next());
    else if (stream.use === 'plain' && trims && random.chance(0.05))
      this.#trimming.trim(stream, this.#node(), () => this.next());
    else if (stream.bucket === PURGED_BUCKET && random.chance(0.05))
      this.#purging.purge(this.#node(), stream.group, stream.bucket, () => this.next());
    else if (this.#world.options.quotas && random.chance(0.03))
      this.#all.quotas.bound(this.#node(), stream, () => this.next());
    else if (stream.use === 'closable' && random.chance(0.02)) this.#close(stream);
    else if (stream.use === 'churn' && random.chance(this.#world.cold === undefined ? 0.15 : 0.3)) this.#delete(stream);
    else this.#append(stream);
  }

  #watch(stream: SimStream): void {
    const process = this.#world.nodes[this.#node() - 1]?.process;
    if (process !== undefined) this.#all.watching.toggle(stream, process);
    this.next();
  }

  #create(stream: SimStream): void {
    const request = createRequest(stream, stream.use === 'short' ? 1 : -1);
    this.#all.send(this.#node(), request, false, (reply) => {
      this.#count('create', reply);
      if (reply?.code === 0) stream.created = true;
      this.next();
    });
  }

  #delete(stream: SimStream): void {
    this.#all.send(this.#node(), deleteRequest(stream), false, (reply) => {
      this.#count('delete', reply);
      this.next();
    });
  }

  #close(stream: SimStream): void {
    this.#all.send(this.#node(), closing(stream), false, (reply) => {
      this.#count('close', reply);
      if (reply?.code === 0) stream.history.closed(stream.json ? reply.recordNext : reply.nextOffset);
      this.next();
    });
  }

  #append(stream: SimStream): void {
    const random = this.#random;
    const { history, json } = stream;
    const inBatch = this.#world.cold !== undefined && stream.use === 'plain' && random.chance(0.15);
    const parts = Array.from({ length: inBatch ? random.int(1, 4) : 1 }, () => this.#payload(stream));
    const ops = parts.map(({ op }) => op);
    const producer =
      stream.use !== 'churn' && stream.use !== 'short' && random.chance(0.5) ? this.#producer(stream) : undefined;
    const payloads = parts.map(({ payload }) => payload);
    const request = inBatch
      ? batchRequest(stream, payloads, producer)
      : appendRequest(stream, payloads[0] as Uint8Array, producer);
    // Sometimes right, sometimes a little wrong.
    if (json && producer === undefined && !inBatch && random.chance(0.4)) {
      request.command.recordMatch = Math.max(0, history.tail - (random.chance(0.2) ? 1 : 0));
    }
    if (!json && this.#world.options.compares && random.chance(0.5)) {
      request.command.expectedOffset = Math.max(0, history.tail - (random.chance(0.2) ? 1 : 0));
    }
    this.#try(stream, ops, request, producer, 0);
  }

  #payload({ use, json, history }: SimStream): { readonly op: AppendOp; readonly payload: Uint8Array } {
    const random = this.#random;
    const token = this.#all.newToken(this.#name);
    // All appends of streams that come and go are equally long: one life's positions make sense in the next one.
    const alike = this.#world.cold !== undefined && use === 'churn';
    const usual = random.chance(this.#world.options.large) ? BIG_BYTES : random.int(0, 60);
    const filler = alike ? ALIKE_BYTES - token.length : usual;
    const records = alike ? 1 : random.pick([1, 1, 2, 3]);
    const payload = json ? jsonPayload(token, records, filler) : textPayload(token, filler);
    return { op: history.begin(token, json ? records : payload.length, filler), payload };
  }

  #try(
    stream: SimStream,
    ops: readonly AppendOp[],
    request: Request,
    producer: Producer | undefined,
    tries: number,
  ): void {
    const node = this.#node();
    this.#all.send(node, request, this.#random.chance(0.1), (reply) => {
      this.#count(producer === undefined ? 'append' : 'produce', reply);
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      if (code === 'OK') this.#appended(stream, ops, request, reply as Reply, node);
      else if (producer !== undefined && this.#repeatable(stream, code) && this.#all.working) {
        // With a producer it is safe to ask again until there is an answer.
        this.#world.queue.after(20 + 200 * this.#random.next(), () =>
          this.#try(stream, ops, request, producer, tries + 1),
        );
        return;
      } else if (NOT_DONE.has(code)) {
        this.#checkRefusal(stream, request, reply as Reply, code);
        // An earlier one of several attempts may have been carried out.
        for (const op of ops) {
          if (tries === 0) stream.history.refused(op);
          else op.outcome = 'unknown';
        }
      } else if (code === 'OUTCOME_UNKNOWN') for (const op of ops) op.outcome = 'unknown';
      else if (stream.use === 'plain' || stream.use === 'closable') {
        throw this.#world.failure(`${ops[0]?.token} in ${stream.name} is answered with ${code}`);
      }
      if (producer !== undefined) this.#afterProducer(ops[0] as AppendOp, producer);
      this.next();
    });
  }

  #repeatable(stream: SimStream, code: ErrorCode): boolean {
    if (code === 'OUTCOME_UNKNOWN') return true;
    return stream.use === 'plain' && FOR_A_WHILE.has(code);
  }

  #appended(stream: SimStream, ops: readonly AppendOp[], request: Request, reply: Reply, node: number): void {
    if (request.op === COMMANDS.appendBatch.number) return this.#batched(stream, ops, request, reply, node);
    const [op] = ops as readonly [AppendOp];
    if (stream.use === 'churn' || stream.use === 'short') {
      op.outcome = 'ok';
      op.start = stream.json ? reply.recordStart : reply.startOffset;
      return undefined;
    }
    const next = stream.json ? reply.recordNext : reply.nextOffset;
    // The receipt of a duplicate says where it ended.
    const start = reply.has(REPLY_DUPLICATE) ? next - op.size : stream.json ? reply.recordStart : reply.startOffset;
    const { recordMatch } = request.command;
    if (recordMatch >= 0 && start !== recordMatch) {
      throw this.#world.failure(`linearizability: ${op.token} in ${stream.name} at ${start} matched ${recordMatch}`);
    }
    this.#checkExpected(stream, request, start);
    return stream.history.acknowledged(op, start, next, node);
  }

  #batched(stream: SimStream, ops: readonly AppendOp[], request: Request, reply: Reply, node: number): void {
    const { json, history } = stream;
    const { producerId, payload } = request.command;
    if (producerId === '') {
      const accepted = new Map(acceptedFrames(payload as Uint8Array, reply).map((frame) => [frame.i, frame]));
      ops.forEach((op, i) => {
        const frame = accepted.get(i);
        if (frame === undefined) history.refused(op);
        else history.acknowledged(op, frame.start, frame.next, node);
      });
      return;
    }
    // All of it or nothing, one behind the other.
    let start = (json ? reply.recordNext : reply.nextOffset) - ops.reduce((sum, { size }) => sum + size, 0);
    this.#checkExpected(stream, request, start);
    for (const op of ops) {
      history.acknowledged(op, start, start + op.size, node);
      start += op.size;
    }
  }

  #checkExpected({ name }: SimStream, request: Request, start: number): void {
    const { expectedOffset } = request.command;
    if (expectedOffset < 0 || start === expectedOffset) return;
    throw this.#world.failure(`linearizability: an append to ${name} that expects ${expectedOffset} is at ${start}`);
  }

  #checkRefusal(stream: SimStream, request: Request, reply: Reply, code: ErrorCode): void {
    const { recordMatch } = request.command;
    if (code === 'RECORD_PRECONDITION_FAILED' && reply.recordNext === recordMatch) {
      throw this.#world.failure(`a match of ${recordMatch} in ${stream.name} fails although it is right`);
    }
    if (code === 'EXPECTED_OFFSET_CONFLICT' && reply.nextOffset === request.command.expectedOffset) {
      throw this.#world.failure(`${reply.nextOffset} is the tail of ${stream.name}, and is not expected`);
    }
    if (code === 'STREAM_NOT_FOUND' && stream.use !== 'churn' && stream.use !== 'short') {
      throw this.#world.failure(`lost: ${stream.name} was created, and a write does not find it`);
    }
    if (code === 'STREAM_CLOSED') stream.history.closed(stream.json ? reply.recordNext : reply.nextOffset);
  }

  #producer(stream: SimStream): Producer {
    let producer = this.#producers.get(stream);
    if (producer === undefined) {
      const id = `p${this.#name}`;
      const before = stream.inherited?.get(id);
      producer = before === undefined ? { id, epoch: 0, seq: 0 } : { id, epoch: before.epoch, seq: before.seq + 1 };
      this.#producers.set(stream, producer);
    }
    return producer;
  }

  #afterProducer(op: AppendOp, producer: Producer): void {
    if (op.outcome === 'ok') producer.seq++;
    else if (op.outcome === 'unknown') {
      // Given up; a new epoch makes sure that it does not come late.
      producer.epoch++;
      producer.seq = 0;
    }
  }

  /** Asks a node that has just started for what it showed before. */
  look(node: number): void {
    const streams = this.#all.streams.filter(({ created, use }) => created && use === 'plain');
    if (streams.length > 0) this.#reads.through(node, this.#random.pick(streams), () => undefined);
  }

  #count(what: string, reply: Reply | undefined): void {
    this.#all.count(`${what} ${reply === undefined ? 'no answer' : errorCode(reply.code)}`);
  }
}

function closing(stream: SimStream): Request {
  const request = appendRequest(stream, undefined);
  request.command.close = true;
  return request;
}
