/**
 * Opens the groups of a shard from what its storage has. One whose state cannot be opened, because the disk changed a
 * row about the whole group, is not run from it: its log counts as lost, and it has stopped (damaged-groups.ts).
 */
import { RowDamage } from '../base/row-damage.ts';
import type { Tx } from '../base/tx.ts';
import type { Group } from '../group/group.ts';
import type { ReplySink } from '../protocol/reply.ts';
import type { WorkMemory } from '../stream/core/collect.ts';
import { TAG, anyRow, taggedKey } from '../stream/core/keys.ts';
import { State } from '../stream/core/state.ts';
import { type ShardOptions, newGroup, stateConfiguration, stateOf } from './options.ts';

/** The rows of a state that cannot be opened. Nothing is kept either. */
const NO_ROWS: Tx = {
  get: () => undefined,
  put: () => undefined,
  delete: () => undefined,
  range: () => undefined,
  keys: () => undefined,
};

export interface OpenedGroups {
  readonly groups: readonly Group[];
  /** Groups whose state could not be opened, and why. */
  readonly damages: ReadonlyMap<Group, RowDamage>;
}

export function openGroups(options: ShardOptions, memory: WorkMemory, sink: ReplySink): OpenedGroups {
  const { storage } = options;
  // Applied state first, then all logs after it, then consensus over both.
  const opened = options.groups.map((id) => openState(options, id, memory));
  const logs = opened.map(({ state: { group, appliedIndex, appliedTerm }, damage }) =>
    damage === undefined ? storage.openLog(group, appliedIndex, appliedTerm) : storage.abandonLog(group),
  );
  storage.load(opened.filter((group) => isSole(options, group)).map(({ state }) => state.group));
  const damages = new Map<Group, RowDamage>();
  const groups = logs.map((log, i) => {
    const { state, damage } = opened[i] as OpenedState;
    const group = newGroup(options, state, log, sink);
    if (damage !== undefined) damages.set(group, damage);
    return group;
  });
  return { groups, damages };
}

/**
 * No other node can restore the group. A single node's directory that has peers now is the only one with its groups
 * until others vote in them; which ones vote in a group that cannot be opened is not known.
 */
function isSole({ links, nodeId, voters }: ShardOptions, { state }: OpenedState): boolean {
  const configured = stateConfiguration(state.configuration)?.voters ?? voters;
  return links === undefined || configured.every((voter) => voter === nodeId);
}

interface OpenedState {
  readonly state: State;
  readonly damage?: RowDamage;
}

/** Without any row when it is damaged. */
export function openState(options: ShardOptions, id: number, memory: WorkMemory): OpenedState {
  const { storage } = options;
  try {
    storage.checkGroup(id);
    const state = stateOf(options, id, memory);
    if (state.appliedIndex === 0) checkEmpty(storage.tx, state.prefix);
    return { state };
  } catch (error) {
    if (!(error instanceof RowDamage)) throw error;
    return { state: new State(id, NO_ROWS, storage.prefix(id), memory), damage: error };
  }
}

/** All rows of a group come with the one that says up to where they go. */
function checkEmpty(tx: Tx, prefix: number): void {
  const meta = taggedKey(prefix, TAG.meta);
  if (tx.get(meta) === undefined && anyRow(tx, meta.subarray(0, 2)))
    throw new RowDamage(meta, 'it is missing, and others of the group are there');
}
