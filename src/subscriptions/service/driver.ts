/**
 * Drives subscriptions on the node that leads the group of their log: issues wakes, delivers them, retries, ends
 * leases. The pure core (decide.ts) decides what to do; everything that happens is a record in the log, so another node
 * continues where this one stopped. Two nodes that both believe to lead do no harm: the log accepts the first of two
 * equal steps, and a receiver may at worst be called twice for one wake.
 */
import { toHex } from '../../base/hex.ts';
import { WEBHOOK_DELIVERIES_MAX, WEBHOOK_SLOW_DELIVERIES_MAX } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import { type Step, decide, retryDelayMs } from '../state/decide.ts';
import type { SubscriptionCommand, Outcome } from '../state/record.ts';
import type { Subscription } from '../state/subscription.ts';
import type { Logger } from '../../logging/logger.ts';
import { type Delivering, type Sent, SlowReceivers } from '../webhooks/delivering.ts';
import { Slots } from './slots.ts';
import type { Tails } from './tails.ts';

/** Delay before a failed append (no leader, a full mailbox) is retried. */
const PAUSE_MS = 1000;
/** Maximum timer: the awaited time may be further away than a timer can count. */
const SLEEP_MAX_MS = 60_000;
const WAKE_ID_BYTES = 16;
/** Kept of why a delivery failed, for operators. */
const ERROR_CHARS_MAX = 300;

export interface DriverOptions {
  readonly tails: Pick<Tails, 'of'>;
  /** Neither deleted, nor recreated under its id. */
  readonly isCurrent: (sub: Subscription) => boolean;
  readonly append: (command: SubscriptionCommand) => Promise<Outcome>;
  readonly send: Delivering;
  readonly log: Logger;
  /** Leases and pauses in the log use its wall clock, this node's own waits the monotonic one. */
  readonly runtime: Runtime;
}

/** The result of a delivery. */
type DeliveryCommand = Extract<SubscriptionCommand, { readonly op: 'done' | 'delivered' | 'failed' }>;

interface Attempt {
  readonly wakeId: string;
  readonly isSlow: boolean;
  readonly startedMs: number;
  readonly abort: AbortController;
}

export class Driver {
  /** Steps that are in the log. */
  readonly counters = { wakes: 0, delivered: 0, failed: 0, expired: 0 };
  readonly #options: DriverOptions;
  #driving = false;
  readonly #dirty = new Set<Subscription>();
  #flushDue = false;
  /** When to check again, on the monotonic clock, so that a change of the wall clock is noticed in time. */
  readonly #due = new Map<Subscription, number>();
  #cancelTimer: (() => void) | undefined;
  #timerAtMs = Infinity;
  /** A record about them is in flight. */
  readonly #busy = new Set<Subscription>();
  /** An append failed: nothing is done before this time. */
  readonly #pausedUntilMs = new Map<Subscription, number>();
  readonly #attempts = new Map<Subscription, Attempt>();
  readonly #slots = new Slots<Subscription>(WEBHOOK_DELIVERIES_MAX, WEBHOOK_SLOW_DELIVERIES_MAX);
  readonly #slowReceivers = new SlowReceivers();
  /** Results of deliveries that could not be recorded yet: until they are, the receiver is not called again for it. */
  readonly #unrecorded = new Map<Subscription, DeliveryCommand>();
  /** An operator wants their next attempt now. */
  readonly #hurried = new Set<Subscription>();
  /** Why the last delivery failed, until one succeeds. */
  readonly #errors = new Map<Subscription, string>();

  constructor(options: DriverOptions) {
    this.#options = options;
  }

  get driving(): boolean {
    return this.#driving;
  }

  get inFlight(): number {
    return this.#attempts.size;
  }

  get queued(): number {
    return this.#slots.waiting;
  }

  start(subs: Iterable<Subscription>): void {
    this.#driving = true;
    for (const sub of subs) this.touch(sub);
  }

  /** Its next attempt does not wait for the end of its pause. */
  hurry(sub: Subscription): void {
    if (!this.#driving || !this.#options.isCurrent(sub)) return;
    this.#hurried.add(sub);
    this.touch(sub);
  }

  lastError(sub: Subscription): string | undefined {
    return this.#errors.get(sub);
  }

  /** Another node continues. Running deliveries are cut off and will be repeated. */
  stop(): void {
    this.#driving = false;
    for (const { abort } of this.#attempts.values()) abort.abort();
    this.#dirty.clear();
    this.#due.clear();
    this.#slots.clear();
    this.#unrecorded.clear();
    this.#hurried.clear();
    this.#errors.clear();
    this.#cancelTimer?.();
    this.#timerAtMs = Infinity;
  }

  /** Something about it changed. */
  touch(sub: Subscription): void {
    if (!this.#driving || !this.#options.isCurrent(sub)) return;
    this.#dirty.add(sub);
    if (this.#flushDue) return;
    this.#flushDue = true;
    setImmediate(() => this.#flush());
  }

  removed(sub: Subscription): void {
    this.#attempts.get(sub)?.abort.abort();
    this.#dirty.delete(sub);
    this.#due.delete(sub);
    this.#pausedUntilMs.delete(sub);
    this.#unrecorded.delete(sub);
    this.#hurried.delete(sub);
    this.#errors.delete(sub);
    this.#waitsNoMore(sub);
  }

  #flush(): void {
    this.#flushDue = false;
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    for (const sub of dirty) this.#look(sub);
  }

  #look(sub: Subscription): void {
    if (!this.#driving || !this.#options.isCurrent(sub)) return;
    const attempt = this.#attempts.get(sub);
    // The wake is over, so the receiver's answer is too late.
    if (attempt !== undefined && attempt.wakeId !== sub.wake?.id) attempt.abort.abort();
    this.#due.delete(sub);
    const step = this.#nextStep(sub);
    if (step?.do !== 'deliver') this.#waitsNoMore(sub);
    if (step !== undefined) this.#take(sub, step, this.#options.runtime.nowMs());
  }

  /** Undefined: not now. */
  #nextStep(sub: Subscription): Step | undefined {
    if (this.#busy.has(sub)) return undefined;
    const { runtime } = this.#options;
    const pausedUntilMs = this.#pausedUntilMs.get(sub) ?? 0;
    if (runtime.monotonicMs() < pausedUntilMs) {
      this.#lookAt(sub, pausedUntilMs);
      return undefined;
    }
    this.#pausedUntilMs.delete(sub);
    const known = this.#unrecorded.get(sub);
    this.#unrecorded.delete(sub);
    if (known !== undefined && known.wake === sub.wake?.id) {
      void this.#recordDelivery(sub, known);
      return undefined;
    }
    const pace = this.#hurried.delete(sub) ? 'at-once' : 'as-planned';
    return decide(sub, (path) => this.#options.tails.of(path), runtime.nowMs(), pace);
  }

  /** Others may take its place. */
  #waitsNoMore(sub: Subscription): void {
    if (this.#slots.forget(sub)) this.#letIn();
  }

  #letIn(): void {
    for (const sub of this.#slots.next()) this.touch(sub);
  }

  #take(sub: Subscription, step: Step, nowMs: number): void {
    const about = { id: sub.id, at: nowMs };
    switch (step.do) {
      case 'rest':
        return;
      case 'wait':
        return this.#lookIn(sub, step.untilMs - nowMs);
      case 'wake': {
        const wake = newWakeId(this.#options.runtime);
        const { tails } = step;
        return void this.#record(sub, { op: 'wake', ...about, wake, generation: sub.generation + 1, tails }, 'wakes');
      }
      case 'expire': {
        const wake = sub.wake?.id as string;
        // A receiver that has not even answered is called again no sooner than after any other failure.
        const next = this.#attempts.has(sub) ? this.#nextAttemptMs(sub, nowMs) : -1;
        return void this.#record(sub, { op: 'expire', ...about, wake, until: sub.leaseUntilMs, next }, 'expired');
      }
      case 'deliver':
        this.#lookIn(sub, step.expiresAtMs - nowMs);
        return this.#deliver(sub);
    }
  }

  #nextAttemptMs(sub: Subscription, nowMs: number): number {
    return nowMs + retryDelayMs(sub.failures + 1, this.#options.runtime.random());
  }

  /** One record at a time per subscription; its effect is examined when it is folded. */
  async #record(sub: Subscription, command: SubscriptionCommand, counter: keyof Driver['counters']): Promise<boolean> {
    this.#busy.add(sub);
    try {
      const { code } = await this.#options.append(command);
      if (code === 'OK') this.counters[counter]++;
      return true;
    } catch (error) {
      this.#options.log.debug({ err: error, subscription: sub.id, op: command.op }, 'a step could not be recorded');
      if (this.#options.isCurrent(sub)) this.#pausedUntilMs.set(sub, this.#options.runtime.monotonicMs() + PAUSE_MS);
      return false;
    } finally {
      this.#busy.delete(sub);
      this.touch(sub);
    }
  }

  async #recordDelivery(sub: Subscription, command: DeliveryCommand): Promise<void> {
    const isRecorded = await this.#record(sub, command, command.op === 'failed' ? 'failed' : 'delivered');
    if (!isRecorded && this.#driving && this.#options.isCurrent(sub)) this.#unrecorded.set(sub, command);
  }

  #deliver(sub: Subscription): void {
    if (this.#attempts.has(sub)) return this.#waitsNoMore(sub);
    const isSlow = sub.failures > 0 || this.#slowReceivers.has(sub);
    if (!this.#slots.enter(sub, isSlow)) return;
    const startedMs = this.#options.runtime.monotonicMs();
    const attempt: Attempt = { wakeId: sub.wake?.id as string, abort: new AbortController(), isSlow, startedMs };
    this.#attempts.set(sub, attempt);
    void this.#attempt(sub, attempt);
  }

  async #attempt(sub: Subscription, { wakeId, abort, isSlow, startedMs }: Attempt): Promise<void> {
    const { log, runtime } = this.#options;
    let sent: Sent;
    try {
      sent = await this.#options.send(sub, abort.signal);
    } catch (error) {
      log.error({ err: error, subscription: sub.id }, 'a delivery failed in an unforeseen way');
      sent = { result: 'failed', reason: 'internal error' };
    }
    this.#attempts.delete(sub);
    // A cut-off delivery may have reached the receiver, which then called back.
    this.#slowReceivers.note(sub, sent.result !== 'failed' || abort.signal.aborted, runtime.monotonicMs() - startedMs);
    this.#slots.leave(isSlow);
    this.#letIn();
    if (abort.signal.aborted) return this.touch(sub);
    const about = { id: sub.id, at: runtime.nowMs(), wake: wakeId };
    if (sent.result !== 'failed') this.#errors.delete(sub);
    else if (this.#options.isCurrent(sub)) this.#errors.set(sub, sent.reason.slice(0, ERROR_CHARS_MAX));
    if (sent.result === 'failed') {
      const text = 'a wake could not be delivered; it is tried again';
      log[sub.failures === 0 ? 'warn' : 'debug']({ subscription: sub.id, reason: sent.reason }, text);
      return this.#recordDelivery(sub, { op: 'failed', ...about, next: this.#nextAttemptMs(sub, runtime.nowMs()) });
    }
    return this.#recordDelivery(sub, { op: sent.result === 'done' ? 'done' : 'delivered', ...about });
  }

  /** The wall clock may be set meanwhile, so the decision is made again at that time. */
  #lookIn(sub: Subscription, delayMs: number): void {
    if (delayMs !== Infinity) this.#lookAt(sub, this.#options.runtime.monotonicMs() + Math.min(delayMs, SLEEP_MAX_MS));
  }

  #lookAt(sub: Subscription, atMs: number): void {
    this.#due.set(sub, atMs);
    if (atMs >= this.#timerAtMs) return;
    this.#cancelTimer?.();
    this.#timerAtMs = atMs;
    const sleepMs = Math.min(SLEEP_MAX_MS, Math.max(0, atMs - this.#options.runtime.monotonicMs()));
    this.#cancelTimer = this.#options.runtime.setTimer(sleepMs, () => this.#wakeUp());
  }

  #wakeUp(): void {
    const clockMs = this.#options.runtime.monotonicMs();
    this.#timerAtMs = Infinity;
    let next: Subscription | undefined;
    let nextMs = Infinity;
    for (const [sub, atMs] of [...this.#due]) {
      if (atMs <= clockMs) {
        this.#due.delete(sub);
        this.touch(sub);
      } else if (atMs < nextMs) {
        next = sub;
        nextMs = atMs;
      }
    }
    if (next !== undefined) this.#lookAt(next, nextMs);
  }
}

export function newWakeId(runtime: Pick<Runtime, 'randomBytes'>): string {
  return `w_${toHex(runtime.randomBytes(WAKE_ID_BYTES))}`;
}
