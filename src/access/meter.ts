/**
 * The use that one token or one bucket makes of this node, held against its limits. Pure: the caller says what time it is, and a
 * clock that jumps neither refills a rate beyond one second nor takes from it.
 */
import type { UseLimits } from '../base/use-limits.ts';

export interface LimitRefusal {
  readonly code: 'RATE_LIMITED' | 'READERS_LIMITED';
  readonly detail: string;
  /** When a repeat may succeed. */
  readonly retrySeconds: number;
}

/** A debt of more seconds is forgiven: the limit was raised from next to nothing, or one body was very large. */
const DEBT_SECONDS_MAX = 3600;

/** The units of one second may be used at once. Any use beyond them is a debt, which time pays off. */
class Rate {
  #perSecond = Infinity;
  #left = Infinity;
  #atMs = -Infinity;

  /** Another limit; what was used of the old one stays used. */
  limit(perSecond = Infinity): void {
    if (perSecond === this.#perSecond) return;
    const used = this.#perSecond === Infinity ? 0 : this.#perSecond - this.#left;
    this.#perSecond = perSecond;
    this.#left = perSecond === Infinity ? Infinity : Math.max(perSecond - used, -DEBT_SECONDS_MAX * perSecond);
  }

  refill(clockMs: number): void {
    if (this.#perSecond === Infinity) return;
    const earned = (Math.max(0, clockMs - this.#atMs) * this.#perSecond) / 1000;
    this.#atMs = clockMs;
    this.#left = Math.min(this.#perSecond, this.#left + earned);
  }

  /** Seconds until `units` are left; 0: they are. */
  secondsUntil(units: number): number {
    return this.#left >= units ? 0 : (units - this.#left) / this.#perSecond;
  }

  /** All of a second is left, or will have come back by then. */
  isFull(clockMs: number): boolean {
    return this.#perSecond === Infinity || this.secondsUntil(this.#perSecond) * 1000 <= clockMs - this.#atMs;
  }

  spend(units: number): void {
    if (this.#perSecond === Infinity) return;
    this.#left = Math.max(this.#left - units, -DEBT_SECONDS_MAX * this.#perSecond);
  }
}

export interface Used {
  requests: number;
  bytes: number;
  /** Requests and live readers that were refused. */
  refused: number;
  /** Live readers that there are. */
  readers: number;
}

export class Meter {
  readonly used: Used = { requests: 0, bytes: 0, refused: 0, readers: 0 };
  /** For sentences, such as `the bucket "shop"`. */
  readonly #whose: string;
  readonly #requests = new Rate();
  readonly #bytes = new Rate();
  #allowance: UseLimits = {};
  /** Subscriptions that are being made. */
  readonly #making = new Set<{ readonly id: string }>();

  constructor(whose: string, allowance: UseLimits) {
    this.#whose = whose;
    this.allow(allowance);
  }

  get allowance(): UseLimits {
    return this.#allowance;
  }

  /** From now on. What was used stays used. */
  allow(allowance: UseLimits): void {
    this.#allowance = allowance;
    this.#requests.limit(allowance.requests_per_second);
    this.#bytes.limit(allowance.bytes_per_second);
  }

  /**
   * One request begins, unless there were too many. How many bytes it has is not known yet, and a body may be larger
   * than what a second allows: so it may begin while any are left, and makes a debt.
   */
  begin(clockMs: number): LimitRefusal | undefined {
    this.#requests.refill(clockMs);
    this.#bytes.refill(clockMs);
    const forRequest = this.#requests.secondsUntil(1);
    const forBytes = this.#bytes.secondsUntil(1);
    if (forRequest === 0 && forBytes === 0) {
      this.#requests.spend(1);
      this.used.requests++;
      return undefined;
    }
    this.used.refused++;
    const limit = forRequest >= forBytes ? 'requests_per_second' : 'bytes_per_second';
    const detail = `${this.#whose} has ${limit} = ${this.#allowance[limit]} on this node; slow down, or have that raised`;
    const retrySeconds = Math.max(1, Math.ceil(Math.max(forRequest, forBytes)));
    return { code: 'RATE_LIMITED', detail, retrySeconds };
  }

  spend(bytes: number): void {
    this.used.bytes += bytes;
    this.#bytes.spend(bytes);
  }

  /** One more live reader, unless there are too many. */
  addReader(): LimitRefusal | undefined {
    const { live_readers: most = Infinity } = this.#allowance;
    if (this.used.readers < most) {
      this.used.readers++;
      return undefined;
    }
    this.used.refused++;
    const detail = `${this.#whose} has live_readers = ${most} on this node; end one, or have that raised`;
    return { code: 'READERS_LIMITED', detail, retrySeconds: 1 };
  }

  /** One more subscription is made beside `own` ones, until `made` is called. One that is among `all` counts there alone. */
  makeSubscription(
    id: string,
    own: number,
    all: Pick<ReadonlyMap<string, unknown>, 'has'>,
  ): string | { readonly made: () => void } {
    const { subscriptions: most = Infinity } = this.#allowance;
    let there = own;
    for (const other of this.#making) if (!all.has(other.id)) there++;
    if (there < most) {
      const one = { id };
      this.#making.add(one);
      return { made: () => void this.#making.delete(one) };
    }
    this.used.refused++;
    return `${this.#whose} has subscriptions = ${most}; remove one, or have that raised`;
  }

  removeReader(): void {
    this.used.readers--;
  }

  /** Forgetting it would lift no limit. */
  isIdle(clockMs: number): boolean {
    return this.used.readers === 0 && this.#requests.isFull(clockMs) && this.#bytes.isFull(clockMs);
  }
}
