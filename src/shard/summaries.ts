/** Answers about all groups of a shard: listings, buckets, the usage meter and the state shown in the metrics. */
import { errorNumber } from '../base/errors.ts';
import type { Group } from '../group/group.ts';
import type { Commits } from './commits.ts';
import type { DamagedGroups } from './damaged-groups.ts';
import type { GroupSnapshotCounters } from './replication.ts';
import type { ShardStorage } from './ports.ts';
import { coldCounters, describeCold } from '../cold/shard/cold-status.ts';
import type { ColdTier } from '../cold/shard/tier.ts';
import { isImporting } from '../stream/backup/apply-import.ts';
import type { ListedStream, RaftGroup } from '../protocol/queries/summaries.ts';
import { listStreams } from '../stream/operations/list.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Query } from '../protocol/request.ts';
import { compareText } from '../base/text.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { answerForks } from '../forks/shard/pending-work.ts';
import { answerUsage } from './usage-summary.ts';
import { QUERIES, type QueriesOf, byNumber, queriesWhere } from '../protocol/operations.ts';

type Summary = (shard: ShardStatus, query: Query, nowMs: number, reply: Reply) => void;

const SUMMARIES = byNumber<Summary>({
  list: ({ groups }, query, nowMs, reply) => answerList(groups, query, nowMs, reply),
  bucket: ({ groups }, query, _nowMs, reply) => answerBucket(groups, query, reply),
  usage: ({ groups }, query, _nowMs, reply) => answerUsage(groups, query, reply),
  forks: ({ groups }, query, _nowMs, reply) => answerForks(groups, query, reply),
  status: (shard, _query, nowMs, reply) => answerStatus(shard, nowMs, reply),
} satisfies Record<QueriesOf<'shard'> | 'status', Summary>);

const DURING_IMPORT = queriesWhere(({ scope }) => scope === 'control');

/** Answers a query about the whole shard. */
export function answerSummary(shard: ShardStatus, query: Query, nowMs: number, reply: Reply): void {
  // A half-done import is hidden, except from queries that accept partial state.
  const isShown = DURING_IMPORT.has(query.op) || isSoon(query);
  const summary = SUMMARIES[query.op];
  if (!isShown && shard.groups.some(({ state }) => isImporting(state))) reply.code = errorNumber('GROUP_IMPORTING');
  else if (summary === undefined) reply.code = errorNumber('INTERNAL');
  else summary(shard, query, nowMs, reply);
}

/** The query accepts what this node has when the leaders are late. */
export function isSoon(query: Query): boolean {
  return query.op === QUERIES.bucket.number && QUERIES.bucket.request.read(query).isSoon === true;
}

/** An array of streams in name order, at most `limit`. */
function answerList(groups: readonly Group[], query: Query, nowMs: number, reply: Reply): void {
  const { bucket, prefix, after, limit } = QUERIES.list.request.read(query);
  const [bucketName, start, behind] = [encodeUtf8(bucket), encodeUtf8(prefix), encodeUtf8(after)];
  const all: ListedStream[] = [];
  for (const group of groups) all.push(...listStreams(group.state, bucketName, start, behind, limit, nowMs));
  // In page order: a name that sorts elsewhere could fall between two pages.
  all.sort((a, b) => compareText(a.stream_id, b.stream_id));
  QUERIES.list.result.write(reply, all.slice(0, limit));
}

function answerBucket(groups: readonly Group[], query: Query, reply: Reply): void {
  const { bucket: text, countsAll = false } = QUERIES.bucket.request.read(query);
  const name = encodeUtf8(text);
  const sum = { streams: 0, exists: false, retainedBytes: 0, streamsMax: -1, retainedBytesMax: -1 };
  for (const { state, quotaExtras } of groups) {
    const bucket = state.buckets.of(state.tx, name, 0, name.length);
    sum.streams += bucket.streamCount;
    const hasQuota = countsAll || bucket.streamsMax >= 0 || bucket.retainedBytesMax >= 0;
    sum.retainedBytes += bucket.retainedBytes + (hasQuota ? quotaExtras.of(state, bucket) : 0);
    sum.exists ||= bucket.exists;
    sum.streamsMax = Math.max(sum.streamsMax, bucket.streamsMax);
    sum.retainedBytesMax = Math.max(sum.retainedBytesMax, bucket.retainedBytesMax);
  }
  QUERIES.bucket.result.write(reply, sum);
}

type TurnCounters = Record<'turns' | 'committedEntries' | 'requests' | 'refusedDiskFull' | 'refusedDiskSlow', number>;

/** The part of STATUS about a shard beyond its groups. */
export interface ShardStatus {
  readonly cold: ColdTier | undefined;
  readonly nodeId: number;
  readonly groups: readonly Group[];
  /** Whether it may know less than it acknowledged before this process started. */
  isBehind(group: Group): boolean;
  /** The state on disk covers everything up to it, so the log before it may be compacted. */
  snapshotIndex(group: Group): number;
  readonly full: boolean;
  /** Writes are refused because too much waits for the disk. */
  readonly isSlow: boolean;
  /** How long the checkpoint that is being written has taken. */
  readonly checkpointMs: number;
  /** Changes in memory that are not on disk. */
  readonly changedBytes: number;
  readonly storage: Pick<
    ShardStorage,
    'logBytesBehind' | 'logFileBytes' | 'logMemoryBytes' | 'logReadBack' | 'logSegments' | 'spaceLeft'
  >;
  readonly snapshots: GroupSnapshotCounters;
  readonly counters: Readonly<TurnCounters & Commits['counters'] & DamagedGroups['counters']>;
}

/** STATUS: Raft state per group, and the shard's counters: summed, for this core, and by group id. */
function answerStatus(shard: ShardStatus, nowMs: number, reply: Reply): void {
  const { groups, counters } = shard;
  let cachedHeads = 0;
  let watched = 0;
  let waiting = 0;
  for (const group of groups) {
    cachedHeads += group.state.cachedHeads;
    watched += group.watchers.size;
    waiting += group.waitingCount;
  }
  const perGroup = {
    per_group_appends: byGroup(groups, (group) => group.counters.appends),
    per_group_reads: byGroup(groups, (group) => group.counters.reads),
    per_group_applied_mutations: byGroup(groups, (group) => group.counters.commands),
    per_group_raft_apply_entries: byGroup(groups, (group) => group.counters.entries),
    per_group_cold_hot_bytes: byGroup(groups, (group) => group.state.hotBytes),
    per_group_cold_hot_bytes_max: byGroup(groups, ({ admission, state }) =>
      Math.max(admission.counters.hotBytesHighest, state.hotBytes),
    ),
    per_group_cold_backpressure_events: byGroup(groups, (group) => group.admission.counters.hotRefusals),
  };
  const perCore = {
    appends: sum(perGroup.per_group_appends),
    reads: sum(perGroup.per_group_reads),
    applied_mutations: sum(perGroup.per_group_applied_mutations),
    raft_apply_entries: counters.committedEntries,
    routed_requests: counters.requests,
    turns: counters.turns,
    wal_batches: counters.commits,
    wal_sync_ns: Math.round(counters.commitMicros * 1000),
    checkpoints: counters.checkpoints,
    checkpoint_ms: Math.round(shard.checkpointMs),
  };
  const { appends, reads, ...named } = perCore;
  QUERIES.status.result.write(reply, {
    raft_groups: groups.map((group) => describeGroup(shard, group, nowMs)),
    // Within the reserve writes are refused too, while what frees space is still committed.
    disk_full: shard.full || !shard.storage.spaceLeft,
    disk_slow: shard.isSlow,
    counters: {
      accepted_appends: appends,
      served_reads: reads,
      appended_bytes: sum(groups.map((group) => group.counters.appendedBytes)),
      read_bytes: sum(groups.map((group) => group.counters.readBytes)),
      ...named,
      ...coldCounters(groups, shard.cold),
      ...snapshotCounters(shard),
      disk_full_refusals: counters.refusedDiskFull,
      slow_disk_refusals: counters.refusedDiskSlow,
      unwritten_bytes: shard.changedBytes,
      damaged_rows: counters.damagedRows,
      damaged_groups: counters.stoppedGroups,
      repaired_groups: counters.repairedGroups,
      scrubbed_bytes: counters.scrubbedBytes,
      scrubs: counters.scrubs,
      differing_groups: counters.differingGroups,
      undecided_groups: counters.undecidedGroups,
      compared_bytes: counters.comparedBytes,
      comparisons: counters.comparisons,
      leaderships_given_up: sum(groups.map(({ raft }) => raft.abdications)),
      no_leader_refusals: sum(groups.map((group) => group.counters.refusedNoLeader)),
      cached_stream_heads: cachedHeads,
      watched_streams: watched,
      waiting_writes: waiting,
    },
    per_core: perCore,
    per_group: perGroup,
  });
}

function snapshotCounters({ storage, snapshots }: ShardStatus): Record<string, number> {
  return {
    group_snapshots_sent: snapshots.sent,
    group_snapshots_failed: snapshots.failed,
    group_snapshots_too_far_behind: snapshots.tooFarBehind,
    group_snapshots_received: snapshots.received,
    log_memory_bytes: storage.logMemoryBytes,
    log_entries_read_back: storage.logReadBack,
    log_segments: storage.logSegments,
    log_file_bytes: storage.logFileBytes,
  };
}

/** An array indexed by group id, 0 for groups of other shards. */
function byGroup(groups: readonly Group[], value: (group: Group) => number): number[] {
  const values: number[] = [];
  for (const group of groups) {
    while (values.length < group.id) values.push(0);
    values[group.id] = value(group);
  }
  return values;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function describeGroup(shard: ShardStatus, group: Group, nowMs: number): RaftGroup {
  const { raft, state } = group;
  const { addresses, voters, votersOutgoing: outgoing, learners } = raft.configuration;
  const isPending = outgoing.length > 0 || raft.configurationIndex > raft.commitIndex;
  return {
    raft_group_id: group.id,
    node_id: shard.nodeId,
    leader: raft.leader === 0 ? null : raft.leader,
    current_leader: raft.leader === 0 ? null : raft.leader,
    current_term: raft.term,
    last_log_index: raft.lastIndex,
    committed_index: raft.commitIndex,
    last_applied: state.appliedIndex,
    last_applied_index: state.appliedIndex,
    last_applied_term: state.appliedTerm,
    snapshot_index: shard.snapshotIndex(group),
    purged_index: raft.compactedIndex,
    log_bytes: shard.storage.logBytesBehind(group.id, raft.compactedIndex),
    caught_up: !shard.isBehind(group),
    importing: isImporting(state),
    ...(raft.mayVote ? {} : { log_lost: raft.lostLog }),
    voter_ids: voters,
    learner_ids: learners,
    ...(outgoing.length === 0 ? {} : { outgoing_voter_ids: outgoing }),
    ...(isPending ? { membership_pending: true } : {}),
    leaderships_given_up: raft.abdications,
    stalled: raft.isShy,
    ...(addresses === undefined ? {} : { member_addresses: Object.fromEntries(addresses) }),
    ...describeCold(group, shard.cold, nowMs),
  };
}
