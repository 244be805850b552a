/**
 * Sessions on the nodes of a simulation: their clients ask through any node, which may stop or die, while leaderships
 * move. All see one content of each stream, a session's acknowledged appends in their order, and at the end all of it.
 */
import { INLINE_PAYLOAD_BYTES_MAX } from '../../../src/base/limits.ts';
import { fnv1a64mod } from '../../../src/base/hash.ts';
import { HttpNode, HttpServerContext } from '../../../src/http/server-context.ts';
import type { ReplyHandler, ShardGateway, TailHandler } from '../../../src/ports.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';
import { type Request, requestFor } from '../../../src/protocol/request.ts';
import { Frame } from '../../../src/session/frame.ts';
import { TailEvent } from '../../../src/session/outbox.ts';
import { type Random, createRandom } from '../../support/random.ts';
import type { Until } from '../liveness.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import { callback } from './callbacks.ts';
import { SessionClient, type Shown, type Streams } from './client.ts';
import { testContext } from '../../http/test-context.ts';

const STEP_MS = 15;
const CLIENTS = 4;
const STREAMS = ['s0', 's1', 's2'];
const BOUNDS = { inflightBodyBytes: 1024 * 1024, watchersPerCoreMax: 0 };
/** From a shard to the main thread. */
const HOP_MS = 0.2;
/** Other live readers of the simulation have smaller ones. */
const FIRST_TOPIC = 1_000_000;
const ALL = 1e9;

/** The main thread of a node, as far as sessions need it. It ends with its process. */
class MainThread implements ShardGateway {
  readonly groupCount: number;
  readonly shardCount = 1;
  readonly process: SimProcess;
  readonly node: HttpNode;
  readonly server: HttpServerContext;
  readonly frame = new Frame();
  readonly tailEvent = new TailEvent();
  readonly #world: World;
  readonly #topics = new Map<number, TailHandler>();
  #lastTopic = FIRST_TOPIC;

  constructor(world: World, process: SimProcess) {
    this.#world = world;
    this.process = process;
    this.groupCount = world.options.served.length;
    this.node = new HttpNode(testContext(this, { settings: BOUNDS, monotonicMs: () => process.runtime.monotonicMs() }));
    this.server = new HttpServerContext(this.node);
    const others = process.onTail;
    process.onTail = (reply) => {
      others?.(reply);
      if (reply.id > FIRST_TOPIC) this.#hop(() => this.#topics.get(reply.id)?.onTail(reply));
    };
  }

  groupOf(bucket: string, stream: string): number {
    return fnv1a64mod(bucket, stream, this.groupCount);
  }

  send(request: Request, handler: ReplyHandler): boolean {
    this.#ask(request, (reply) => this.#hop(() => handler.onReply(reply)));
    return true;
  }

  openTopic(handler: TailHandler): number {
    this.#topics.set(++this.#lastTopic, handler);
    return this.#lastTopic;
  }

  closeTopic(topic: number, group: number): void {
    if (!this.#topics.delete(topic)) return;
    this.process.request(requestFor(QUERIES.unwatch, group, { topic }), false, () => undefined);
  }

  #ask(request: Request, onReply: Parameters<SimProcess['requestInOrder']>[1]): void {
    const size = request.command.payload?.length ?? 0;
    if (size > INLINE_PAYLOAD_BYTES_MAX) throw this.#world.failure(`a session sends ${size} bytes at once`);
    this.process.requestInOrder(request, onReply);
  }

  /** Answers and events keep their order. */
  #hop(arrive: () => void): void {
    this.#world.queue.at(this.process.nowMs + HOP_MS, () => {
      if (!this.process.dead) callback(arrive);
    });
  }
}

/** The bytes of a stream, as far as any client was shown them. */
class Learned implements Shown {
  #bytes = Buffer.alloc(1024);
  #isKnown = Buffer.alloc(1024);
  end = 0;

  /** False: another was shown something else. */
  has(bytes: Uint8Array, end: number): boolean {
    const start = end - bytes.length;
    if (start < 0) return false;
    if (end > this.#bytes.length) {
      this.#bytes = Buffer.concat([this.#bytes, Buffer.alloc(end)]);
      this.#isKnown = Buffer.concat([this.#isKnown, Buffer.alloc(end)]);
    }
    for (const [i, byte] of bytes.entries()) {
      if (this.#isKnown[start + i] === 1 && this.#bytes[start + i] !== byte) return false;
      this.#bytes[start + i] = byte;
      this.#isKnown[start + i] = 1;
    }
    this.end = Math.max(this.end, end);
    return true;
  }
}

export class SessionTraffic implements Streams {
  readonly counts: Record<string, number> = {};
  readonly #world: World;
  readonly #random: Random;
  readonly #threads = new Map<SimProcess, MainThread>();
  readonly #clients: { readonly client: SessionClient; readonly thread: MainThread }[] = [];
  readonly #learned = new Map<string, Learned>();
  #names = 0;
  #isResting = false;

  constructor(world: World) {
    this.#world = world;
    this.#random = createRandom(world.options.seed * 23 + 5);
  }

  start(): void {
    this.#world.queue.after(STEP_MS, () => this.#step());
  }

  contentsOf(key: string): readonly Shown[] {
    return [this.#contentOf(key)];
  }

  tailOf(key: string): number {
    return this.#contentOf(key).end;
  }

  /** No client asks for more, and all that they asked for comes. */
  finish(until: Until): void {
    this.#isResting = true;
    for (const { client } of this.#clients) callback(() => client.allowAll());
    const unrest = (): string | undefined => this.#clients.map(({ client }) => client.unrest).find(Boolean);
    until(
      () => unrest() === undefined,
      () => unrest() ?? 'sessions rest',
    );
    for (const { client } of this.#clients) callback(() => client.leave());
    const left = (): number[] => [...this.#threads.values()].map(leftOf);
    until(
      () => left().every((count) => count === 0),
      () => `sessions have ended and left ${left().join(' ')}`,
    );
  }

  #contentOf(key: string): Learned {
    const known = this.#learned.get(key) ?? new Learned();
    this.#learned.set(key, known);
    return known;
  }

  #step(): void {
    this.#world.queue.after(STEP_MS, () => this.#step());
    for (const [process, { node }] of this.#threads) {
      if (process.dead) this.#threads.delete(process);
      else callback(() => node.live.clock.advance());
    }
    this.#forget();
    if (this.#isResting) {
      for (const { client } of this.#clients) callback(() => client.take(ALL));
      return;
    }
    if (this.#clients.length < CLIENTS) callback(() => this.#open());
    if (this.#clients.length > 0) callback(() => this.#act(this.#random.pick(this.#clients).client));
  }

  /** Sessions of a process that is dead break off. */
  #forget(): void {
    for (let i = this.#clients.length - 1; i >= 0; i--) {
      const { client, thread } = this.#clients[i] ?? {};
      if (thread?.process.dead === true) callback(() => client?.leave());
      if (client?.isOver === true) this.#clients.splice(i, 1);
    }
  }

  #act(client: SessionClient): void {
    const chance = this.#random.next();
    if (chance < 0.4) client.send();
    else if (chance < 0.9) client.take(this.#random.pick([100, 10_000, ALL]));
    else if (chance < 0.91) client.leave();
    else if (chance < 0.915) client.session.goAway();
  }

  #open(): void {
    const running = this.#world.nodes.flatMap(({ process }) => (process === undefined ? [] : [process]));
    if (running.length === 0) return;
    const process = this.#random.pick(running);
    const thread = this.#threads.get(process) ?? new MainThread(this.#world, process);
    this.#threads.set(process, thread);
    const client = new SessionClient(
      {
        ...{ shown: this, random: this.#random, streams: STREAMS, kind: 'lasting', counts: this.counts },
        fail: (what) => this.#world.failure(`sessions on n${process.id}: ${what}`),
      },
      thread,
      ++this.#names,
    );
    this.#clients.push({ client, thread });
  }
}

/** All that its sessions took and did not give back. */
function leftOf({ server, node }: MainThread): number {
  const { budget, open, backpressure } = server;
  return budget.usedBytes + open + backpressure.usedBytes + node.live.memberCount + node.live.topicCount;
}
