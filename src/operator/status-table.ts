/** A snapshot for the eye: a table with a line per node, and below it, in sentences, what is not as it should be. */
import { stripVTControlCharacters } from 'node:util';
import type { ClusterNode } from '../nodes/cluster-file.ts';
import { cut, wrap } from './live-screen.ts';
import { type ClusterSnapshot, foreignTo, groupViews, lagOf, ledBy } from '../nodes/cluster-snapshot.ts';
import { clusterIdsOf, findings, formatAge, formatBytes, stateOf } from '../nodes/findings.ts';
import { isMarked } from '../nodes/report.ts';
import { type Column, formatTable, paint } from './output.ts';

const HEAD = [
  ...['node', 'host', 'state', 'leads', 'groups', 'lag', 'term', 'hot', 'cold', 'backlog', 'mailbox', 'memory', 'up'],
] as const;
/** Columns of numbers are aligned at their right ends. */
const FIRST_NUMBER = 3;
/** A narrow window goes without these columns, the first one first. */
const DISPENSABLE: readonly (typeof HEAD)[number][] = [
  ...(['up', 'memory', 'term', 'cold', 'mailbox', 'groups', 'backlog', 'hot', 'host'] as const),
];

/** Lines for a window of so many columns. */
export function renderStatus(
  nodes: readonly ClusterNode[],
  snapshot: ClusterSnapshot,
  columns: number = Infinity,
): string[] {
  const sentences = findings(nodes, snapshot).flatMap(({ text }) => wrap(text, columns));
  const [clusterId] = clusterIdsOf(snapshot).keys();
  const head = clusterId === undefined ? [] : [cut(`cluster_id ${clusterId}`, columns)];
  return [...head, ...tableOf(nodes, snapshot, columns), '', ...sentences];
}

function tableOf(nodes: readonly ClusterNode[], snapshot: ClusterSnapshot, columns: number): string[] {
  const rows = nodes.map((node) => rowOf(node, snapshot));
  for (let without = 0; ; without++) {
    const left = DISPENSABLE.slice(0, without);
    const shown = HEAD.map((_, i) => i).filter((i) => !left.includes(HEAD[i]!));
    const lines = formatTable(
      shown.map((i): Column => (i < FIRST_NUMBER ? { head: HEAD[i]! } : { head: HEAD[i]!, isNumber: true })),
      rows.map((row) => shown.map((i) => row[i]!)),
    ).map(stripVTControlCharacters);
    const fits = lines.every((line) => line.length < columns);
    if (!fits && without < DISPENSABLE.length) continue;
    // Painted when they are cut: escapes have no width.
    const whole = lines.map((line, i) => paintRow(cut(line, columns), rows[i - 1]?.[2]));
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

const range = (low: number, high: number): string => (low === high ? String(low) : `${low}-${high}`);

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
        draining: isMarked(report),
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
