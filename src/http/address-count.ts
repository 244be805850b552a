/**
 * How many connections each address has. The library says who comes, but of a connection that is closed no longer whose it was. So
 * there are two bounds of each number: all that came since the last count, and that less all that left, whoever they were. Only
 * when the limit lies between the two, the kernel's table is read, and counting begins anew.
 */

/** Reading 10,000 rows takes some 10 ms of the HTTP thread; this often that is one percent. */
const RECOUNT_PAUSE_MS = 1000;
/** A count that takes long is repeated the more seldom: at most a twentieth of the thread. */
const RECOUNT_SHARE = 20;
/** Addresses that are remembered although they may have left, about 100 bytes each. */
const ADDRESSES_MAX = 100_000;

/** Connections by address, as the kernel has them now; undefined where it does not tell. */
export type CountByAddress = () => ReadonlyMap<string, number> | undefined;

export class AddressCount {
  readonly #limit: number;
  readonly #recount: CountByAddress;
  readonly #monotonicMs: () => number;
  /** Since the last count, those that it found included. */
  #arrived = new Map<string, number>();
  #left = 0;
  #nextRecountMs = -Infinity;

  constructor(limit: number, recount: CountByAddress, monotonicMs: () => number) {
    this.#limit = limit;
    this.#recount = recount;
    this.#monotonicMs = monotonicMs;
  }

  /** A connection is there. False: its address has more than the limit. */
  arrive(address: string): boolean {
    if (this.#arrived.size >= ADDRESSES_MAX) this.#countAnew(new Map());
    const most = (this.#arrived.get(address) ?? 0) + 1;
    this.#arrived.set(address, most);
    if (most <= this.#limit) return true;
    if (most - this.#left > this.#limit) return false;
    const clockMs = this.#monotonicMs();
    // Nobody knows: better one too many than a client that is shut out by mistake.
    if (clockMs < this.#nextRecountMs) return true;
    this.#countAnew(this.#arrived);
    const tookMs = this.#monotonicMs() - clockMs;
    this.#nextRecountMs = clockMs + Math.max(RECOUNT_PAUSE_MS, RECOUNT_SHARE * tookMs);
    return (this.#arrived.get(address) ?? 0) <= this.#limit;
  }

  leave(): void {
    this.#left++;
  }

  #countAnew(otherwise: Map<string, number>): void {
    const counted = this.#recount();
    if (counted !== undefined) this.#left = 0;
    this.#arrived = counted === undefined ? otherwise : new Map(counted);
  }
}
