/**
 * How long a node has been behind, in seconds. An index says how many entries it lacks, which under
 * load is never zero and tells little. So the page remembers when it first saw each group committed
 * that far: a node is as far behind as what it has applied is old.
 */
import { groupOf, groupViews } from '../../nodes/cluster-snapshot.ts';
import { type Finding, formatAge } from '../../nodes/findings.ts';
import { NO_ANSWER_YET, type Round, snapshotOf } from './samples.ts';

interface Seen {
  readonly atMs: number;
  readonly committed: number;
}

/** Behind by less is what two questions a moment apart show of a node that keeps up. */
export const BEHIND_MS = 8000;
const LONG_BEHIND_MS = 60_000;
/** Half an hour of rounds for each group. A node that is further behind counts as far behind as the oldest. */
const KEPT = 900;

export class LagWatch {
  readonly #seen = new Map<number, Seen[]>();
  /** Nodes that do not answer: since when, and why in the last round. */
  readonly #silent = new Map<number, { readonly sinceMs: number; readonly why: string }>();
  /** By node and group; groups in which the node keeps up are left out. */
  #behind = new Map<number, Map<number, number>>();
  #nowClockMs = 0;

  add(round: Round, clockMs: number): void {
    const snapshot = snapshotOf(round);
    this.#nowClockMs = clockMs;
    for (const { id, committed } of groupViews(snapshot)) this.#saw(id, { atMs: clockMs, committed });
    this.#behind = new Map();
    for (const { nodeId, report, error } of snapshot) {
      if (report === undefined) {
        this.#silent.set(nodeId, { sinceMs: this.#silent.get(nodeId)?.sinceMs ?? clockMs, why: error });
        continue;
      }
      this.#silent.delete(nodeId);
      const behind = new Map<number, number>();
      for (const [group, seen] of this.#seen) {
        const own = groupOf(report, group);
        if (own === undefined || !(own.voters.includes(nodeId) || own.learners.includes(nodeId))) continue;
        const ms = ageOf(seen, own.applied, clockMs);
        if (ms >= BEHIND_MS) behind.set(group, ms);
      }
      if (behind.size > 0) this.#behind.set(nodeId, behind);
    }
  }

  /** 0: it keeps up, or does not answer. */
  behindMs(nodeId: number, group?: number): number {
    const behind = this.#behind.get(nodeId);
    if (behind === undefined) return 0;
    return group === undefined ? Math.max(...behind.values()) : (behind.get(group) ?? 0);
  }

  silentMs(nodeId: number): number {
    const silent = this.#silent.get(nodeId);
    return silent === undefined ? 0 : this.#nowClockMs - silent.sinceMs;
  }

  findings(): Finding[] {
    const found: Finding[] = [];
    for (const [nodeId, { why }] of this.#silent) {
      if (why === NO_ANSWER_YET) {
        found.push({ severity: 'info', from: 'node', text: `node ${nodeId} has not answered yet` });
        continue;
      }
      const ms = this.silentMs(nodeId);
      // Asked once, it is not known how long that has been so.
      const state = ms === 0 ? 'does not answer' : `has not answered for ${formatAge(ms)}`;
      found.push({ severity: 'bad', from: 'node', text: `node ${nodeId} ${state}: ${why}` });
    }
    for (const [nodeId, groups] of this.#behind) {
      const ms = this.behindMs(nodeId);
      const where = groups.size === 1 ? `group ${[...groups.keys()].join('')}` : `${groups.size} groups`;
      const severity = ms >= LONG_BEHIND_MS ? 'bad' : 'warn';
      found.push({ severity, from: 'comparison', text: `node ${nodeId} has been ${formatAge(ms)} behind on ${where}` });
    }
    return found;
  }

  #saw(group: number, seen: Seen): void {
    const all = this.#seen.get(group) ?? [];
    this.#seen.set(group, all);
    // A cluster that was restored begins again.
    if ((all.at(-1)?.committed ?? 0) > seen.committed) all.length = 0;
    all.push(seen);
    if (all.length > KEPT) all.shift();
  }
}

/** Since when more was committed than `applied`. */
function ageOf(seen: readonly Seen[], applied: number, clockMs: number): number {
  const first = seen.find(({ committed }) => committed > applied);
  return first === undefined ? 0 : clockMs - first.atMs;
}
