/**
 * Whether this node can work with its cold store, by all that it asks of it. While something fails, the whole of it is tried again
 * until it works; when nothing was asked for a while, one look tells that the store is still there. People are told once
 * that it fails, once that it works again, and now and then in between.
 */
import type { ColdOutcome, ColdTask } from './pool-tasks.ts';

type Op = ColdTask['op'];

const RETRY_MS_MIN = 1000;
/** A store that is back is known by then, also to a node that has nothing to bring away. */
const RETRY_MS_MAX = 10_000;
/** Nothing was asked for so long: one cheap request. */
const IDLE_MS = 10_000;
/** A line about an outage that goes on. */
const REMINDER_MS = 5 * 60_000;
/** Between the end of one outage and the next that is told: a store may come and go. */
const CALM_MS = 30_000;

export interface ColdHealthOptions {
  /** Does not reject; its outcome is met() too. */
  run(op: 'probe' | 'look'): Promise<ColdOutcome<Op>>;
  log(level: 'warn' | 'info', fields: Readonly<Record<string, unknown>>, sentence: string): void;
  /** Calls `run` once, later; returns what forgets it. */
  after(ms: number, run: () => void): () => void;
  monotonicMs(): number;
  wallMs(): number;
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
  /** What failed the last time. Each kind is well again when it works itself, or all of it does in a probe. */
  readonly #failing = new Set<Op>();
  #wasReached = false;
  #sinceMs = 0;
  #sinceClockMs = 0;
  #reason = '';
  /** The outage was told, and when the last line about it was written. */
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

  /** What the store, or the way to it, made of a task. */
  met(op: Op, outcome: ColdOutcome<Op>): void {
    // Said by this node, not by the store.
    if (!outcome.ok && (outcome.failure === 'busy' || outcome.failure === 'stopped')) return;
    this.#metAtMs = this.#options.monotonicMs();
    // An object that is missing or altered was looked for in a store that answers.
    if (outcome.ok || (op !== 'probe' && (outcome.failure === 'missing' || outcome.failure === 'bad')))
      this.#worked(op);
    else this.#failed(op, outcome.message);
  }

  #worked(op: Op): void {
    this.#wasReached = true;
    if (op === 'probe') this.#failing.clear();
    else this.#failing.delete(op);
    if (this.#failing.size > 0) return this.#hope();
    if (!this.#isTold) return;
    const clockMs = this.#options.monotonicMs();
    this.#isTold = false;
    this.#toldAtMs = clockMs;
    this.#options.log('info', { awayMs: Math.round(clockMs - this.#sinceClockMs) }, 'the cold store works again');
  }

  /** Something works: the rest may too, and is tried soon. */
  #hope(): void {
    if (this.#retryMs === RETRY_MS_MIN) return;
    this.#retryMs = RETRY_MS_MIN;
    this.#wait();
  }

  #failed(op: Op, reason: string): void {
    const clockMs = this.#options.monotonicMs();
    if (this.#failing.size === 0) {
      this.#sinceMs = this.#options.wallMs();
      this.#sinceClockMs = clockMs;
      this.#retryMs = RETRY_MS_MIN;
      // The next look is not an idle one.
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
    this.#forget = this.#options.after(this.#failing.size > 0 ? this.#retryMs : IDLE_MS, () => void this.#look());
  }

  async #look(): Promise<void> {
    const isFailing = this.#failing.size > 0;
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MS_MAX);
    const isIdle = this.#options.monotonicMs() - this.#metAtMs >= IDLE_MS;
    if (isFailing) await this.#options.run('probe');
    else if (isIdle) await this.#options.run('look');
    this.#wait();
  }
}
