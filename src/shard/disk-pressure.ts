/**
 * Disk space of this node and the response when it runs out: writes are refused, and leaderships go to voters with
 * space, so that one full disk among healthy ones blocks writes only briefly.
 */
import type { Group } from '../group/group.ts';
import type { ElectionPriority } from '../raft/types.ts';
import type { Commits } from './commits.ts';
import { passOn } from './hand-over.ts';
import type { ShardStorage } from './ports.ts';
import { commandsWhere } from '../protocol/operations.ts';

/** Commands that reduce what is stored. */
const FREES_SPACE = commandsWhere(({ freesSpace }) => freesSpace);

/** Bytes on disk for a byte of changed state: its rows, and the pages around them. */
const CHECKPOINT_FACTOR = 1.5;

/** Space already promised to the next checkpoints of the groups. */
export function owedBytes(groups: readonly Group[]): number {
  return groups.reduce((sum, { state, raft }) => {
    return sum + CHECKPOINT_FACTOR * (state.dirtyBytes + raft.uncommittedBytes);
  }, 0);
}

/** Ticks in which others may still take over: an election, started when this node fell silent. */
const TAKE_OVER_TICKS = 30;

export class DiskPressure {
  readonly #groups: readonly Group[];
  readonly #commits: Commits;
  readonly #storage: ShardStorage;
  #shed: ElectionPriority = 'normal';
  /** Ticks without space. */
  #shortTicks = 0;

  constructor(groups: readonly Group[], commits: Commits, storage: ShardStorage) {
    this.#groups = groups;
    this.#commits = commits;
    this.#storage = storage;
  }

  /** Once a tick. */
  tick(): void {
    this.#commits.noteSpace();
    const wasShort = this.#shortTicks > 0;
    const isShort = this.#commits.full || !this.#storage.spaceLeft;
    this.#shortTicks = isShort ? this.#shortTicks + 1 : 0;
    if (isShort !== wasShort) this.#settle();
    if (isShort) for (const group of this.#groups) passOn(group);
  }

  /** Low or no election priority: the node accepts no leadership, and the balancer moves away what it leads. */
  shed(electionPriority: ElectionPriority): void {
    this.#shed = electionPriority;
    this.#settle();
  }

  /**
   * Whether to refuse a client's command. Within the reserve, only commands that free space pass, and those for groups
   * that another node leads.
   */
  refuses(group: Group, kind: number): boolean {
    if (this.#commits.full) return true;
    if (this.#storage.spaceLeft || FREES_SPACE.has(kind)) return false;
    return group.leads && !passOn(group);
  }

  /**
   * A refusal for lack of space is final for the other node's client, although a leader with space may appear in a
   * moment.
   */
  get mayPass(): boolean {
    return this.#shortTicks < TAKE_OVER_TICKS && this.#groups.some(({ raft }) => raft.configuration.voters.length > 1);
  }

  #settle(): void {
    // When no disk has space some node must lead anyway, if only to delete.
    const electionPriority = this.#shed === 'normal' && this.#shortTicks > 0 ? 'low' : this.#shed;
    for (const { raft } of this.#groups) raft.electionPriority = electionPriority;
  }
}
