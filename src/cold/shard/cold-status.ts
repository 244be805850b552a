/** The cold tier in the metrics. */
import type { Group } from '../../group/group.ts';
import { oldestHotMs } from '../../stream/cold/flush-plan.ts';
import type { ColdTier } from './tier.ts';

/** Sums over the groups and the shards of a node. */
export function coldCounters(groups: readonly Group[], cold: ColdTier | undefined): Record<string, number> {
  const total = (value: (group: Group) => number): number => groups.reduce((sum, group) => sum + value(group), 0);
  const always = {
    cold_hot_bytes: total(({ state }) => state.hotBytes),
    cold_bytes: total(({ state }) => state.cold.bytes),
    cold_objects: total(({ state }) => state.cold.objects),
    cold_gc_queue_length: total(({ state }) => state.cold.gcLength),
    // Backlog of this node: it flushes what it leads.
    cold_flush_backlog_bytes: cold === undefined ? 0 : total((group) => (group.leads ? group.state.hotBytes : 0)),
    cold_backpressure_events: total(({ admission }) => admission.counters.hotRefusals),
    cold_backpressure_bytes: total(({ admission }) => admission.counters.refusedBytes),
    raft_uncommitted_refusals: total(({ admission }) => admission.counters.uncommittedRefusals),
    raft_uncommitted_bytes: total(({ raft }) => raft.uncommittedBytes),
  };
  if (cold === undefined) return always;
  const { flusher, collector, sweeper, compactor } = cold;
  return {
    ...always,
    ...flusher.counters,
    cold_flush_uploads_running: flusher.uploading,
    ...collector.counters,
    ...sweeper.counters,
    ...compactor.counters,
    cold_compaction_candidates: compactor.candidates,
    cold_compaction_running: compactor.running,
  };
}

/** Members of a group's entry in raft_groups. */
export function describeCold(group: Group, cold: ColdTier | undefined, nowMs: number): Record<string, unknown> {
  const { state, admission } = group;
  const oldestMs = cold === undefined ? undefined : oldestHotMs(state);
  return {
    hot_bytes: state.hotBytes,
    cold_bytes: state.cold.bytes,
    cold_objects: state.cold.objects,
    cold_gc_queue_length: state.cold.gcLength,
    /** Age of the oldest bytes that are not in the cold store; null when there are none, or no store. */
    cold_backlog_age_ms: oldestMs === undefined ? null : Math.max(0, nowMs - oldestMs),
    cold_write_admission: admission.show(state),
    /** This node leads the group, and the store rejected its last upload. */
    cold_flush_failing: cold?.flusher.isFailing(group) ?? false,
  };
}
