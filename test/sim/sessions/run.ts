/**
 * Sessions under everything that can come between: real sessions, lanes, outboxes and subscriptions over sockets and
 * shards that are late, full, or refuse, as a seed decides. At the end all comes to rest: each request has its answer,
 * each subscription its tail, and each budget what it lent.
 */
import type { PlantedBug } from '../../../src/base/planted-bugs.ts';
import { HttpNode, HttpServerContext } from '../../../src/http/server-context.ts';
import { Frame } from '../../../src/session/frame.ts';
import { TailEvent } from '../../../src/session/outbox.ts';
import { LINGER_MS } from '../../../src/topics/topic.ts';
import { type Random, createRandom } from '../../support/random.ts';
import { plant } from '../planted/switch.ts';
import { callback } from './callbacks.ts';
import { type RunKind, SessionClient } from './client.ts';
import { testContext } from '../../http/test-context.ts';
import { SessionShards } from './shards.ts';

const STEPS = 700;
/** So many clients at a time. */
const CLIENTS: Readonly<Record<Exclude<RunKind, 'lasting'>, number>> = { usual: 3, restless: 3, slow: 1, busy: 1 };
const KINDS = ['usual', 'busy', 'restless', 'slow'] as const;
const REST_ROUNDS = 200;
const NO_TROUBLES = { full: 0, refused: 0, late: 0 };
const ALL = 1e9;
const MANY_BYTES = 256 * 1024 * 1024;

export class SessionRun {
  readonly counts: Record<string, number> = {};
  readonly #seed: number;
  readonly #random: Random;
  readonly #shards: SessionShards;
  readonly #node: HttpNode;
  readonly #server: HttpServerContext;
  readonly #frame = new Frame();
  readonly #tailEvent = new TailEvent();
  readonly #clients: SessionClient[] = [];
  readonly #streams: readonly string[];
  readonly #kind: (typeof KINDS)[number];
  #clockMs = 1_000_000;
  #step = 0;
  #names = 0;

  constructor(seed: number) {
    this.#seed = seed;
    const random = createRandom(seed);
    this.#random = random;
    this.#kind = KINDS[seed % KINDS.length] ?? 'usual';
    this.#streams = Array.from({ length: random.int(1, 6) }, (_, i) => `s${i}`);
    this.#shards = new SessionShards(random, (what) => this.#fail(what));
    const level = (): number => random.pick([0, 0.02, 0.2]);
    this.#shards.troubles = { full: level(), refused: level(), late: level() };
    const inflightBodyBytes = this.#kind === 'busy' ? MANY_BYTES : random.pick([20_000, MANY_BYTES]);
    const settings = { inflightBodyBytes, watchersPerCoreMax: random.pick([0, 20]) };
    this.#node = new HttpNode(testContext(this.#shards, { settings, monotonicMs: () => this.#clockMs }));
    this.#server = new HttpServerContext(this.#node);
  }

  /** Throws what it finds. */
  run(bug?: PlantedBug): void {
    if (bug !== undefined) plant(bug);
    try {
      for (; this.#step < STEPS; this.#step++) callback(() => this.#doSomething());
      this.#rest();
      this.#end();
    } catch (error) {
      throw error instanceof Error && error.message.startsWith('FAIL') ? error : this.#fail(String(error), error);
    } finally {
      if (bug !== undefined) plant(undefined);
    }
  }

  #doSomething(): void {
    const random = this.#random;
    this.#forget();
    if (this.#clients.length < CLIENTS[this.#kind]) this.#open();
    const client = random.pick(this.#clients);
    const key = `b/${random.pick(this.#streams)}`;
    const chance = random.next();
    if (chance < 0.3) client.send();
    else if (chance < 0.55) this.#shards.pump(random.int(1, this.#kind === 'busy' ? 50 : 10));
    else if (chance < 0.6) this.#shards.release(random.int(0, Math.max(0, this.#shards.held.length - 1)));
    else if (chance < 0.8)
      client.take(this.#kind === 'slow' ? random.int(1, 2000) : random.pick([10, 1000, 100_000, ALL]));
    else if (chance < 0.85) this.#advance(random.int(1, 100));
    else if (chance < 0.93) this.#write(key);
    else if (chance < 0.95 && this.#shards.tailOf(key) !== undefined) this.#shards.flush(key);
    else if (chance < 0.97 && random.chance(0.3)) client.leave();
    else if (chance < 0.98 && random.chance(0.2)) client.session.goAway();
  }

  #open(): void {
    const { counts } = this;
    const fail = (what: string): Error => this.#fail(what);
    const [random, shown, streams, kind] = [this.#random, this.#shards, this.#streams, this.#kind];
    const world = { random, shown, streams, kind, counts, fail };
    this.#clients.push(
      new SessionClient(world, { server: this.#server, frame: this.#frame, tailEvent: this.#tailEvent }, ++this.#names),
    );
  }

  /** Writes and removals of others. */
  #write(key: string): void {
    const random = this.#random;
    if (this.#shards.tailOf(key) === undefined) return this.#shards.make(key);
    if (random.chance(0.05)) return this.#shards.remove(key);
    if (this.#shards.isClosed(key)) return;
    const isSlow = this.#kind === 'slow';
    const large = isSlow ? 300_000 : 70_000;
    const size = random.chance(isSlow ? 0.5 : 0.05) ? large : random.int(1, 100);
    return this.#shards.add(key, Buffer.alloc(size, `o${this.#step};`));
  }

  #advance(ms: number): void {
    this.#clockMs += ms;
    this.#node.live.clock.advance();
  }

  /** Sessions that are over. */
  #forget(): void {
    for (let i = this.#clients.length - 1; i >= 0; i--)
      if (this.#clients[i]?.isOver === true) this.#clients.splice(i, 1);
  }

  /** Nothing goes wrong any more, and each client takes what comes. */
  #rest(): void {
    this.#shards.troubles = NO_TROUBLES;
    for (const client of this.#clients) callback(() => client.allowAll());
    for (let round = 0; round < REST_ROUNDS; round++) this.#goOn();
    for (const { unrest } of this.#clients) if (unrest !== undefined) throw this.#fail(unrest);
  }

  #goOn(): void {
    callback(() => this.#shards.pump());
    while (this.#shards.held.length > 0) callback(() => this.#shards.release());
    for (const client of this.#clients) callback(() => client.take(ALL));
    this.#forget();
    callback(() => this.#advance(60));
  }

  #end(): void {
    for (const client of [...this.#clients]) {
      const isLeft = this.#random.chance(0.5);
      callback(() => (isLeft ? client.leave() : client.session.goAway()));
    }
    for (let waitedMs = 0; waitedMs <= LINGER_MS + 1000; waitedMs += 60) this.#goOn();
    if (this.#clients.length > 0) throw this.#fail('a session that was told to go has not ended');
    const { budget, open, backpressure } = this.#server;
    const { live } = this.#node;
    const left = {
      ...{ budget: budget.usedBytes, open, unsent: backpressure.usedBytes },
      ...{ members: live.memberCount, topics: live.topicCount, timers: live.clock.size },
      ...{ subscriptions: this.#node.ctx.metrics.live.subscriptions, atShards: this.#shards.unanswered },
    };
    for (const [what, count] of Object.entries(left)) if (count !== 0) throw this.#fail(`${count} left of ${what}`);
  }

  #fail(what: string, cause?: unknown): Error {
    const seed = `0x${this.#seed.toString(16)}`;
    const again = `npm run sim -- --sessions --seed ${seed}`;
    return new Error(`FAIL sessions: ${what} | seed=${seed} step=${this.#step} | ${again}`, { cause });
  }
}
