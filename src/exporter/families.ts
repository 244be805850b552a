/**
 * The exporter serves one row for each family of metrics, with its place in the node's JSON.
 * Names are promises. No label comes from what users name: nodes, groups, cores, operations,
 * statuses and quantiles are few, and each has a bound here.
 */
import { type Json, isObject } from '../nodes/report.ts';

export type Kind = 'gauge' | 'counter' | 'summary' | 'histogram';
type Label = 'node' | 'group' | 'core' | 'operation' | 'status' | 'quantile' | 'le' | 'version';

export interface MetricSample {
  /** Besides the node. */
  readonly labels: Readonly<Partial<Record<Label, string>>>;
  readonly value: number;
  /** Summaries and histograms have `_count`, `_sum` and `_bucket`. */
  readonly suffix?: string;
}

export interface Family {
  readonly name: string;
  readonly kind: Kind;
  readonly help: string;
  readonly labels: readonly Label[];
  /** Where it is in the node's JSON. */
  readonly from: string;
  readonly read: (node: Json) => Iterable<MetricSample>;
}

/** As `raft.group_count` and `runtime.core_count` allow; entries behind these are not of our nodes. */
const GROUPS_MAX = 4096;
const CORES_MAX = 1024;
/** Sixteen today. */
const OPERATIONS_MAX = 32;
/** Seventeen today. */
const BUCKETS_MAX = 64;
const OPERATION = /^[a-z][a-z_]{0,23}$/;
const STATUS = /^[1-5]\d\d$/;
const VERSION = /^[\w.+-]{1,40}$/;
/**
 * In the units of the metric, since sums in the node's grow large: 10,000 long-polls that wait pass 2^53 microseconds
 * in eleven days. Beyond it a double is no whole number any more, and no count of ours.
 */
const VALUE_MAX = Number.MAX_SAFE_INTEGER;

const QUANTILES = { p50: '0.5', p90: '0.9', p99: '0.99', p999: '0.999' } as const;

/** In units of which each is `per` of the node's. Undefined: not a number that a node of ours says. */
function valueOf(found: unknown, per = 1): number | undefined {
  if (typeof found === 'boolean') return Number(found);
  // Divided, so that 10 ms are 0.01 s.
  return typeof found === 'number' && found >= 0 && found / per <= VALUE_MAX ? found / per : undefined;
}

function ownOf(value: Json, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

function* one(found: unknown, per = 1, labels: MetricSample['labels'] = {}): Iterable<MetricSample> {
  const value = valueOf(found, per);
  if (value !== undefined) yield { labels, value };
}

function at(node: Json, path: string): unknown {
  return path.split('.').reduce<unknown>((found, name) => (isObject(found) ? ownOf(found, name) : undefined), node);
}

const NS = 1e9;
const US = 1e6;
const MS = 1e3;

/** `from`: where it is in the node's JSON. `per`: how many of the node's units are one of the metric's. */
const gauge = (name: string, help: string, from = name, per = 1): Family => ({
  ...{ name: `millrace_${name}`, kind: 'gauge', help, from, labels: ['node'] },
  read: (node) => one(at(node, from), per),
});
const counter = (name: string, help: string, from = name, per = 1): Family => ({
  ...gauge(`${name}_total`, help, from, per),
  kind: 'counter',
});

const ofCore = (name: string, help: string, from: string): Family => ({
  ...{ name: `millrace_${name}`, kind: name.endsWith('_total') ? 'counter' : 'gauge', help, from },
  labels: ['node', 'core'],
  *read(node) {
    const list = at(node, from);
    if (!Array.isArray(list)) return;
    for (const [core, found] of list.slice(0, CORES_MAX).entries()) yield* one(found, 1, { core: String(core) });
  },
});

type ReadGroup = (group: Json, node: Json) => unknown;

const ofGroup = (name: string, help: string, from = name, read: ReadGroup = (group) => ownOf(group, from)): Family => ({
  ...{ name: `millrace_group_${name}`, kind: name.endsWith('_total') ? 'counter' : 'gauge', help },
  from: `raft_groups.${from}`,
  labels: ['node', 'group'],
  *read(node) {
    for (const [id, group] of groupsOf(node))
      yield* one(read(group, node), name.endsWith('_seconds') ? MS : 1, { group: String(id) });
  },
});

/** The first of each id: an answer that repeats one makes no more series. */
function groupsOf(node: Json, name = 'raft_groups'): ReadonlyMap<number, Json> {
  const list = at(node, name);
  const groups = new Map<number, Json>();
  if (!Array.isArray(list)) return groups;
  for (const entry of list.slice(0, GROUPS_MAX) as readonly unknown[]) {
    const group = isObject(entry) ? entry : {};
    const id = ownOf(group, 'raft_group_id');
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= GROUPS_MAX || groups.has(id)) continue;
    groups.set(id, group);
  }
  return groups;
}

/** By name, as many as a node of ours has. */
function operationsOf(node: Json): [string, Json][] {
  const operations = at(node, 'latency_us');
  if (!isObject(operations)) return [];
  return Object.entries(operations)
    .flatMap(([operation, found]): [string, Json][] => (isObject(found) ? [[operation, found]] : []))
    .filter(([operation]) => OPERATION.test(operation))
    .slice(0, OPERATIONS_MAX);
}

/** Whole numbers that a node of ours says, or none at all. */
function countsOf(found: unknown): number[] {
  if (!Array.isArray(found) || found.length > BUCKETS_MAX) return [];
  const counts = found.map((count) => valueOf(count)).filter((value) => value !== undefined);
  return counts.length === found.length ? counts : [];
}

const DURATION: Family = {
  name: 'millrace_request_duration_seconds',
  kind: 'histogram',
  help: 'How long requests took, from their head to the end of the answer',
  labels: ['node', 'operation', 'le'],
  from: 'latency_us',
  *read(node) {
    const bounds = countsOf(at(node, 'latency_buckets_us'));
    // Two buckets of one bound would be one series with two values.
    if (bounds.some((bound, i) => i > 0 && bound <= (bounds[i - 1] ?? 0))) return;
    for (const [operation, found] of operationsOf(node)) {
      const buckets = countsOf(ownOf(found, 'buckets'));
      const sum = valueOf(ownOf(found, 'sum'), US);
      if (bounds.length === 0 || buckets.length !== bounds.length + 1 || sum === undefined) continue;
      let value = 0;
      for (const [i, count] of buckets.entries()) {
        value += count;
        const bound = bounds[i];
        const le = bound === undefined ? '+Inf' : String(bound / US);
        yield { labels: { operation, le }, value, suffix: '_bucket' };
      }
      yield { labels: { operation }, value: sum, suffix: '_sum' };
      yield { labels: { operation }, value, suffix: '_count' };
    }
  },
};

const LATENCY: Family = {
  name: 'millrace_request_latency_seconds',
  kind: 'summary',
  help: 'How long requests took, from their head to the end of the answer, since the node started',
  labels: ['node', 'operation', 'quantile'],
  from: 'latency_us',
  *read(node) {
    for (const [operation, found] of operationsOf(node)) {
      for (const [member, quantile] of Object.entries(QUANTILES))
        yield* one(ownOf(found, member), US, { operation, quantile });
      for (const { value } of one(ownOf(found, 'count'))) yield { labels: { operation }, value, suffix: '_count' };
    }
  },
};

const RESPONSES: Family = {
  name: 'millrace_responses_total',
  kind: 'counter',
  help: 'Answers by HTTP status',
  labels: ['node', 'status'],
  from: 'responses_by_status',
  *read(node) {
    const statuses = at(node, 'responses_by_status');
    if (!isObject(statuses)) return;
    for (const [status, found] of Object.entries(statuses)) if (STATUS.test(status)) yield* one(found, 1, { status });
  },
};

const BUILD: Family = {
  name: 'millrace_build_info',
  kind: 'gauge',
  help: '1, with the version of the node',
  labels: ['node', 'version'],
  from: 'version',
  *read(node) {
    const version = at(node, 'version');
    if (typeof version === 'string' && VERSION.test(version)) yield { labels: { version }, value: 1 };
  },
};

/** These two metrics come from the exporter itself. */
export const UP = 'millrace_up';
export const ANSWER_SECONDS = 'millrace_scrape_duration_seconds';
const EXPORTER = 'the exporter';

/** In the order in which they are served. */
export const FAMILIES: readonly Family[] = [
  gauge('up', '1 if the node answered the exporter, else 0', EXPORTER),
  gauge('scrape_duration_seconds', 'How long the node took to answer the exporter, or to fail', EXPORTER),
  BUILD,
  gauge('uptime_seconds', 'Since the process started', 'uptime_ms', MS),
  gauge('resident_memory_bytes', 'Memory of the process', 'process_rss_bytes'),
  // Load.
  RESPONSES,
  DURATION,
  LATENCY,
  counter('appends', 'Appends that this node accepted', 'accepted_appends'),
  counter('appended_bytes', 'Bytes of appends that this node applied; replicated ones too'),
  counter('reads', 'Reads that its shards served', 'served_reads'),
  counter('read_bytes', 'Bytes that its shards brought for reads; those from memory are not among them'),
  counter('read_cache_hits', 'Reads answered from the memory of the main thread'),
  counter('read_cache_hit_bytes', 'Bytes of these answers'),
  counter('read_cache_misses', 'Answers of 4 KiB and more that were not in that memory'),
  gauge('read_cache_bytes', 'Held in that memory'),
  gauge('live_readers', 'Long polls and event streams that wait', 'live_read_waiters'),
  gauge('sse_readers', 'Event streams among them'),
  counter('slow_readers', 'Live readers that were too slow and were ended', 'live_read_slow_readers'),
  gauge('connections', 'Connections to the client plane', 'http_connections'),
  gauge('connections_max', 'The bound of them', 'http_connections_max'),
  counter('connections_refused', 'Connections closed because of that bound', 'http_connections_refused'),
  gauge('inflight_body_bytes', 'Request bodies held in memory', 'http_inflight_body_bytes'),
  gauge('inflight_body_max_bytes', 'The bound of them', 'http_inflight_body_bytes_max'),
  gauge('unsent_answer_bytes', 'Answers that wait for slow clients', 'http_unsent_answer_bytes'),
  ofCore('mailbox_bytes', 'Requests that wait for a core', 'mailbox_depths'),
  ofCore('mailbox_max_bytes', 'The bound of them', 'mailbox_capacities'),
  counter('mailbox_full', 'Requests refused because a mailbox was full', 'mailbox_full_events'),
  ofCore('core_appends_total', 'Appends by core', 'per_core_appends'),
  ofCore('core_turns_total', 'Turns of a shard', 'per_core_turns'),
  // The log and the disk.
  counter('log_commits', 'Records that were written to the log and synced', 'wal_batches'),
  counter(
    'log_commit_seconds',
    'Time that these writes took; by log_commits it is the latency of the disk',
    'wal_sync_ns',
    NS,
  ),
  gauge('log_files_bytes', 'Files of the logs, free ones too', 'log_file_bytes'),
  gauge('log_memory_bytes', 'Log held in memory for followers'),
  counter('checkpoints', 'Checkpoints of state'),
  gauge('unwritten_bytes', 'Changed state in memory that no checkpoint has on disk'),
  gauge('volume_bytes', 'The data volume'),
  gauge('volume_free_bytes', 'What is free of it'),
  gauge('disk_slow', '1 while writes are refused because checkpoints are too slow'),
  gauge('disk_full', '1 while a data volume has no room for writes'),
  counter('disk_full_refusals', 'Writes refused for lack of room'),
  counter('slow_disk_refusals', 'Writes refused because checkpoints are too slow'),
  gauge('damaged_rows', 'Rows of the state that the disk changed and that are not repaired'),
  gauge('damaged_groups', 'Groups that have stopped on the node because of such a row'),
  counter('repaired_groups', 'Groups with such rows whose state a leader replaced'),
  counter('scrubbed_bytes', 'State that was read to find such rows'),
  counter('scrubs', 'Times that all of it was read'),
  gauge('differing_groups', 'Groups of which the node has other rows than most replicas'),
  gauge('undecided_groups', 'Groups that the node leads whose replicas differ, without a majority'),
  counter('compared_bytes', 'State that was compared between the replicas of groups that the node leads'),
  counter('comparisons', 'Times that all of such a group was compared'),
  // Replication.
  counter('no_leader_refusals', 'Writes refused for lack of a leader'),
  counter('leaderships_given_up', 'Leaderships handed over because nothing was committed'),
  counter('group_snapshots_sent', 'Group snapshots for followers that were away'),
  counter('group_snapshots_failed', 'Group snapshots that did not arrive'),
  counter('group_snapshots_too_far_behind', 'Followers that take in less than is written'),
  counter('group_snapshots_received', 'Group snapshots from other nodes'),
  gauge(
    'leadership_shed',
    '1 while the node gives its leaderships away',
    'leadership_shed.should_shed_current_leaders',
  ),
  counter('balancer_transfers', 'Leaderships that the balancer moved'),
  counter('cluster_probe_failures', 'Rounds in which the node reached no majority', 'cluster_probe_bad_ticks'),
  ofGroup('leads', '1 if this node leads the group, by its own account', 'leader', (group, node) => {
    const leader = ownOf(group, 'leader');
    return typeof leader === 'number' && leader === (ownOf(node, 'node_id') ?? ownOf(group, 'node_id'));
  }),
  ofGroup('has_leader', '1 if the node knows a leader of the group', 'leader', (group) => {
    return typeof ownOf(group, 'leader') === 'number';
  }),
  ofGroup('term', 'Term; one that keeps growing is an unsteady network', 'current_term'),
  ofGroup('committed_index', 'Last entry that is committed, as far as the node knows'),
  ofGroup('applied_index', 'Last entry that the node applied', 'last_applied'),
  ofGroup('last_log_index', 'Last entry of the log of the node'),
  ofGroup('log_bytes', 'What the log of the group takes on disk'),
  ofGroup('caught_up', '0 while the node may know less of the group than it acknowledged'),
  ofGroup(
    'stalled',
    '1 for some 20 election timeouts after the node led the group, committed nothing although followers answered, and gave up',
  ),
  ofGroup('leaderships_given_up_total', 'How often it did', 'leaderships_given_up'),
  ofGroup('log_lost', '1 while the node waits to be refilled and does not vote', 'log_lost', (group) => {
    return ownOf(group, 'log_lost') !== undefined;
  }),
  ofGroup('voters', 'Voters of the group', 'voter_ids', ({ voter_ids: ids }) => {
    return Array.isArray(ids) ? ids.length : undefined;
  }),
  ofGroup('hot_bytes', 'Bytes of the group on the node'),
  ofGroup('cold_bytes', 'Bytes of the group in the cold store'),
  ofGroup('cold_backlog_age_seconds', 'How long the oldest byte waits for the cold store', 'cold_backlog_age_ms'),
  ofGroup('cold_refusing', '1 while writes are refused until bytes have left', 'cold_write_admission', (group) => {
    const admission = ownOf(group, 'cold_write_admission');
    return typeof admission === 'string' ? admission === 'refusing' : undefined;
  }),
  {
    ...{ name: 'millrace_group_exported_timestamp_seconds', kind: 'gauge', labels: ['node', 'group'] },
    help: 'When the node last exported the whole group for a backup, in seconds since 1970',
    from: 'exports_finished',
    *read(node) {
      for (const [id, group] of groupsOf(node, 'exports_finished'))
        yield* one(ownOf(group, 'finished_unix_ms'), MS, { group: String(id) });
    },
  },
  gauge(
    'certificate_end_timestamp_seconds',
    'When the first certificate of the planes ends, authorities of clients too, in seconds since 1970; absent without TLS',
    'certificate_end_unix_ms',
    MS,
  ),
  gauge(
    'cluster_certificate_end_timestamp_seconds',
    'When the first certificate of the links between nodes ends, authorities too, in seconds since 1970; absent without TLS',
    'cluster_certificate_end_unix_ms',
    MS,
  ),
  counter('audit_write_errors', 'Tries to write the audit log that failed; lines are lost when they go on'),
  // The cold store.
  gauge(
    'cold_store_reachable',
    '0 while the node does not reach its cold store; absent without one',
    'cold_store.reachable',
  ),
  gauge('cold_hot_bytes', 'Bytes on the node'),
  gauge('cold_bytes', 'Bytes in the store, of the groups of the node'),
  gauge('cold_backlog_bytes', 'Bytes that wait for the store', 'cold_flush_backlog_bytes'),
  gauge('cold_backlog_age_seconds', 'How long the oldest of them waits', 'cold_flush_backlog_age_ms', MS),
  counter('cold_upload_errors', 'Uploads that failed', 'cold_flush_write_errors'),
  counter('cold_upload_bytes', 'Uploaded', 'cold_store_upload_bytes'),
  counter('cold_read_bytes', 'Read from the store', 'cold_store_read_bytes'),
  counter('cold_read_bad_objects', 'Objects that were missing or altered'),
  counter('cold_refusals', 'Writes refused until bytes have left', 'cold_backpressure_events'),
  // Features.
  counter('trace_spans_exported', 'Spans that the receiver of traces took'),
  counter('trace_spans_lost', 'Spans that it did not take, or that found the queue full'),
  gauge('subscriptions', 'Subscriptions of the cluster, which every node knows', 'subscriptions.total'),
  gauge('subscriptions_failing', 'Of these, whose deliveries fail', 'subscriptions.failing'),
  counter(
    'subscription_deliveries',
    'Deliveries of this node, which drives all or none of them, that were taken',
    'subscriptions.delivered',
  ),
  counter('subscription_delivery_failures', 'Deliveries that were not', 'subscriptions.delivery_failures'),
  counter('forks_made', 'Forks'),
  counter('forks_failed', 'Forks that were given up'),
  counter('quota_refusals', 'Writes refused by quotas'),
  counter('limit_refusals', 'Requests and live readers refused by limits of tokens and buckets'),
];
