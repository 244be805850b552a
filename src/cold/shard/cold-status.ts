/** The cold tier in the metrics. */
import type { Group } from '../../group/group.ts';
import { oldestHotMs } from '../../stream/cold/flush-plan.ts';
import type { ColdTier } from './tier.ts';

const NS_PER_MS = 1_000_000;

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
  const flushed = flusher.counters;
  const compacted = compactor.counters;
  return {
    ...always,
    cold_flush_uploads: flushed.uploads,
    cold_flush_upload_bytes: flushed.uploadBytes,
    cold_flush_upload_ns: Math.round(flushed.uploadMs * NS_PER_MS),
    cold_flush_uploads_running: flusher.uploading,
    cold_flush_write_errors: flushed.uploadErrors,
    cold_pack_uploads: flushed.packs,
    cold_pack_bytes: flushed.packBytes,
    cold_pack_slices: flushed.packSlices,
    cold_flush_publishes: flushed.publishes,
    cold_flush_publish_bytes: flushed.publishBytes,
    cold_flush_publish_ns: Math.round(flushed.publishMs * NS_PER_MS),
    cold_flush_stale: flushed.stale,
    cold_flush_forgotten: flushed.forgotten,
    cold_pressure_flush_passes: flushed.pressurePasses,
    cold_pressure_flush_candidates: flushed.pressureSlices,
    cold_gc_reclaimed: collector.counters.reclaimed,
    cold_gc_errors: collector.counters.errors,
    cold_sweep_passes: sweeper.counters.passes,
    cold_sweep_listed: sweeper.counters.listed,
    cold_orphan_cleanup_attempts: sweeper.counters.orphans,
    cold_orphan_cleanup_errors: sweeper.counters.errors,
    cold_orphan_bytes: sweeper.counters.orphanBytes,
    cold_compaction_candidates: compactor.candidates,
    cold_compaction_running: compactor.running,
    cold_compaction_jobs: compacted.jobs,
    cold_compaction_publishes: compacted.publishes,
    cold_compaction_bytes: compacted.bytes,
    cold_compaction_chunks_merged: compacted.merged,
    cold_compaction_chunks_written: compacted.written,
    cold_compaction_errors: compacted.errors,
    cold_compaction_bad_sources: compacted.bad,
    cold_compaction_stale: compacted.stale,
    cold_compaction_forgotten: compacted.forgotten,
    cold_compaction_dropped: compacted.dropped,
  };
}

/** Members of a group's entry in raft_groups. */
export function describeCold(group: Group, cold: ColdTier | undefined, nowMs: number): Record<string, unknown> {
  const { state, admission } = group;
  const oldestMs = oldestHotMs(state);
  return {
    hot_bytes: state.hotBytes,
    cold_bytes: state.cold.bytes,
    cold_objects: state.cold.objects,
    cold_gc_queue_length: state.cold.gcLength,
    /** Age of the oldest bytes that are not in the cold store; null when there are none, or no store. */
    cold_backlog_age_ms: cold === undefined || oldestMs === undefined ? null : Math.max(0, nowMs - oldestMs),
    cold_write_admission: admission.show(state),
    /** This node leads the group, and the store rejected its last upload. */
    cold_flush_failing: cold?.flusher.isFailing(group) ?? false,
  };
}
