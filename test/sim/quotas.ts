/**
 * Operators bound what buckets may hold, through any node, and lift that after a while. A quota is each group's own:
 * the reference says what a group holds, and nothing is let in above the bound or kept out below it.
 */
import { errorCode, errorNumber } from '../../src/base/errors.ts';
import { decodeHead } from '../../src/stream/core/head.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import type { State } from '../../src/stream/core/state.ts';
import { type Quota, decodeQuota } from '../../src/protocol/bucket-command.ts';
import { type Command } from '../../src/protocol/command.ts';
import { REPLY_CREATED, REPLY_DUPLICATE, type Reply } from '../../src/protocol/reply.ts';
import { type Random, createRandom } from '../support/random.ts';
import { latin1 } from '../support/sorted-rows.ts';
import type { Clients } from './clients.ts';
import type { Reference } from './reference.ts';
import { type StreamName, quotaRequest } from './requests.ts';
import type { World } from './world.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const NONE: Quota = { streamsMax: -1, retainedBytesMax: -1 };
const AGAIN_MS = 250;

interface Usage {
  readonly streams: number;
  readonly bytes: number;
}

export class Quotas {
  readonly #world: World;
  readonly #all: Clients;
  readonly #random: Random;
  #lifting = 0;

  constructor(world: World, all: Clients) {
    this.#world = world;
    this.#all = all;
    this.#random = createRandom(world.options.seed * 79 + 41);
    if (!world.options.quotas) return;
    for (const reference of world.checks.references) new Watch(world, reference);
  }

  /** Bound of the bucket of a stream, in its group. */
  bound(node: number, { group, bucket }: StreamName, done: () => void): void {
    const random = this.#random;
    const quota: Quota = {
      streamsMax: random.pick([-1, 0, 2, 4]),
      retainedBytesMax: random.pick([-1, 0, 300, 3000, 20_000]),
    };
    this.#send(node, group, bucket, quota, () => {
      this.#world.queue.after(random.int(200, 2500), () => this.#lift(group, bucket));
      done();
    });
  }

  /** No bounds from now on; what was under way has come to its end. */
  liftAll(): void {
    if (!this.#world.options.quotas) return;
    const buckets = new Set(this.#all.streams.map(({ group, bucket }) => `${group} ${bucket}`));
    for (const each of buckets) {
      const [group = '', bucket = ''] = each.split(' ');
      this.#lift(Number(group), bucket);
    }
  }

  get lifted(): boolean {
    return this.#lifting === 0;
  }

  #lift(group: number, bucket: string): void {
    this.#lifting++;
    const node = this.#random.pick(this.#world.nodes).id;
    this.#send(node, group, bucket, NONE, (isDone) => {
      this.#lifting--;
      if (!isDone) this.#world.queue.after(AGAIN_MS, () => this.#lift(group, bucket));
    });
  }

  #send(node: number, group: number, bucket: string, quota: Quota, done: (isDone: boolean) => void): void {
    this.#all.send(node, quotaRequest(group, bucket, quota), false, (reply) => {
      this.#all.count(`quota ${reply === undefined ? 'no answer' : errorCode(reply.code)}`);
      done(reply?.code === 0);
    });
  }
}

/** Watches one group, by its reference. */
class Watch {
  readonly #world: World;
  readonly #reference: Reference;
  #before: Usage = { streams: 0, bytes: 0 };

  constructor(world: World, reference: Reference) {
    this.#world = world;
    this.#reference = reference;
    const { before, after } = reference;
    reference.before = (state, command) => {
      before(state, command);
      if (isBounded(command)) this.#before = held(state, command);
    };
    reference.after = (state, command, reply) => {
      after(state, command, reply);
      if (isBounded(command)) this.#judge(state, command, reply);
      else if (command.kind === COMMANDS.quota.number && reply.code === 0) this.#recount(state, command);
    };
  }

  #fail(what: string): void {
    if (!this.#world.blind) throw this.#world.failure(`quota g${this.#reference.state.group}: ${what}`);
  }

  #judge(state: State, command: Command, reply: Reply): void {
    const { streamsMax, retainedBytesMax } = bucketOf(state, command);
    const { streams, bytes } = held(state, command);
    const { kind, payloadBytes } = command;
    if (reply.code === 0 && !reply.has(REPLY_DUPLICATE)) {
      if (retainedBytesMax >= 0 && bytes > retainedBytesMax && bytes > this.#before.bytes)
        this.#fail(`${bytes} bytes are let in where ${retainedBytesMax} may be`);
      if (kind === COMMANDS.create.number && reply.has(REPLY_CREATED) && streamsMax >= 0 && streams > streamsMax)
        this.#fail(`${streams} streams are let in where ${streamsMax} may be`);
    }
    if (reply.code !== errorNumber('QUOTA_EXCEEDED') || kind === COMMANDS.appendBatch.number) return;
    const tooMany = kind === COMMANDS.create.number && streamsMax >= 0 && this.#before.streams >= streamsMax;
    const tooLarge = retainedBytesMax >= 0 && this.#before.bytes + payloadBytes > retainedBytesMax;
    if (!tooMany && !tooLarge)
      this.#fail(`kept out with ${this.#before.streams}/${this.#before.bytes} of ${streamsMax}/${retainedBytesMax}`);
  }

  /** The bucket has the quota that was asked for, and its gauges are right. */
  #recount(state: State, command: Command): void {
    const { bytes, payloadAt, payloadBytes } = command;
    const asked = decodeQuota(bytes.subarray(payloadAt, payloadAt + payloadBytes));
    const bucket = bucketOf(state, command);
    if (bucket.streamsMax !== asked?.streamsMax || bucket.retainedBytesMax !== asked.retainedBytesMax)
      this.#fail(`${bucket.streamsMax}/${bucket.retainedBytesMax} is not what was asked for`);
    // Rows as of the entry before: commands of this one show in the gauges only.
    if (state.dirtyBytes > 0) return;
    let streams = 0;
    let retained = 0;
    for (const [key, value] of this.#reference.rows()) {
      if (key[2] !== TAG.head || !latin1(key.subarray(3)).startsWith(`${bucket.text}\0`)) continue;
      const head = decodeHead(key.slice(3), 0, value);
      streams++;
      retained += head.tail - head.startOffset;
    }
    if (bucket.streamCount !== streams || bucket.retainedBytes !== retained)
      this.#fail(`${bucket.text} counts ${bucket.streamCount}/${bucket.retainedBytes}, not ${streams}/${retained}`);
  }
}

function isBounded({ kind }: Command): boolean {
  return kind === COMMANDS.append.number || kind === COMMANDS.appendBatch.number || kind === COMMANDS.create.number;
}

function bucketOf(state: State, { bytes, keyAt, keyBytes }: Command): ReturnType<State['buckets']['of']> {
  const border = bytes.subarray(keyAt, keyAt + keyBytes).indexOf(0);
  return state.buckets.of(state.tx, bytes, keyAt, border < 0 ? keyBytes : border);
}

function held(state: State, command: Command): Usage {
  const { streamCount, retainedBytes } = bucketOf(state, command);
  return { streams: streamCount, bytes: retainedBytes };
}
