/**
 * The egress gate. A node whose large messages do not reach a majority must not lead, although its heartbeats may still
 * get through and keep it leader. Once per interval it posts a probe to every other voter. After several bad ticks in a
 * row the node neither campaigns nor accepts leaderships, and the balancer moves away what it leads. After several more
 * good ones this ends.
 *
 * A false alarm must cost little, because a busy machine answers late. A tick counts only when this node itself was not
 * suspended (see ProbeOutcome), several are needed, and leaderships are not given up but handed over. If all nodes
 * believe this of themselves, one must lead anyway: while a group has had no leader for some ticks, an impaired node
 * campaigns as if there were no gate. If its path is really broken that changes nothing, because it cannot win.
 */
import type { ProbeOutcome } from '../peer/probe.ts';
import type { BalancedGroup } from './balancer.ts';
import type { EgressState } from './shed-state.ts';
import { type IntervalOptions, NonOverlappingInterval } from './non-overlapping-interval.ts';

/** Elections among healthy nodes take one to two seconds and come first. */
const LEADERLESS_TICKS = 3;
/** The nodes of a cluster start one by one: until the first good round, this many bad ones are ignored. */
const GRACE_TICKS = 30;

export interface EgressRules {
  readonly nodeId: number;
  readonly intervalMs: number;
  /** Bad ticks in a row until the node counts as impaired, and good ones until it no longer does. */
  readonly unhealthyTicks: number;
  readonly healTicks: number;
}

export interface EgressOptions extends EgressRules, IntervalOptions {
  /** The groups as last seen; empty until then. */
  groups(): readonly BalancedGroup[];
  probe(node: number): Promise<ProbeOutcome>;
  /** Rejects when a shard was not reached; the next tick repeats it. */
  apply(egress: EgressState): Promise<void>;
  onChange(egress: EgressState, unreached: readonly number[], before: EgressState): void;
}

export class EgressGate extends NonOverlappingInterval {
  readonly counters = { ticks: 0, badTicks: 0, trips: 0 };
  readonly #options: EgressOptions;
  #egress: EgressState = { isImpaired: false, mayLead: true };
  #applied = true;
  #started = false;
  #badInARow = 0;
  #goodInARow = 0;
  #leaderlessInARow = 0;

  constructor(options: EgressOptions) {
    super(options.intervalMs, options);
    this.#options = options;
  }

  protected override async round(): Promise<void> {
    const options = this.#options;
    const { nodeId } = options;
    const groups = options.groups().filter(({ voters }) => voters.includes(nodeId));
    const others = [...new Set(groups.flatMap(({ voters }) => voters))].filter((node) => node !== nodeId);
    const outcomes = new Map<number, ProbeOutcome>();
    await Promise.all(others.map(async (node) => outcomes.set(node, await options.probe(node))));
    const unreached = others.filter((node) => outcomes.get(node) === 'failed');
    const isGood = groups.every(({ voters }) => hasMajority(voters, unreached));
    const before = this.#egress;
    this.#observe(
      isGood,
      groups.some(({ leader }) => leader === null),
    );
    const { isImpaired, mayLead } = this.#egress;
    const isNews = isImpaired !== before.isImpaired || mayLead !== before.mayLead;
    if (isNews) options.onChange(this.#egress, unreached, before);
    if (!isNews && this.#applied) return;
    this.#applied = false;
    await options.apply(this.#egress);
    this.#applied = true;
  }

  #observe(isGood: boolean, isLeaderless: boolean): void {
    const { unhealthyTicks, healTicks } = this.#options;
    this.counters.ticks++;
    if (!isGood) this.counters.badTicks++;
    this.#started ||= isGood || this.counters.ticks > GRACE_TICKS;
    this.#badInARow = isGood || !this.#started ? 0 : this.#badInARow + 1;
    this.#goodInARow = isGood ? this.#goodInARow + 1 : 0;
    let { isImpaired } = this.#egress;
    if (isImpaired ? this.#goodInARow >= healTicks : this.#badInARow >= unhealthyTicks) {
      isImpaired = !isImpaired;
      if (isImpaired) this.counters.trips++;
    }
    // Some node leads again, and it should not be this one.
    this.#leaderlessInARow = isLeaderless ? this.#leaderlessInARow + 1 : 0;
    this.#egress = { isImpaired, mayLead: !isImpaired || this.#leaderlessInARow >= LEADERLESS_TICKS };
  }
}

/** The log message for a change: a broken path is reported when it breaks, whichever node leads then. */
export function egressNews(
  before: EgressState,
  now: EgressState,
): readonly { readonly level: 'info' | 'warn'; readonly text: string }[] {
  if (!now.isImpaired)
    return before.isImpaired
      ? [{ level: 'info', text: 'large messages reach a majority again: this node may lead' }]
      : [];
  const news: { readonly level: 'info' | 'warn'; readonly text: string }[] = [];
  if (!before.isImpaired)
    news.push({
      level: 'warn',
      text: 'large messages do not reach a majority: this node does not lead until they do',
    });
  if (now.mayLead && (!before.mayLead || !before.isImpaired))
    news.push({ level: 'warn', text: 'a group has no leader: this node campaigns although it is impaired' });
  else if (!now.mayLead && before.isImpaired && before.mayLead)
    news.push({ level: 'info', text: 'every group has a leader: this impaired node does not campaign' });
  return news;
}

function hasMajority(voters: readonly number[], unreached: readonly number[]): boolean {
  const reached = voters.filter((node) => !unreached.includes(node)).length;
  return 2 * reached > voters.length;
}
