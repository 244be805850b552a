/**
 * Disk space of this node and the response when it runs out, or when the disk is too slow: writes are refused, and
 * leaderships go to other voters, so that one full or slow disk among healthy ones blocks writes only briefly.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { Group } from '../group/group.ts';
import type { ElectionPriority } from '../raft/types.ts';
import type { Backlog } from './backlog.ts';
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

export interface DiskPressureParts {
  readonly groups: readonly Group[];
  readonly commits: Commits;
  readonly storage: ShardStorage;
  readonly backlog: Backlog;
}

export class DiskPressure {
  readonly #parts: DiskPressureParts;
  #shed: ElectionPriority = 'normal';
  /** Ticks in which the disk had no space, or was too slow. */
  #shortTicks = 0;

  constructor(parts: DiskPressureParts) {
    this.#parts = parts;
  }

  /** Once a tick. */
  tick(clockMs: number): void {
    this.#parts.commits.noteSpace();
    this.#parts.commits.noteSlow(clockMs);
    const wasShort = this.#shortTicks > 0;
    const isShort = this.#parts.commits.full || !this.#parts.storage.spaceLeft || this.#parts.backlog.isFull;
    this.#shortTicks = isShort ? this.#shortTicks + 1 : 0;
    if (isShort !== wasShort) this.settle();
    if (isShort) for (const group of this.#parts.groups) passOn(group);
  }

  /** Low or no election priority: the node accepts no leadership, and the balancer moves away what it leads. */
  shed(electionPriority: ElectionPriority): void {
    this.#shed = electionPriority;
    this.settle();
  }

  /**
   * Why to refuse a client's command; undefined: it passes. Within the reserve, only commands that free space pass, and
   * those for groups that another node leads. A slow disk takes neither from clients.
   */
  refuses(group: Group, kind: number): ErrorCode | undefined {
    if (this.#parts.commits.full) return 'DISK_FULL';
    const code = this.#parts.backlog.isFull ? 'SHARD_BUSY' : 'DISK_FULL';
    if (code === 'DISK_FULL' && (this.#parts.storage.spaceLeft || FREES_SPACE.has(kind))) return undefined;
    return group.leads && !passOn(group) ? code : undefined;
  }

  /** A refusal for lack of space is final for the other node's client, though a leader with space may soon appear. */
  get mayPass(): boolean {
    return (
      this.#shortTicks < TAKE_OVER_TICKS && this.#parts.groups.some(({ raft }) => raft.configuration.voters.length > 1)
    );
  }

  /** Sets the election priority of all groups. */
  settle(): void {
    // When no disk has space some node must lead anyway, if only to delete.
    const electionPriority = this.#shed === 'normal' && this.#shortTicks > 0 ? 'low' : this.#shed;
    for (const { raft } of this.#parts.groups) raft.electionPriority = electionPriority;
  }
}
