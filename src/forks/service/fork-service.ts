/**
 * Forks of one node: creates those that its clients request, notifies sources when a fork is gone, and does the same
 * for work that other nodes left undone in the groups that this node leads.
 */
import { ownCopy } from '../../base/bytes.ts';
import {
  FORKS_IN_MAKING_MAX,
  FORKS_UNDOING_MAX,
  FORK_NOTIFICATIONS_MAX,
  FORK_PIN_CHECKS_MAX,
} from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { QuotaGate } from '../../gateway/quota-gate.ts';
import type { ForkRequest, Forks, ReplyHandler, ShardGateway } from '../../ports.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { ForkName } from '../../protocol/fork-command.ts';
import type { PendingNotification, PinCheck, PinPlace } from '../../protocol/queries/summaries.ts';
import { ALL_GROUPS, type Asking, type Request, requestFor } from '../../protocol/request.ts';
import { ForkMaker } from './maker.ts';
import { ForkPacer } from './pacer.ts';
import { type ForkPort, step } from './steps.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';
import { FORK_GONE, type ForkGone } from '../../protocol/fork-gone.ts';

/** Interval of checks for work left undone: expired forks, and forks of dead nodes. */
const LOOK_MS = 1000;
/** Pins are verified once in this many checks: an unneeded pin is rare, and each verification is a command. */
const ASK_EVERY = 15;
/** Time to wait for a majority to undo a fork of unknown outcome; after another kind of refusal it starts again. */
const UNDO_MS = 10 * 60_000;
const UNDO_AGAIN_MS = 500;
/** Keeps notifications that wait for a group without a leader from blocking the others. */
const NOTIFICATIONS_UNDER_WAY_MAX = 4 * FORK_NOTIFICATIONS_MAX;

const START: PinPlace = { group: 0, incarnation: 0, token: 0 };

export class ForkService implements Forks {
  readonly counters = { made: 0, failed: 0, told: 0, lost: 0 };
  readonly #port: ForkPort;
  readonly #places: PinPlace[];
  readonly #pacer: ForkPacer;
  #making = 0;
  #undoing = 0;
  #looks = 0;
  /** Shards that have not answered yet, and running pin checks. */
  #busy = 0;
  /** Tokens of notifications in flight. One without a leader at its source is retried; others do not wait for it. */
  readonly #underWay = new Set<number>();
  #stopped = false;

  constructor(port: ForkPort) {
    this.#port = port;
    this.#pacer = new ForkPacer(port.runtime);
    this.#places = Array.from({ length: port.gateway.shardCount }, () => START);
  }

  start(): void {
    this.#port.runtime.setTimer(LOOK_MS, () => this.#look());
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Forks under construction. */
  get making(): number {
    return this.#making;
  }

  /** Bytes that these inherit. */
  get bytesInMaking(): number {
    return this.#pacer.bytes;
  }

  /** Forks of unknown outcome that are being undone. */
  get undoing(): number {
    return this.#undoing;
  }

  create({ command }: Request, fork: ForkRequest, handler: ReplyHandler): boolean {
    if (this.#making >= FORKS_IN_MAKING_MAX) return false;
    this.#making++;
    const { payload, attributes } = command;
    const asked = { ...command, payload: payload && ownCopy(payload), attributes: attributes && ownCopy(attributes) };
    const maker = new ForkMaker({ port: this.#port, pacer: this.#pacer }, { ...asked }, fork, (reply, rest) => {
      this.#making--;
      if (reply.code === 0) this.counters.made++;
      else this.counters.failed++;
      handler.onReply(reply);
      if (rest === 'unknown') this.#undoLater(maker);
      else if (rest !== undefined) this.#tellIf(maker.group, goneOf(rest), () => undefined);
    });
    maker.start();
    return true;
  }

  /**
   * A step may have taken effect without a majority to confirm it, and the name would stay taken until the fork ends by
   * its silence. So it is undone as soon as there is a majority again. What exceeds the bound, or takes too long, is
   * left to that silence.
   */
  #undoLater(maker: ForkMaker): void {
    if (this.#undoing >= FORKS_UNDOING_MAX) return;
    this.#undoing++;
    const untilMs = this.#port.runtime.monotonicMs() + UNDO_MS;
    const attempt = (): void =>
      step(this.#port, maker.abort(), (reply) => {
        const isOver = reply.code === 0 || this.#stopped || this.#port.runtime.monotonicMs() >= untilMs;
        if (!isOver) return void this.#port.runtime.setTimer(UNDO_AGAIN_MS, attempt);
        this.#undoing--;
        return this.#tellIf(maker.group, goneOf(reply), () => undefined);
      });
    attempt();
  }

  tell(group: number, { token, source }: ForkGone, done: () => void): void {
    this.#unpin({ group, token, source }, done);
  }

  #tellIf(group: number, gone: ForkGone | undefined, done: () => void): void {
    if (gone === undefined) done();
    else this.tell(group, gone, done);
  }

  #unpin({ group, token, source }: PendingNotification & { readonly group: number }, done: () => void): void {
    const sourceGroup = this.#groupOf(source);
    step(this.#port, this.#request(COMMANDS.forkUnpin, sourceGroup, source, token), (reply) => {
      if (reply.code !== 0) return done();
      this.counters.told++;
      const next = goneOf(reply);
      // Any name works: the token alone identifies the row.
      return step(this.#port, this.#request(COMMANDS.forkUnpinned, group, source, token), () =>
        this.#tellIf(sourceGroup, next, done),
      );
    });
  }

  #request(operation: Asking<ForkName>, group: number, key: string, forkToken: number): Request {
    const [bucket, stream] = split(key);
    return requestFor(operation, group, { bucket, stream, forkToken });
  }

  #groupOf(key: string): number {
    const [bucket, stream] = split(key);
    return this.#port.gateway.groupOf(bucket, stream);
  }

  #look(): void {
    if (this.#stopped) return;
    this.#port.runtime.setTimer(LOOK_MS, () => this.#look());
    // Earlier findings are still in progress.
    if (this.#busy > 0) return;
    const asks = ++this.#looks % ASK_EVERY === 0;
    this.#places.forEach((place, shard) => {
      const request = requestFor(QUERIES.forks, ALL_GROUPS, {
        fromToken: this.#port.newToken(),
        notificationsMax: FORK_NOTIFICATIONS_MAX,
        pinChecksMax: asks ? FORK_PIN_CHECKS_MAX : 0,
        place,
      });
      this.#busy++;
      const sent = this.#port.gateway.send(request, { onReply: (reply) => this.#found(shard, asks, reply) }, shard);
      if (!sent) this.#busy--;
    });
  }

  #found(shard: number, asked: boolean, reply: Reply): void {
    this.#busy--;
    if (reply.code !== 0 || this.#stopped) return;
    const { pendingNotifications, pinChecks } = QUERIES.forks.result.read(reply);
    if (asked) {
      const last = pinChecks[pinChecks.length - 1];
      this.#places[shard] = last === undefined ? START : { ...last, token: last.token + 1 };
    }
    const over = (): void => {
      this.#busy--;
    };
    for (const notification of pendingNotifications) {
      if (this.#underWay.size >= NOTIFICATIONS_UNDER_WAY_MAX) break;
      if (this.#underWay.has(notification.token)) continue;
      this.#underWay.add(notification.token);
      this.#unpin(notification, () => this.#underWay.delete(notification.token));
    }
    for (const check of pinChecks) {
      this.#busy++;
      this.#ask(check, over);
    }
  }

  /** A missing fork keeps no name. */
  #ask({ source, token, fork }: PinCheck, done: () => void): void {
    step(this.#port, this.#request(COMMANDS.forkCheck, this.#groupOf(fork), fork, token), (reply) => {
      if (reply.code !== 0 || COMMANDS.forkCheck.result.read(reply).isThere) return done();
      this.counters.lost++;
      return step(this.#port, this.#request(COMMANDS.forkUnpin, this.#groupOf(source), source, token), (answer) =>
        this.#tellIf(this.#groupOf(source), goneOf(answer), done),
      );
    });
  }
}

/** The source to notify after an ABORT or UNPIN, if any. */
function goneOf(reply: Reply): ForkGone | undefined {
  return reply.code === 0 ? FORK_GONE.read(reply) : undefined;
}

function split(key: string): [string, string] {
  const border = key.indexOf('\0');
  return [key.slice(0, border), key.slice(border + 1)];
}

/** 48 bits: a collision needs two forks of one stream to draw the same. */
const TOKEN_BYTES = 6;

export function openForks(gateway: ShardGateway, quotas: QuotaGate, runtime: Runtime): ForkService {
  return new ForkService({
    gateway,
    writes: quotas,
    reserve: (bucket, bytes, done, denied) => quotas.reserve(bucket, bytes, done, denied),
    runtime,
    pieceBytes: 0,
    newToken: () => 1 + Buffer.from(runtime.randomBytes(TOKEN_BYTES)).readUIntBE(0, TOKEN_BYTES),
  });
}
