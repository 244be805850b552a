/** Nodes and groups: what each node is in each group. */
import { foreignTo, groupOf, groupViews, reportOf } from '../../nodes/cluster-snapshot.ts';
import type { LagWatch } from './lag.ts';
import { type KnownNode, type Round, snapshotOf } from './samples.ts';

export type CellRole = 'leader' | 'voter' | 'learner' | 'none';

export interface Cell {
  readonly node: number;
  readonly group: number;
  readonly role: CellRole;
  /** The node has less than others have committed, or does not know yet whether it has all. */
  readonly isBehind: boolean;
  /** The node does not answer: others say what it is. */
  readonly isAway: boolean;
  /** In words, for those who do not see the letters. */
  readonly text: string;
}

export interface MatrixRow {
  readonly node: number;
  readonly cells: readonly Cell[];
}

export function matrixOf(nodes: readonly KnownNode[], round: Round, lag: LagWatch): MatrixRow[] {
  const snapshot = snapshotOf(round);
  const views = groupViews(snapshot);
  return nodes.map(({ id: node }) => {
    const report = reportOf(snapshot, node);
    const foreign = foreignTo(snapshot, node);
    const isAway = report === undefined && round.some(({ nodeId }) => nodeId === node);
    const cells = views.map(({ id: group, leader, voters, outgoing }): Cell => {
      const own = groupOf(report, group);
      const learns = round.some((one) => groupOf(one.report, group)?.learners.includes(node) === true);
      const isMember = [...voters, ...outgoing].includes(node) && !foreign.includes(group);
      const role: CellRole = leader === node ? 'leader' : isMember ? 'voter' : learns ? 'learner' : 'none';
      const behindMs = lag.behindMs(node, group);
      const isBehind = own !== undefined && (!own.caughtUp || own.logLost || behindMs > 0);
      const told = { node, group, role, isBehind, isAway };
      return { ...told, text: describe({ ...told, behindMs }) };
    });
    return { node, cells };
  });
}

interface Told extends Omit<Cell, 'text'> {
  readonly behindMs: number;
}

const ROLES: Readonly<Record<CellRole, string>> = {
  leader: 'leads',
  voter: 'is a voter of',
  learner: 'is a learner of',
  none: 'is no part of',
};

function describe({ node, group, role, isBehind, isAway, behindMs }: Told): string {
  const behind = behindMs > 0 ? `, ${Math.round(behindMs / 1000)} s behind` : isBehind ? ', not caught up' : '';
  return `node ${node} ${ROLES[role]} group ${group}${isAway ? ', and does not answer' : behind}`;
}
