/** Clients: each does one thing at a time, through any node, and repeats what is safe to repeat. */
import { type ErrorCode, errorCode } from '../../src/base/errors.ts';
import { REPLY_CLOSED, REPLY_DUPLICATE, REPLY_UP_TO_DATE, type Reply } from '../../src/wire/reply.ts';
import type { Request } from '../../src/wire/request.ts';
import { type Random, createRandom } from '../support/random.ts';
import { type AppendOp, StreamHistory } from './history.ts';
import {
  type Producer,
  type StreamName,
  appendRequest,
  createRequest,
  deleteRequest,
  readRequest,
} from './requests.ts';
import { jsonPayload, textPayload } from './tokens.ts';
import { Watching } from './watching.ts';
import type { World } from './world.ts';

/** What a stream is used for. churn: created and deleted; short: expires. */
type Use = 'plain' | 'closable' | 'churn' | 'short';

export interface SimStream extends StreamName {
  readonly use: Use;
  readonly history: StreamHistory;
  created: boolean;
}

/** Nothing was done and nothing will be; anything else that is no success may still take effect. */
const NOT_DONE: ReadonlySet<ErrorCode> = new Set([
  'NO_LEADER',
  'DISK_FULL',
  'STREAM_CLOSED',
  'RECORD_PRECONDITION_FAILED',
  'STREAM_NOT_FOUND',
  'CREATE_CONFLICT',
  'STOPPING',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
]);
/** Refusals that end by themselves. */
export const FOR_A_WHILE: ReadonlySet<ErrorCode> = new Set([
  'NO_LEADER',
  'DISK_FULL',
  'STOPPING',
  'BACKPRESSURE',
  'UNCOMMITTED_FULL',
]);
/** A client that has no answer goes on after this long. */
const PATIENCE_MS = 12_000;
/** A node that says sooner than this that something is not there has asked the leader; its clock may be a little fast. */
const ASKS_LEADER_MS = 900;
const BIG_BYTES = 5000;

/** A read, and what clients knew of the stream when it began. */
interface Asked {
  readonly node: number;
  readonly from: number;
  /** What the node must show. */
  readonly floor: number;
  /** Greatest tail that any client had been told. */
  readonly told: number;
  readonly created: boolean;
  readonly atMs: number;
}

export class Clients {
  readonly streams: readonly SimStream[];
  readonly counts = new Map<string, number>();
  readonly watching: Watching;
  readonly #world: World;
  readonly #random: Random;
  readonly #scout: Client;
  #tokens = 0;
  #working = true;
  #busy = 0;

  constructor(world: World) {
    this.#world = world;
    this.#random = createRandom(world.options.seed * 7 + 3);
    const fail = (what: string): never => {
      throw world.failure(what);
    };
    const streams: SimStream[] = [];
    const add = (group: number, use: Use, json: boolean): void => {
      const name = `${use}${json ? 'j' : 't'}${group}`;
      streams.push({ group, name, json, use, created: false, history: new StreamHistory(name, json, fail) });
    };
    for (const group of world.options.groups) {
      add(group, 'plain', false);
      add(group, 'plain', true);
      add(group, 'closable', this.#random.chance(0.5));
      add(group, 'churn', this.#random.chance(0.5));
      if (this.#random.chance(0.5)) add(group, 'short', false);
    }
    this.streams = streams;
    this.watching = new Watching(world);
    this.#scout = new Client(this, world, 'r', this.#random);
  }

  start(): void {
    for (let i = 0; i < this.#world.options.clients; i++) new Client(this, this.#world, `c${i}`, this.#random).next();
  }

  /** A node has started again. */
  started(node: number): void {
    if (this.#working) this.#scout.look(node);
  }

  /** No new requests; those under way come to their end. */
  stop(): void {
    this.#working = false;
  }

  get working(): boolean {
    return this.#working;
  }

  get busy(): number {
    return this.#busy;
  }

  newToken(client: string): string {
    return `${client}.${++this.#tokens}`;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** Sends through a node; `onAnswer` gets the reply, once, or undefined. */
  send(node: number, request: Request, inLane: boolean, onAnswer: (reply: Reply | undefined) => void): void {
    const process = this.#world.nodes[node - 1]?.process;
    this.#busy++;
    let open = true;
    const answer = (reply: Reply | undefined): void => {
      if (!open) return;
      open = false;
      this.#busy--;
      onAnswer(reply);
    };
    if (process === undefined) {
      this.#world.queue.after(10, () => answer(undefined));
      return;
    }
    process.request(request, inLane, answer);
    this.#world.queue.after(PATIENCE_MS, () => answer(undefined));
  }
}

class Client {
  readonly #all: Clients;
  readonly #world: World;
  readonly #random: Random;
  readonly #name: string;
  /** One per stream. */
  readonly #producers = new Map<SimStream, Producer>();

  constructor(all: Clients, world: World, name: string, random: Random) {
    this.#all = all;
    this.#world = world;
    this.#name = name;
    this.#random = createRandom(random.int(1, 1e9));
  }

  next(): void {
    const { thinkMs } = this.#world.options;
    this.#world.queue.after(thinkMs * (0.2 + 1.6 * this.#random.next()), () => {
      if (this.#all.working) this.#act();
    });
  }

  #node(): number {
    // Clients know who is down most of the time.
    const up = this.#world.nodes.filter(({ process }) => process !== undefined);
    return up.length > 0 && this.#random.chance(0.95)
      ? this.#random.pick(up).id
      : this.#random.pick(this.#world.nodes).id;
  }

  #act(): void {
    const random = this.#random;
    const stream = random.pick(this.#all.streams);
    if (!stream.created || (stream.use !== 'plain' && stream.use !== 'closable' && random.chance(0.2))) {
      this.#create(stream);
    } else if (stream.use !== 'short' && random.chance(0.03)) this.#watch(stream);
    else if (random.chance(0.3)) this.#read(stream);
    else if (stream.use === 'closable' && random.chance(0.02)) this.#close(stream);
    else if (stream.use === 'churn' && random.chance(0.15)) this.#delete(stream);
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
    const token = this.#all.newToken(this.#name);
    const filler = random.chance(0.03) ? BIG_BYTES : random.int(0, 60);
    const records = random.pick([1, 1, 2, 3]);
    const payload = json ? jsonPayload(token, records, filler) : textPayload(token, filler);
    const op = history.begin(token, json ? records : payload.length, filler);
    const producer =
      stream.use !== 'churn' && stream.use !== 'short' && random.chance(0.5) ? this.#producer(stream) : undefined;
    const request = appendRequest(stream, payload, producer);
    // Sometimes right, sometimes a little wrong.
    if (json && producer === undefined && random.chance(0.4)) {
      request.command.recordMatch = Math.max(0, history.tail - (random.chance(0.2) ? 1 : 0));
    }
    this.#try(stream, op, request, producer, 0);
  }

  #try(stream: SimStream, op: AppendOp, request: Request, producer: Producer | undefined, tries: number): void {
    const node = this.#node();
    this.#all.send(node, request, this.#random.chance(0.1), (reply) => {
      this.#count(producer === undefined ? 'append' : 'produce', reply);
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      if (code === 'OK') this.#appended(stream, op, request, reply as Reply, node);
      else if (producer !== undefined && this.#repeatable(stream, code) && this.#all.working) {
        // With a producer it is safe to ask again until there is an answer.
        this.#world.queue.after(20 + 200 * this.#random.next(), () =>
          this.#try(stream, op, request, producer, tries + 1),
        );
        return;
      } else if (NOT_DONE.has(code)) {
        this.#checkRefusal(stream, request, reply as Reply, code);
        // Of several attempts an earlier one may have been carried out.
        if (tries === 0) stream.history.refused(op);
        else op.outcome = 'unknown';
      } else if (code === 'OUTCOME_UNKNOWN') op.outcome = 'unknown';
      else if (stream.use === 'plain' || stream.use === 'closable') {
        throw this.#world.failure(`${op.token} in ${stream.name} is answered with ${code}`);
      }
      if (producer !== undefined) this.#afterProducer(op, producer);
      this.next();
    });
  }

  #repeatable(stream: SimStream, code: ErrorCode): boolean {
    if (code === 'OUTCOME_UNKNOWN') return true;
    return stream.use === 'plain' && FOR_A_WHILE.has(code);
  }

  #appended(stream: SimStream, op: AppendOp, request: Request, reply: Reply, node: number): void {
    if (stream.use === 'churn' || stream.use === 'short') {
      op.outcome = 'ok';
      op.start = stream.json ? reply.recordStart : reply.startOffset;
      return;
    }
    const next = stream.json ? reply.recordNext : reply.nextOffset;
    // The receipt of a duplicate says where it ended.
    const start = reply.has(REPLY_DUPLICATE) ? next - op.size : stream.json ? reply.recordStart : reply.startOffset;
    const { recordMatch } = request.command;
    if (recordMatch >= 0 && start !== recordMatch) {
      throw this.#world.failure(`linearizability: ${op.token} in ${stream.name} at ${start} matched ${recordMatch}`);
    }
    stream.history.acknowledged(op, start, next, node);
  }

  #checkRefusal(stream: SimStream, request: Request, reply: Reply, code: ErrorCode): void {
    const { recordMatch } = request.command;
    if (code === 'RECORD_PRECONDITION_FAILED' && reply.recordNext === recordMatch) {
      throw this.#world.failure(`a match of ${recordMatch} in ${stream.name} fails although it is right`);
    }
    if (code === 'STREAM_NOT_FOUND' && stream.use !== 'churn' && stream.use !== 'short') {
      throw this.#world.failure(`lost: ${stream.name} was created, and a write does not find it`);
    }
    if (code === 'STREAM_CLOSED') stream.history.closed(stream.json ? reply.recordNext : reply.nextOffset);
  }

  #producer(stream: SimStream): Producer {
    let producer = this.#producers.get(stream);
    if (producer === undefined) {
      producer = { id: `p${this.#name}`, epoch: 0, seq: 0 };
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
    if (streams.length > 0) this.#readThrough(node, this.#random.pick(streams), () => undefined);
  }

  #read(stream: SimStream): void {
    this.#readThrough(this.#node(), stream, () => this.next());
  }

  #readThrough(node: number, stream: SimStream, then: () => void): void {
    const { history, json, use } = stream;
    const known = json ? history.records.length : history.text.length;
    const from = this.#random.chance(0.5) ? 0 : this.#random.int(0, known);
    const asked: Asked = {
      node,
      from,
      floor: history.floorOf(node),
      told: history.tail,
      created: stream.created,
      atMs: this.#world.queue.nowMs,
    };
    const request = readRequest(stream, use === 'plain' || use === 'closable' ? from : 0);
    this.#all.send(node, request, false, (reply) => {
      this.#count('read', reply);
      if (reply !== undefined && (use === 'plain' || use === 'closable')) this.#wasRead(stream, asked, reply);
      then();
    });
  }

  #wasRead({ history, json, name }: SimStream, asked: Asked, reply: Reply): void {
    const { node, from, floor } = asked;
    const code = errorCode(reply.code);
    const tail = json ? reply.recordNext : reply.nextOffset;
    if (code === 'CATCHING_UP' || code === 'STOPPING' || this.#isColdTrouble(code)) return;
    if (code === 'STREAM_NOT_FOUND' || code === 'OFFSET_OUT_OF_RANGE' || code === 'RECORD_OUT_OF_RANGE') {
      // A follower may be behind, but not behind itself.
      if (floor > from || (code === 'STREAM_NOT_FOUND' && floor > 0)) {
        throw this.#world.failure(`stale read: n${node} answers ${code} for ${from} in ${name} after ${floor}`);
      }
      // Unless it could not ask the leader, which takes it a while.
      const known = code === 'STREAM_NOT_FOUND' ? asked.created : asked.told >= from;
      if (known && this.#world.queue.nowMs - asked.atMs < ASKS_LEADER_MS) {
        throw this.#world.failure(
          `missing: n${node} answers ${code} for ${from} in ${name} when ${asked.told} was known`,
        );
      }
      return;
    }
    if (code !== 'OK') throw this.#world.failure(`a read of ${name} from ${from} is answered with ${code}`);
    const body = reply.body ?? new Uint8Array(0);
    if (json) history.readRecords(from, body, tail);
    else history.readText(from, body, tail);
    if (!reply.has(REPLY_UP_TO_DATE)) return;
    history.tailSeen(tail, node, floor);
    if (reply.has(REPLY_CLOSED)) history.closed(tail);
  }

  /** A store that fails, or one that is meant to alter what it holds. */
  #isColdTrouble(code: ErrorCode): boolean {
    const { cold } = this.#world;
    if (cold === undefined) return false;
    return code === 'COLD_UNAVAILABLE' || (code === 'COLD_OBJECT_BAD' && cold.options.altered > 0);
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
