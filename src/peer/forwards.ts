/** Forwarded requests that wait for their answers. */
import type { Runtime } from '../base/runtime.ts';
import { type Sibling, Table } from '../base/table.ts';
import type { PeerLimits } from './limits.ts';

/** The answer, a view that is overwritten after the call. Undefined: it may be executed now, later or never. */
export type OnReply = (answer: Uint8Array | undefined) => void;

/** Within 31 bits V8 stores a number without an object. */
const CORRELATION_MAX = 0x7fff_ffff;

interface Waiting extends Sibling<Waiting> {
  readonly node: number;
  readonly shard: number;
  readonly deadlineMs: number;
  readonly onReply: OnReply;
}

export class Forwards {
  failed = 0;
  readonly #limits: PeerLimits;
  readonly #runtime: Runtime;
  /** The requests that wait, by their correlations. */
  readonly #waiting = new Table<Waiting>();
  #next: number;

  constructor(limits: PeerLimits, runtime: Runtime) {
    this.#limits = limits;
    this.#runtime = runtime;
    // A restarted process should not start with the numbers of its previous run.
    this.#next = Math.floor(runtime.random() * 2 ** 31);
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** The correlation for a new request; undefined: too many wait. */
  add(node: number, shard: number, onReply: OnReply): number | undefined {
    if (this.#waiting.size >= this.#limits.forwardsMax) return undefined;
    const correlation = this.#next;
    this.#next = (correlation + 1) & CORRELATION_MAX;
    const deadlineMs = this.#runtime.monotonicMs() + this.#limits.forwardTimeoutMs;
    this.#waiting.add({ hash: correlation, sibling: undefined, node, shard, deadlineMs, onReply });
    return correlation;
  }

  /** A request that could not be queued after all. */
  unsent(correlation: number): void {
    const one = this.#find(correlation);
    if (one === undefined) return;
    this.#waiting.delete(one);
    this.#failOne(one);
  }

  /** False: no request waits for this answer of this node. */
  answer(node: number, correlation: number, bytes: Uint8Array): boolean {
    const one = this.#find(correlation);
    if (one === undefined || one.node !== node) return false;
    this.#waiting.delete(one);
    one.onReply(bytes);
    return true;
  }

  /** The connection to a shard broke: requests sent there have an unknown outcome. */
  lost(node: number, shard: number): void {
    this.#fail((one) => one.node === node && one.shard === shard);
  }

  expire(): void {
    const clockMs = this.#runtime.monotonicMs();
    this.#fail((one) => one.deadlineMs <= clockMs);
  }

  failAll(): void {
    this.#fail(() => true);
  }

  #fail(which: (one: Waiting) => boolean): void {
    // A handler may forward again immediately, so only the current ones are visited: in their order, as bits of 31.
    const gone = this.#waiting.all().filter(which);
    for (const one of gone) this.#waiting.delete(one);
    for (const one of gone.sort((a, b) => (a.hash - b.hash) << 1)) this.#failOne(one);
  }

  #find(correlation: number): Waiting | undefined {
    let one = this.#waiting.first(correlation);
    while (one !== undefined && one.hash !== correlation) one = one.sibling;
    return one;
  }

  #failOne(one: Waiting): void {
    this.failed++;
    one.onReply(undefined);
  }
}
