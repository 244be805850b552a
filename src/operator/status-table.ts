/** A snapshot for the eye: a table with a line per node, and below it, in sentences, whatever is not as it should be. */
import Table from 'cli-table3';
import type { ClusterNode } from './cluster-file.ts';
import { cut, wrap } from './live-screen.ts';
import { paint } from './output.ts';
import type { ColdAway, NodeReport } from './report.ts';
import {
  type ClusterSnapshot,
  foreignTo,
  groupViews,
  lagOf,
  leaderships,
  ledBy,
  listOf,
  nameGroups,
} from './cluster-snapshot.ts';

const HEAD = [
  ...['node', 'host', 'state', 'leads', 'groups', 'lag', 'term', 'hot', 'cold', 'backlog', 'mailbox', 'memory', 'up'],
] as const;
/** Columns of numbers are aligned at their right ends. */
const FIRST_NUMBER = 3;
/** What a narrow window goes without, the first one first. */
const DISPENSABLE: readonly (typeof HEAD)[number][] = [
  ...(['up', 'memory', 'term', 'cold', 'mailbox', 'groups', 'backlog', 'hot', 'host'] as const),
];

/** Columns are two blanks apart and nothing else is drawn, so that lines can be cut with awk. */
const NO_FRAME = {
  ...{ top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '', 'bottom-left': '' },
  ...{ 'bottom-right': '', left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '', middle: '  ' },
};

/** Lines for a window of so many columns. */
export function renderStatus(
  nodes: readonly ClusterNode[],
  snapshot: ClusterSnapshot,
  columns: number = Infinity,
): string[] {
  const sentences = summary(nodes, snapshot).flatMap((line) => wrap(line, columns));
  const [clusterId] = clusterIdsOf(snapshot).keys();
  const head = clusterId === undefined ? [] : [cut(`cluster_id ${clusterId}`, columns)];
  return [...head, ...tableOf(nodes, snapshot, columns), '', ...sentences];
}

function tableOf(nodes: readonly ClusterNode[], snapshot: ClusterSnapshot, columns: number): string[] {
  const rows = nodes.map((node) => rowOf(node, snapshot));
  for (let without = 0; ; without++) {
    const left = DISPENSABLE.slice(0, without);
    const shown = HEAD.map((_, i) => i).filter((i) => !left.includes(HEAD[i]!));
    const table = new Table({
      head: shown.map((i) => HEAD[i]!),
      chars: NO_FRAME,
      style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
      colAligns: shown.map((i) => (i < FIRST_NUMBER ? 'left' : 'right')),
    });
    for (const row of rows) table.push(shown.map((i) => row[i]!));
    const lines = table.toString().split('\n');
    const fits = lines.every((line) => line.length < columns);
    if (!fits && without < DISPENSABLE.length) continue;
    // Painted when they are cut: escapes have no width.
    const whole = lines.map((line, i) => paintRow(cut(line.trimEnd(), columns), rows[i - 1]?.[2]));
    return without === 0 ? whole : [...whole, ...wrap(`not shown in so few columns: ${left.join(', ')}`, columns)];
  }
}

/** The heading has no state. */
function paintRow(line: string, state: string | undefined): string {
  if (state === undefined) return paint(line, 'bold');
  if (state === 'ok') return line;
  return paint(line, state === 'unreachable' ? 'red' : 'yellow');
}

function rowOf({ id, host }: ClusterNode, snapshot: ClusterSnapshot): string[] {
  const report = snapshot.find(({ nodeId }) => nodeId === id)?.report;
  if (report === undefined) return [String(id), host, 'unreachable', ...HEAD.slice(FIRST_NUMBER).map(() => '-')];
  const leads = report.groups.filter(({ leader }) => leader === id).length;
  const terms = report.groups.map(({ term }) => term);
  const { backlogBytes, backlogAgeMs } = report;
  return [
    String(id),
    host,
    stateOf(report, { isForeign: foreignTo(snapshot, id).length > 0, isLeading: ledBy(snapshot, id).length > 0 }),
    String(leads),
    String(report.groups.length),
    String(lagOf(snapshot, id)),
    terms.length === 0 ? '-' : range(Math.min(...terms), Math.max(...terms)),
    formatBytes(report.hotBytes),
    formatBytes(report.coldBytes),
    backlogBytes === 0 ? '0 B' : `${formatBytes(backlogBytes)}, ${formatAge(backlogAgeMs)}`,
    formatBytes(report.mailboxBytes),
    formatBytes(report.residentBytes),
    report.uptimeMs === undefined ? '-' : formatAge(report.uptimeMs),
  ];
}

interface NodeFacts {
  readonly isForeign: boolean;
  /** As far as any node knows. */
  readonly isLeading: boolean;
}

/** In one or two words; the sentences below the table say more. */
function stateOf(report: NodeReport, { isForeign, isLeading }: NodeFacts): string {
  const words: string[] = [];
  if (isForeign) words.push('not a member');
  if (report.shedState.includes('maintenance-drain')) words.push(isLeading ? 'draining' : 'drained');
  if (report.shedState.includes('cluster-egress')) words.push('cut off');
  if (report.shedState.includes('cold-health')) words.push('no cold store');
  else if (report.coldAway !== undefined) words.push('cold store away');
  if (report.shedState.includes('commit-stall')) words.push('stalled');
  if (report.diskFull) words.push('disk full');
  if (report.admission === 'refusing') words.push('refusing writes');
  if (report.groups.some(({ leader }) => leader === undefined)) words.push('no leader');
  if (report.groups.some(({ caughtUp }) => !caughtUp)) words.push('behind');
  return words.length === 0 ? 'ok' : words.join(', ');
}

export function summary(nodes: readonly ClusterNode[], snapshot: ClusterSnapshot): string[] {
  const answers = snapshot.filter(({ report }) => report !== undefined);
  const views = groupViews(snapshot);
  const leaderless = views.filter(({ leader }) => leader === undefined).map(({ id }) => id);
  const leaders = [...leaderships(snapshot)].sort(([a], [b]) => a - b).map(([id, count]) => `${id}: ${count}`);
  const groups = views.length === 1 ? '1 group' : `${views.length} groups`;
  const lines = [`${answers.length} of ${nodes.length} nodes answer; ${groups}, leaders={${leaders.join(', ')}}`];
  const versions = told(snapshot, ({ version }) => (version === '' ? undefined : version));
  if (versions.size > 1) lines.push(`versions differ: ${nameTold(versions)}`);
  const clusterIds = clusterIdsOf(snapshot);
  if (clusterIds.size > 1)
    lines.push(`the data directories are of several clusters (cluster_id), which do not talk: ${nameTold(clusterIds)}`);
  for (const { nodeId, report, error } of snapshot) {
    const name = `node ${nodeId} (${nodes.find(({ id }) => id === nodeId)?.host ?? ''})`;
    if (report === undefined) lines.push(`${name}: metrics unavailable — ${error}`);
    else lines.push(...faultsOf(report, foreignTo(snapshot, nodeId)).map((fault) => `${name}: ${fault}`));
  }
  if (leaderless.length > 0)
    lines.push(`${nameGroups(leaderless)} ${leaderless.length === 1 ? 'has' : 'have'} no leader: writes wait`);
  const asleep = views.filter(
    ({ voters }) =>
      voters.length > 0 &&
      !hasMajority(
        voters,
        answers.map(({ nodeId }) => nodeId),
      ),
  );
  if (asleep.length > 0) lines.push(`${nameGroups(asleep.map(({ id }) => id))}: most voters do not answer here`);
  return lines;
}

/** Which nodes say what, of those that say it. */
function told(snapshot: ClusterSnapshot, what: (report: NodeReport) => string | undefined): Map<string, number[]> {
  const all = new Map<string, number[]>();
  for (const { nodeId, report } of snapshot) {
    const said = report === undefined ? undefined : what(report);
    if (said !== undefined) all.set(said, [...(all.get(said) ?? []), nodeId]);
  }
  return all;
}

function nameTold(all: ReadonlyMap<string, readonly number[]>): string {
  return [...all].map(([said, ids]) => `${said} on node${ids.length > 1 ? 's' : ''} ${listOf(ids)}`).join(', ');
}

/** What most nodes say comes first. */
function clusterIdsOf(snapshot: ClusterSnapshot): Map<string, number[]> {
  const all = told(snapshot, ({ clusterId }) => clusterId);
  return new Map([...all].sort(([, a], [, b]) => b.length - a.length));
}

function faultsOf(report: NodeReport, foreign: readonly number[]): string[] {
  const behind = report.groups.filter(({ caughtUp }) => !caughtUp).map(({ id }) => id);
  const faults: string[] = [];
  if (foreign.length > 0)
    faults.push(`no member of ${nameGroups(foreign)}, takes no writes there and may show old bytes: stop it`);
  if (report.shedState.includes('maintenance-drain'))
    faults.push('marked for maintenance, leads nothing until undrain');
  if (report.shedState.includes('cluster-egress'))
    faults.push('its probes do not reach a majority of the nodes, so it gives its leaderships away');
  if (report.shedState.includes('cold-health'))
    faults.push('it does not reach the cold store, so it gives its leaderships to nodes that do');
  if (report.shedState.includes('commit-stall'))
    faults.push('it gave up leaderships under which nothing was committed: look at its links and disks');
  if (report.coldAway !== undefined) faults.push(coldFault(report, report.coldAway));
  if (report.diskFull) faults.push('its disk is full, writes are answered 507');
  if (report.admission === 'refusing') faults.push('too many bytes wait for the cold store, writes are answered 503');
  if (behind.length > 0) faults.push(`not caught up in ${nameGroups(behind)}, reads wait`);
  return faults;
}

function coldFault({ backlogBytes }: NodeReport, { since, wasReached, reason }: ColdAway): string {
  const sinceWhen = since === '' ? '' : ` since ${since}`;
  const what = wasReached
    ? `the cold store fails${sinceWhen}`
    : `the cold store was not reached since the node started${since === '' ? '' : ` (${since})`}`;
  const why = reason === '' ? '' : ` (${reason})`;
  return `${what}, ${formatBytes(backlogBytes)} of what it leads wait for it${why}`;
}

function hasMajority(voters: readonly number[], answering: readonly number[]): boolean {
  return voters.filter((voter) => answering.includes(voter)).length * 2 > voters.length;
}

const range = (low: number, high: number): string => (low === high ? String(low) : `${low}-${high}`);

export function formatBytes(bytes: number): string {
  const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(UNITS.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}

export function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** `--json`: names as in the metrics, times in milliseconds. */
export function statusJson(nodes: readonly ClusterNode[], snapshot: ClusterSnapshot): Record<string, unknown> {
  const [clusterId = null] = clusterIdsOf(snapshot).keys();
  return {
    cluster_id: clusterId,
    nodes: nodes.map(({ id, host, adminUrl }) => {
      const { report, error } = snapshot.find(({ nodeId }) => nodeId === id) ?? { report: undefined, error: '' };
      const base = { id, host, admin_url: adminUrl, reachable: report !== undefined };
      if (report === undefined) return { ...base, error };
      return {
        ...base,
        cluster_id: report.clusterId ?? null,
        state: report.shedState,
        draining: report.shedState.includes('maintenance-drain'),
        groups: report.groups.length,
        groups_led: report.groups.filter(({ leader }) => leader === id).map((group) => group.id),
        lag: lagOf(snapshot, id),
        caught_up: report.groups.every(({ caughtUp }) => caughtUp),
        cold_hot_bytes: report.hotBytes,
        cold_bytes: report.coldBytes,
        cold_flush_backlog_bytes: report.backlogBytes,
        cold_flush_backlog_age_ms: report.backlogAgeMs,
        cold_store_away_since: report.coldAway?.since ?? null,
        cold_store_error: report.coldAway?.reason ?? null,
        mailbox_bytes: report.mailboxBytes,
        mailbox_capacity_bytes: report.mailboxCapacityBytes,
        process_rss_bytes: report.residentBytes,
        disk_full: report.diskFull,
        cold_write_admission: report.admission,
        uptime_ms: report.uptimeMs ?? null,
        version: report.version,
      };
    }),
    groups: groupViews(snapshot).map(({ id, leader, term, voters, committed }) => ({
      raft_group_id: id,
      leader: leader ?? null,
      current_term: term,
      voter_ids: voters,
      committed_index: committed,
      last_applied: Object.fromEntries(
        snapshot.flatMap(({ nodeId, report }) => {
          const group = report?.groups.find((one) => one.id === id);
          return group === undefined ? [] : [[String(nodeId), group.applied]];
        }),
      ),
    })),
  };
}
