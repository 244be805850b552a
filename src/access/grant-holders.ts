/**
 * Live readers and sessions go on for as long as their token is valid. One timer, for the nearest expiry, ends those
 * whose token has expired; a change of the tokens ends those whose token is gone or has other rights, that with all
 * rights too.
 */
import type { Credentials } from './admission.ts';
import { type Grant, isExpired } from './scopes.ts';
import { TOKEN_CLOCK, type TokenClock } from './token-clock.ts';

/** Something that lasts longer than a request, and has its rights from a token. */
export interface GrantHolder {
  /** The token is valid no longer. Called once; it may release itself in it. */
  grantEnded(): void;
}

/** Clocks of hosts are set meanwhile, and timers have an end: an expiry is looked at again this often. */
const LOOK_MS_MAX = 60_000;

export class GrantHolders {
  readonly #isValid: (grant: Grant) => boolean;
  readonly #clock: TokenClock;
  readonly #holders = new Map<Grant | 'all', Set<GrantHolder>>();
  #cancel: (() => void) | undefined;
  #nextMs = Infinity;

  /** `isValid`: whether the book still gives it; when it expires is looked at here. */
  constructor(isValid: (grant: Grant) => boolean, clock = TOKEN_CLOCK) {
    this.#isValid = isValid;
    this.#clock = clock;
  }

  /** Grants with a holder. */
  get size(): number {
    return this.#holders.size;
  }

  /** The timer that ends its holders may be late. */
  isOver(grant: Grant): boolean {
    return isExpired(grant, this.#clock.nowMs());
  }

  /** Other senders than those with tokens have nothing that could end. */
  hold(grant: Credentials, holder: GrantHolder): void {
    if (typeof grant === 'string' && grant !== 'all') return undefined;
    const holders = this.#holders.get(grant);
    if (holders !== undefined) return void holders.add(holder);
    this.#holders.set(grant, new Set([holder]));
    if (grant === 'all') return undefined;
    // The tokens may have changed since the request was let in.
    const untilMs = this.#isValid(grant) ? grant.expiresAtMs : this.#clock.nowMs();
    if (untilMs < this.#nextMs) this.#wakeFor(untilMs);
  }

  release(grant: Credentials, holder: GrantHolder): void {
    if (typeof grant === 'string' && grant !== 'all') return;
    const holders = this.#holders.get(grant);
    if (holders?.delete(holder) !== true || holders.size > 0) return;
    this.#holders.delete(grant);
    if (this.#holders.size === 0) this.#sleep();
  }

  /** Ends the holders of grants that are not valid. */
  recheck(): void {
    const nowMs = this.#clock.nowMs();
    let nearestMs = Infinity;
    for (const grant of [...this.#holders.keys()]) {
      if (grant === 'all') continue;
      if (!isExpired(grant, nowMs) && this.#isValid(grant)) {
        nearestMs = Math.min(nearestMs, grant.expiresAtMs);
        continue;
      }
      this.#end(grant);
    }
    this.#sleep();
    if (nearestMs !== Infinity) this.#wakeFor(nearestMs);
  }

  /** The plane's own token is another one: those that came with the one before end. */
  tokenChanged(): void {
    this.#end('all');
  }

  #end(grant: Grant | 'all'): void {
    const holders = this.#holders.get(grant);
    this.#holders.delete(grant);
    for (const holder of holders ?? []) holder.grantEnded();
  }

  /** The node stops. */
  stop(): void {
    this.#sleep();
    this.#holders.clear();
  }

  #wakeFor(expiresAtMs: number): void {
    this.#sleep();
    this.#nextMs = expiresAtMs;
    const ms = Math.min(Math.max(0, expiresAtMs - this.#clock.nowMs()), LOOK_MS_MAX);
    this.#cancel = this.#clock.after(ms, () => this.recheck());
  }

  #sleep(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#nextMs = Infinity;
  }
}
