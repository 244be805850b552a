/**
 * Tracks whether this node can work with its cold store, from the outcomes of its operations. After a failure it probes
 * all operations until they work; after an idle time, one cheap request checks that the store is there. It logs when
 * operations begin to fail, when they work again, and a reminder in between.
 */
import type { Runtime } from '../../base/runtime.ts';
import type { ColdOp, ColdOutcome } from '../ports.ts';

const RETRY_MS_MIN = 1000;
/** A store that is back is noticed within this time, also by a node with nothing to upload. */
const RETRY_MS_MAX = 10_000;
/** Idle time after which one cheap request is made. */
const IDLE_MS = 10_000;
/** Interval of log lines about a continuing outage. */
const REMINDER_MS = 5 * 60_000;
/** Minimum time between the end of one outage and the next log line: a store may flap. */
const CALM_MS = 30_000;

export interface ColdHealthOptions {
  /** Does not reject; its outcome is also passed to met(). */
  run(op: 'probe' | 'look'): Promise<ColdOutcome>;
  log(level: 'warn' | 'info', fields: Readonly<Record<string, unknown>>, sentence: string): void;
  readonly runtime: Pick<Runtime, 'nowMs' | 'monotonicMs' | 'setTimer'>;
}

export interface ColdHealthReport {
  readonly reachable: boolean;
  /** ISO 8601; null while it is reachable. */
  readonly unreachable_since: string | null;
  /** The store has answered since this process started. */
  readonly was_reached: boolean;
  readonly last_error: string | null;
}

export class ColdHealth {
  readonly #options: ColdHealthOptions;
  /** Operations that failed last time. Each recovers when it works itself, or when a probe of all of them does. */
  readonly #failing = new Set<ColdOp>();
  #wasReached = false;
  #sinceMs = 0;
  #sinceClockMs = 0;
  #reason = '';
  /** Whether the outage was logged, and when the last line about it was written. */
  #isTold = false;
  #toldAtMs = -Infinity;
  #metAtMs = -Infinity;
  #retryMs = RETRY_MS_MIN;
  #forget: (() => void) | undefined;
  #stopped = false;

  constructor(options: ColdHealthOptions) {
    this.#options = options;
  }

  start(): void {
    this.#wait();
  }

  stop(): void {
    this.#stopped = true;
    this.#forget?.();
  }

  get isReachable(): boolean {
    return this.#failing.size === 0 && this.#wasReached;
  }

  report(): ColdHealthReport {
    return {
      reachable: this.isReachable,
      unreachable_since: this.#failing.size === 0 ? null : new Date(this.#sinceMs).toISOString(),
      was_reached: this.#wasReached,
      last_error: this.#failing.size === 0 ? null : this.#reason,
    };
  }

  /** The outcome of a task, from the store or the path to it. */
  met(op: ColdOp, outcome: ColdOutcome): void {
    // Caused by this node, not by the store.
    if (!outcome.ok && (outcome.failure === 'busy' || outcome.failure === 'stopped')) return;
    this.#metAtMs = this.#options.runtime.monotonicMs();
    // A missing or altered object was looked up in a store that answers.
    if (outcome.ok || (op !== 'probe' && (outcome.failure === 'missing' || outcome.failure === 'bad')))
      this.#worked(op);
    else this.#failed(op, outcome.message);
  }

  #worked(op: ColdOp): void {
    this.#wasReached = true;
    if (op === 'probe') this.#failing.clear();
    else this.#failing.delete(op);
    if (this.#failing.size > 0) return this.#hope();
    if (!this.#isTold) return;
    const clockMs = this.#options.runtime.monotonicMs();
    this.#isTold = false;
    this.#toldAtMs = clockMs;
    this.#options.log('info', { awayMs: Math.round(clockMs - this.#sinceClockMs) }, 'the cold store works again');
  }

  /** One operation works, so the others may too and are tried soon. */
  #hope(): void {
    if (this.#retryMs === RETRY_MS_MIN) return;
    this.#retryMs = RETRY_MS_MIN;
    this.#wait();
  }

  #failed(op: ColdOp, reason: string): void {
    const clockMs = this.#options.runtime.monotonicMs();
    if (this.#failing.size === 0) {
      this.#sinceMs = this.#options.runtime.nowMs();
      this.#sinceClockMs = clockMs;
      this.#retryMs = RETRY_MS_MIN;
      // The next check is not the idle one.
      this.#wait();
    }
    this.#failing.add(op);
    this.#reason = reason;
    if (clockMs - this.#toldAtMs >= (this.#isTold ? REMINDER_MS : CALM_MS)) this.#tell(clockMs);
  }

  #tell(clockMs: number): void {
    const still = this.#isTold ? 'still ' : '';
    const fields = { error: this.#reason, since: new Date(this.#sinceMs).toISOString() };
    this.#options.log('warn', fields, `the cold store ${still}fails; bytes stay on the nodes until it works`);
    this.#toldAtMs = clockMs;
    this.#isTold = true;
  }

  #wait(): void {
    this.#forget?.();
    if (this.#stopped) return;
    this.#forget = this.#options.runtime.setTimer(
      this.#failing.size > 0 ? this.#retryMs : IDLE_MS,
      () => void this.#look(),
    );
  }

  async #look(): Promise<void> {
    const isFailing = this.#failing.size > 0;
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS_MAX);
    const isIdle = this.#options.runtime.monotonicMs() - this.#metAtMs >= IDLE_MS;
    if (isFailing) await this.#options.run('probe');
    else if (isIdle) await this.#options.run('look');
    this.#wait();
  }
}
