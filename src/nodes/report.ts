/**
 * Reads a node's /__svc/metrics as far as an operator's decisions need it. Pure. Anything may
 * answer, so lists and texts are cut where a node of ours ends, and texts are made harmless.
 */
import { GROUP_COUNT_MAX } from '../base/hash.ts';
import { printable } from './failure.ts';

/** How many members a list of one group may have. */
const MEMBERS_MAX = 256;
/** A version is shorter, and so is a reason that is worth reading. */
const TEXT_CHARS_MAX = 400;

export interface ColdAway {
  /** ISO 8601; empty when the node does not say. */
  readonly since: string;
  /** The store has answered since the node started. */
  readonly wasReached: boolean;
  readonly reason: string;
}

export type Json = Readonly<Record<string, unknown>>;

/** A drain marked the node: it leads nothing until undrain. */
export function isMarked(report: NodeReport | undefined): boolean {
  return report?.shedState.includes('maintenance-drain') === true;
}

export type NodeReport = Readonly<NonNullable<ReturnType<typeof parseMetrics>>>;

/** Undefined when this is not what a node of this service answers. Unknown members are ignored. */
export function parseMetrics(value: unknown) {
  if (!isObject(value)) return undefined;
  const { raft_groups: reported } = value;
  if (!Array.isArray(reported)) return undefined;
  const groups: readonly GroupReport[] = groupsOf(reported).toSorted((a, b) => a.id - b.id);
  const shed = objectAt(value, 'leadership_shed');
  const ownId = value['node_id'] ?? asObject(reported[0])['node_id'];
  return {
    /** Undefined when the answer does not say whose it is. */
    nodeId: typeof ownId === 'number' ? ownId : undefined,
    /** The cluster that its data directory belongs to. Undefined: it does not know yet, or does not say. */
    clusterId: typeof value['cluster_id'] === 'string' ? textAt(value, 'cluster_id') : undefined,
    groups,
    /** `none`, or why the node must not lead. */
    shedState: textAt(shed, 'state', 'none'),
    acceptsTransfers: shed['should_accept_transfer'] !== false,
    uptimeMs: typeof value['uptime_ms'] === 'number' ? value['uptime_ms'] : undefined,
    version: textAt(value, 'version'),
    hotBytes: numberAt(value, 'cold_hot_bytes'),
    coldBytes: numberAt(value, 'cold_bytes'),
    /** Bytes on their way to the cold store, and the age of the oldest. */
    backlogBytes: numberAt(value, 'cold_flush_backlog_bytes'),
    backlogAgeMs: numberAt(value, 'cold_flush_backlog_age_ms'),
    /** Requests waiting for a core, in bytes, and the bound of it. */
    mailboxBytes: sumAt(value, 'mailbox_depths'),
    mailboxCapacityBytes: sumAt(value, 'mailbox_capacities'),
    residentBytes: numberAt(value, 'process_rss_bytes'),
    diskFull: value['disk_full'] === true,
    /** Rows of the state that the disk changed and no other node has repaired, and groups that stopped for one. */
    damagedRows: numberAt(value, 'damaged_rows'),
    stoppedGroups: numberAt(value, 'damaged_groups'),
    /** Groups of which it has other rows than most replicas; and that it leads and whose replicas have no majority. */
    differingGroups: numberAt(value, 'differing_groups'),
    undecidedGroups: numberAt(value, 'undecided_groups'),
    /** How long ago the node exported a whole group for a backup, by group; it forgets when it restarts. */
    exportAgesMs: exportAgesOf(value),
    /** Until the certificate of its planes ends; undefined without one. */
    certificateLeftMs: certificateLeftOf(value, 'certificate_end_unix_ms'),
    /** And that of its links to other nodes. */
    linkCertificateLeftMs: certificateLeftOf(value, 'cluster_certificate_end_unix_ms'),
    /** `open`, `pressure` or `refusing`. */
    admission: admissionOf(value),
    /** Undefined: the node reaches its cold store, has none, or does not say. */
    coldAway: coldAwayOf(objectAt(value, 'cold_store')),
  };
}

/** The reported groups, only the first of each id. */
function groupsOf(reported: readonly unknown[]): GroupReport[] {
  const groups = new Map<number, GroupReport>();
  for (const entry of reported.slice(0, GROUP_COUNT_MAX)) {
    if (!isObject(entry)) continue;
    const group = parseGroup(entry);
    const isOurs = Number.isInteger(group.id) && group.id >= 0 && group.id < GROUP_COUNT_MAX;
    if (isOurs && !groups.has(group.id)) groups.set(group.id, group);
  }
  return [...groups.values()];
}

export type GroupReport = Readonly<ReturnType<typeof parseGroup>>;

function parseGroup(group: Json) {
  const leader = group['leader'] ?? group['current_leader'];
  return {
    id: numberAt(group, 'raft_group_id'),
    leader: typeof leader === 'number' ? leader : undefined,
    term: numberAt(group, 'current_term'),
    /** Indexes; 0 when the node knows of none. */
    committed: numberAt(group, 'committed_index'),
    applied: numberAt(group, group['last_applied_index'] === undefined ? 'last_applied' : 'last_applied_index'),
    lastLog: numberAt(group, 'last_log_index'),
    voters: idsAt(group, 'voter_ids'),
    /** In the middle of a change of voters: those before, whose majority is needed as well. */
    outgoing: idsAt(group, 'outgoing_voter_ids'),
    learners: idsAt(group, 'learner_ids'),
    /** These members are not committed, or not final. Older nodes do not say. */
    isPending: group['membership_pending'] === true,
    /** False: the node may know less than it acknowledged before its start. */
    caughtUp: group['caught_up'] !== false,
    /** It lost its log, or has an older copy of it, and does not vote before a leader has refilled it. */
    logLost: group['log_lost'] !== undefined,
    /** A leader was told to, and the node has heard of it. */
    refilled: group['log_lost'] === 'allowed',
  };
}

function exportAgesOf(value: Json): ReadonlyMap<number, number> {
  const list = value['exports_finished'];
  const exports = Array.isArray(list) ? list.slice(0, GROUP_COUNT_MAX).filter(isObject) : [];
  const ageOf = (one: Json): number => numberAt(value, 'unix_ms') - numberAt(one, 'finished_unix_ms');
  return new Map(exports.map((one) => [numberAt(one, 'raft_group_id'), ageOf(one)]));
}

function certificateLeftOf(value: Json, key: string): number | undefined {
  const endMs = value[key];
  return typeof endMs === 'number' ? endMs - numberAt(value, 'unix_ms') : undefined;
}

function admissionOf(value: Json): string {
  return textAt(objectAt(value, 'cold_write_admission'), 'state', 'open');
}

function coldAwayOf(store: Json): ColdAway | undefined {
  if (store['reachable'] !== false) return undefined;
  return {
    since: textAt(store, 'unreachable_since'),
    wasReached: store['was_reached'] !== false,
    reason: textAt(store, 'last_error'),
  };
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function objectAt(value: Json, name: string): Json {
  return asObject(value[name]);
}

function asObject(found: unknown): Json {
  return isObject(found) ? found : {};
}

export function numberAt(value: Json, name: string): number {
  const found = value[name];
  return typeof found === 'number' ? found : 0;
}

function textAt(value: Json, name: string, otherwise = ''): string {
  const found = value[name];
  return typeof found === 'string' ? printable(found.slice(0, TEXT_CHARS_MAX)) : otherwise;
}

function sumAt(value: Json, name: string): number {
  const found = value[name];
  if (!Array.isArray(found)) return 0;
  return found.reduce((sum: number, one: unknown) => sum + (typeof one === 'number' ? one : 0), 0);
}

function idsAt(value: Json, name: string): readonly number[] {
  const found = value[name];
  return Array.isArray(found) ? found.slice(0, MEMBERS_MAX).filter((one) => typeof one === 'number') : [];
}
