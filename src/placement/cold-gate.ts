/**
 * The cold-health gate. A node whose own path to the cold store is broken keeps the bytes of the groups that it leads,
 * and refuses their writes once there are too many. It therefore gives its leaderships to nodes that reach the store.
 *
 * Only to them: when the store itself is down, every node is affected equally, and moving leaderships does not help. So
 * a node whose uploads fail first confirms that it cannot reach the store, then asks the other voters; it counts as cut
 * off only when one of them can. It still campaigns, later than the others, and leaderships are handed over rather than
 * given up, so no group becomes leaderless. Without uploads it cannot notice that its path works again, so it probes.
 */
import type { BalancedGroup } from './balancer.ts';
import { type IntervalOptions, NonOverlappingInterval } from './non-overlapping-interval.ts';

export interface ColdGateOptions extends IntervalOptions {
  readonly nodeId: number;
  readonly intervalMs: number;
  /** Consecutive checks with failing uploads before the others are asked, and good probes in a row before it ends. */
  readonly unhealthyTicks: number;
  readonly healTicks: number;
  /** The groups as last seen. */
  groups(): readonly BalancedGroup[];
  /** Whether this node can work with the store now. Does not reject. */
  reaches(): Promise<boolean>;
  /** The same of another node, according to itself; false when it does not answer. Does not reject. */
  otherReaches(node: number): Promise<boolean>;
  /** Rejects when a shard was not reached; the next tick repeats it. */
  apply(isCut: boolean): Promise<void>;
  onChange(isCut: boolean, receivers: readonly number[]): void;
}

export class ColdGate extends NonOverlappingInterval {
  readonly counters = { ticks: 0, badTicks: 0, trips: 0 };
  /** Nodes known to reach the store: they receive leaderships while this node is cut off. */
  receivers: ReadonlySet<number> = new Set();
  readonly #options: ColdGateOptions;
  /** This node does not reach the store, and another one does. */
  #isCut = false;
  #applied = true;
  #badInARow = 0;
  #goodInARow = 0;

  constructor(options: ColdGateOptions) {
    super(options.intervalMs, options);
    this.#options = options;
  }

  protected override async round(): Promise<void> {
    const before = this.#isCut;
    await (before ? this.#lookCut() : this.#look());
    await this.#settle(before);
  }

  async #look(): Promise<void> {
    const options = this.#options;
    const led = this.#led();
    this.counters.ticks++;
    const isBad = led.some(({ coldFailing }) => coldFailing === true);
    this.#badInARow = isBad ? this.#badInARow + 1 : 0;
    if (!isBad) return;
    this.counters.badTicks++;
    if (this.#badInARow < options.unhealthyTicks) return;
    if (await options.reaches()) {
      // The uploads fail for another reason; another node would be affected equally.
      this.#badInARow = 0;
      return;
    }
    await this.#ask(led);
    if (this.receivers.size === 0) return;
    this.#isCut = true;
    this.#goodInARow = 0;
    this.counters.trips++;
  }

  async #lookCut(): Promise<void> {
    this.counters.ticks++;
    const led = this.#led();
    const [isGood] = await Promise.all([this.#options.reaches(), this.#ask(led)]);
    if (!isGood) this.counters.badTicks++;
    this.#goodInARow = isGood ? this.#goodInARow + 1 : 0;
    if (this.#goodInARow < this.#options.healTicks) return;
    this.#isCut = false;
    this.#badInARow = 0;
  }

  #led(): readonly BalancedGroup[] {
    return this.#options.groups().filter(({ leader }) => leader === this.#options.nodeId);
  }

  /** The voters that could take over what this node leads. */
  async #ask(led: readonly BalancedGroup[]): Promise<void> {
    const options = this.#options;
    const others = [...new Set(led.flatMap(({ voters }) => voters))].filter((node) => node !== options.nodeId);
    const answers = await Promise.all(others.map((node) => options.otherReaches(node)));
    this.receivers = new Set(others.filter((_, i) => answers[i] === true));
  }

  async #settle(before: boolean): Promise<void> {
    const options = this.#options;
    const isNews = this.#isCut !== before;
    if (isNews) options.onChange(this.#isCut, [...this.receivers]);
    if (!isNews && this.#applied) return;
    this.#applied = false;
    await options.apply(this.#isCut);
    this.#applied = true;
  }
}
