/**
 * A share of the node's live readers for each token with scopes that has no limit of them: it is let in while it holds
 * fewer than are free. One alone gets half of all, two get a third each, and so on, without a setting or a clock.
 */
import type { LimitRefusal } from './meter.ts';

/** Something of which a live reader takes one place, and gives it back. */
export interface ReaderPlaces {
  addReader(): LimitRefusal | undefined;
  removeReader(): void;
}

export class ReaderShares {
  /** Live readers for which the node has room; Infinity: for any number. */
  free: () => number = () => Infinity;
  /** Those of each account that has any. */
  readonly #held = new Map<string, number>();

  /** Accounts with live readers. */
  get size(): number {
    return this.#held.size;
  }

  of(account: string): ReaderPlaces {
    return { addReader: () => this.#add(account), removeReader: () => this.#remove(account) };
  }

  #add(account: string): LimitRefusal | undefined {
    const [held, free] = [this.#held.get(account) ?? 0, this.free()];
    if (held >= free) {
      const detail = `the token has ${held} of this node, and ${free} are free; end one, or have live_readers set`;
      return { code: 'READERS_LIMITED', detail, retrySeconds: 1 };
    }
    this.#held.set(account, held + 1);
    return undefined;
  }

  #remove(account: string): void {
    const left = (this.#held.get(account) ?? 0) - 1;
    if (left > 0) this.#held.set(account, left);
    else this.#held.delete(account);
  }
}
