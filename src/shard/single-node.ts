/** A node without peers: it leads all its groups, and keeps no log that a checkpoint covers. */
import type { Group } from '../group/group.ts';
import type { Replication } from './replication.ts';

/** Only a node with peers gets here. */
function unreachable(): never {
  throw new Error('assertion failed: a single node has no peers');
}

const nothing = (): void => undefined;

export const SINGLE_NODE: Replication = {
  hasOthers: false,
  counters: { sent: 0, failed: 0, tooFarBehind: 0, received: 0 },
  submit: unreachable,
  holds: () => false,
  renew: nothing,
  accept: unreachable,
  answer: unreachable,
  knowPieces: () => true,
  takes: () => true,
  comparable: () => [],
  compare: unreachable,
  compared: unreachable,
  send: nothing,
  release: nothing,
  turn: nothing,
  tick: nothing,
  settle: nothing,
  installed: nothing,
  sendSnapshots: nothing,
  cancelSnapshots: nothing,
  compactable: (_group: Group, index: number) => index,
  pinnedIndex: () => Infinity,
  flush: nothing,
  stop: nothing,
  get snapshots() {
    return unreachable();
  },
};
