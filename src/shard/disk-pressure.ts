/**
 * Room on this node's disk, and what the want of it means: writes are refused, and what this node leads goes to a voter that has
 * room, so that one full disk among healthy ones keeps nobody from writing for long.
 */
import type { Group } from '../group/group.ts';
import type { ElectionPriority } from '../raft/types.ts';
import type { Commits } from './commits.ts';
import { passOn } from './hand-over.ts';
import type { ShardStorage } from './ports.ts';
import { commandsWhere } from '../protocol/operations.ts';

/** Commands after which less is stored. */
const FREES_SPACE = commandsWhere(({ freesSpace }) => freesSpace);

/** Bytes on disk for a byte of changed state: its rows, and the pages around them. */
const CHECKPOINT_FACTOR = 1.5;

/** What the checkpoints of the groups are going to write: space that is promised already. */
export function owedBytes(groups: readonly Group[]): number {
  return groups.reduce((sum, { state, raft }) => {
    return sum + CHECKPOINT_FACTOR * (state.dirtyBytes + raft.uncommittedBytes);
  }, 0);
}

/** Ticks in which others may still take over: an election, begun when this node fell silent. */
const TAKE_OVER_TICKS = 30;

export class DiskPressure {
  readonly #groups: readonly Group[];
  readonly #commits: Commits;
  readonly #storage: ShardStorage;
  #shed: ElectionPriority = 'normal';
  /** Ticks without room. */
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

  /** Told to lead late or never: it takes no leadership, and what it leads is moved away by the balancer. */
  shed(electionPriority: ElectionPriority): void {
    this.#shed = electionPriority;
    this.#settle();
  }

  /** A command of a client. Down to the reserve only what gives space back is let through, and what another node leads. */
  refuses(group: Group, kind: number): boolean {
    if (this.#commits.full) return true;
    if (this.#storage.spaceLeft || FREES_SPACE.has(kind)) return false;
    return group.leads && !passOn(group);
  }

  /** A refusal for want of space is final for the other node's client; there may be a leader with room in a moment. */
  get mayPass(): boolean {
    return this.#shortTicks < TAKE_OVER_TICKS && this.#groups.some(({ raft }) => raft.configuration.voters.length > 1);
  }

  #settle(): void {
    // When no disk has room somebody has to lead all the same, if only to delete.
    const electionPriority = this.#shed === 'normal' && this.#shortTicks > 0 ? 'low' : this.#shed;
    for (const { raft } of this.#groups) raft.electionPriority = electionPriority;
  }
}
