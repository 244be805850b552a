/** How a shard shares its groups with other nodes. For a single node every method is empty. */
import type { Group } from '../group/group.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Message } from '../raft/types.ts';
import type { ForwardOrigin, PeerPort, SnapshotHandler } from './ports.ts';

/** The links of a node of a cluster. */
export interface ShardLinks {
  readonly peers: PeerPort;
  /** Asks for a turn soon. */
  readonly wake: () => void;
}

/** Group snapshots that this node sent and received since its start. */
export interface GroupSnapshotCounters {
  readonly sent: number;
  readonly failed: number;
  readonly tooFarBehind: number;
  readonly received: number;
}

export interface Replication {
  /** Other nodes may lead, and may know more than this one. */
  readonly hasOthers: boolean;
  readonly counters: GroupSnapshotCounters;
  /** Takes what other nodes send of their groups' state. */
  readonly snapshots: SnapshotHandler;

  /** Takes a write of this node's main thread that only the leader can propose; copies it. */
  submit(group: Group, slot: number, frame: Uint8Array, payload: Uint8Array | undefined, nowMs: number): void;
  /** A write must go by submit(), because others of its group do that came before it. */
  holds(group: Group): boolean;
  /** Hands the renewal of a stream's lifetime to the leader. */
  renew(group: Group, key: Uint8Array): void;
  /** Takes a request that another node sent here; returns the slot that its answer will carry. */
  accept(origin: ForwardOrigin, group: Group): number;
  /** Sends the answer of such a request. */
  answer(reply: Reply): void;
  /** Whether all members of the group apply large commands in pieces. */
  knowPieces(group: Group): boolean;
  /**
   * False: a member is known to stop when it applies a command that begins with this byte. One that was never connected
   * is taken to know it: a majority has to be connected before a command is committed.
   */
  takes(group: Group, kindAndFlags: number): boolean;
  /** The connected members of the group, without this node, that compare their rows with those of others. */
  comparable(group: Group): number[];
  /** Asks one of them (peer/codec/comparison.ts). The answer is a view; undefined: there is none. */
  compare(node: number, group: Group, question: Uint8Array, onReply: (answer: Uint8Array | undefined) => void): void;
  /** Answers such a question of another node. */
  compared(origin: ForwardOrigin, answer: Uint8Array): void;
  /** Raft messages; they leave with the next flush. */
  send(group: Group, messages: readonly Message[]): void;

  /** Before the disk write of a turn: answers requests that are applied here by now. */
  release(): void;
  /** Once a turn, after the commit. */
  turn(nowMs: number, clockMs: number): void;
  /** Once a tick: tracks nodes that joined. */
  tick(groups: readonly Group[]): void;
  /** Receives group snapshots, a step a turn. Not while entries wait for the disk. */
  settle(hasRoom: boolean, clockMs: number): void;
  /** The staged rows are the group's state now. */
  installed(group: number): void;
  /**
   * Starts the group snapshots whose turn it is. `checkpoint` writes the state of their groups first and returns false
   * when the disk is full. Of groups that have stopped nothing is sent: their rows may be wrong.
   */
  sendSnapshots(
    clockMs: number,
    checkpoint: (groups: readonly Group[]) => boolean,
    hasStopped: (group: Group) => boolean,
  ): void;
  /** The group stops: its receivers discard what was sent of it. */
  cancelSnapshots(group: Group): void;
  /** How much of the log up to `index` the group may compact after a checkpoint. */
  compactable(group: Group, index: number): number;
  /** The log after this index is needed by a transfer; Infinity: there is none. */
  pinnedIndex(group: Group): number;
  flush(): void;
  /** Refuses everything that waits. */
  stop(): void;
}
