// Builds snapshots for the pure modules: one line per group and node.
import type { GroupReport, NodeReport } from '../../src/nodes/report.ts';
import type { NodeSnapshot } from '../../src/nodes/cluster-snapshot.ts';

const VOTERS = [1, 2, 3];

export function group(id: number, leader: number | undefined, more: Partial<GroupReport> = {}): GroupReport {
  return {
    id,
    leader,
    term: 5,
    committed: 100,
    applied: 100,
    lastLog: 100,
    voters: VOTERS,
    outgoing: [],
    learners: [],
    isPending: false,
    caughtUp: true,
    logLost: false,
    refilled: false,
    ...more,
  };
}

export function node(nodeId: number, groups: readonly GroupReport[], more: Partial<NodeReport> = {}): NodeSnapshot {
  const report: NodeReport = {
    nodeId,
    clusterId: undefined,
    groups,
    shedState: 'none',
    acceptsTransfers: true,
    uptimeMs: 90_000,
    version: '0.1.0',
    hotBytes: 0,
    coldBytes: 0,
    backlogBytes: 0,
    backlogAgeMs: 0,
    mailboxBytes: 0,
    mailboxCapacityBytes: 0,
    residentBytes: 0,
    diskFull: false,
    damagedRows: 0,
    stoppedGroups: 0,
    differingGroups: 0,
    undecidedGroups: 0,
    exportAgesMs: new Map(),
    certificateLeftMs: undefined,
    linkCertificateLeftMs: undefined,
    admission: 'open',
    coldAway: undefined,
    ...more,
  };
  return { nodeId, report, error: '' };
}

export const silent = (nodeId: number): NodeSnapshot => ({ nodeId, report: undefined, error: 'connection refused' });

export const DRAINING = { shedState: 'maintenance-drain', acceptsTransfers: false } as const;

/** Three nodes that agree on the leaders of groups 0, 1, 2 and so on. */
export function agreed(...leaders: readonly number[]): NodeSnapshot[] {
  const groups = leaders.map((leader, id) => group(id, leader));
  return VOTERS.map((id) => node(id, groups));
}
