/** A node of a cluster: writes go to the leaders, messages and group snapshots to and from the other nodes. */
import type { Group } from '../group/group.ts';
import type { Reply } from '../protocol/reply.ts';
import { KIND_EXPECTING } from '../protocol/command-layout.ts';
import {
  VERSION_WITH_COMMAND_PIECES,
  VERSION_WITH_COMPARISON,
  VERSION_WITH_EXPECTATIONS,
} from '../peer/codec/handshake.ts';
import { members } from '../raft/configuration.ts';
import type { Configuration, Message } from '../raft/types.ts';
import { Forwarding, type ForwardingHost } from './forwarding.ts';
import { touchFrame } from './frames.ts';
import { IncomingGroupSnapshots } from './incoming-group-snapshots.ts';
import { LOG_KEPT_BYTES, type PinBounds } from './log-pins.ts';
import { JoinedNodes } from './members.ts';
import { OutgoingGroupSnapshots } from './outgoing-group-snapshots.ts';
import type { ForwardOrigin, Log, PeerPort, ShardStorage } from './ports.ts';
import type { TracedSlots } from './traced-slots.ts';
import type { GroupSnapshotCounters, Replication, ShardLinks } from './replication.ts';

export interface ReplicatedOptions {
  readonly links: ShardLinks;
  readonly nodeId: number;
  readonly groups: readonly number[];
  readonly storage: ShardStorage;
  readonly log: Log;
  readonly pinBounds?: PinBounds | undefined;
  readonly deliver: ForwardingHost['deliver'];
  readonly propose: ForwardingHost['propose'];
  readonly group: (id: number) => Group | undefined;
  readonly traced: TracedSlots;
  /** A checkpoint hangs, for which a commit would wait. */
  readonly isStuck: () => boolean;
}

export class Replicated implements Replication {
  readonly hasOthers = true;
  readonly #options: ReplicatedOptions;
  readonly #peers: PeerPort;
  readonly #forwarding: Forwarding;
  readonly #outgoing: OutgoingGroupSnapshots;
  readonly snapshots: IncomingGroupSnapshots;
  readonly #joined: JoinedNodes;

  constructor(options: ReplicatedOptions) {
    const { links, nodeId, groups, group, storage, log, pinBounds, deliver, propose, traced, isStuck } = options;
    const { peers, wake } = links;
    this.#options = options;
    this.#peers = peers;
    this.#forwarding = new Forwarding(peers, nodeId, { deliver, propose, wake });
    this.#forwarding.onAnswered = (slot) => traced.answered(slot);
    this.#outgoing = new OutgoingGroupSnapshots({ storage, peers, log, wake, bounds: pinBounds });
    this.snapshots = new IncomingGroupSnapshots({ storage, groups, group, peers, log, wake, isStuck });
    this.#joined = new JoinedNodes((addresses) => peers.setJoined(addresses));
  }

  get counters(): GroupSnapshotCounters {
    return { ...this.#outgoing.counters, received: this.snapshots.counters.received };
  }

  submit(group: Group, slot: number, frame: Uint8Array, payload: Uint8Array | undefined, nowMs: number): void {
    this.#forwarding.submit(group, slot, frame, payload, nowMs);
  }

  holds(group: Group): boolean {
    return this.#forwarding.holds(group);
  }

  renew(group: Group, key: Uint8Array): void {
    this.#forwarding.submitQuietly(group, touchFrame(group.id, key));
  }

  accept(origin: ForwardOrigin, group: Group): number {
    return this.#forwarding.accept(origin, group);
  }

  answer(reply: Reply): void {
    this.#forwarding.answer(reply);
  }

  takes({ id, raft }: Group, kindAndFlags: number): boolean {
    if ((kindAndFlags & KIND_EXPECTING) === 0) return true;
    const versions = this.#others(raft.configuration).map((node) => this.#peers.version(node, id));
    return versions.every((version) => version === 0 || version >= VERSION_WITH_EXPECTATIONS);
  }

  knowPieces({ id, raft }: Group): boolean {
    return this.#others(raft.configuration).every(
      (node) => this.#peers.version(node, id) >= VERSION_WITH_COMMAND_PIECES,
    );
  }

  comparable({ id, raft }: Group): number[] {
    return this.#others(raft.configuration).filter(
      (node) => this.#peers.connected(node, id) && this.#peers.version(node, id) >= VERSION_WITH_COMPARISON,
    );
  }

  compare(node: number, group: Group, question: Uint8Array, onReply: (answer: Uint8Array | undefined) => void): void {
    if (!this.#peers.forward(node, group.id, question, onReply)) onReply(undefined);
  }

  compared(origin: ForwardOrigin, answer: Uint8Array): void {
    this.#peers.reply(origin, answer);
  }

  #others(configuration: Configuration): number[] {
    return members(configuration).filter((node) => node !== this.#options.nodeId);
  }

  send(group: Group, messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.type === 'snapshot') this.#outgoing.want(group, message);
      else this.#peers.sendRaft(message.to, group.id, message);
    }
  }

  release(): void {
    this.#forwarding.release();
  }

  turn(nowMs: number, clockMs: number): void {
    this.#outgoing.look(clockMs);
    this.#forwarding.turn(nowMs, clockMs);
  }

  tick(groups: readonly Group[]): void {
    this.#joined.look(groups);
  }

  settle(hasRoom: boolean, clockMs: number): void {
    this.snapshots.settle(hasRoom, clockMs);
  }

  installed(group: number): void {
    this.snapshots.installed(group);
  }

  sendSnapshots(
    clockMs: number,
    checkpoint: (groups: readonly Group[]) => boolean,
    hasStopped: (group: Group) => boolean,
  ): void {
    const wanted = this.#outgoing.due(clockMs);
    if (wanted.length === 0) return;
    if (!checkpoint([...new Set(wanted.map(({ group }) => group))])) {
      for (const each of wanted) this.#outgoing.refuse(each);
      return;
    }
    for (const each of wanted) {
      if (hasStopped(each.group)) this.#outgoing.refuse(each);
      else this.#outgoing.send(each.group, each.message);
    }
    this.#peers.flush();
  }

  cancelSnapshots(group: Group): void {
    this.#outgoing.cancel(group);
  }

  /** Keeps a tail that slow followers may still need. */
  compactable(group: Group, index: number): number {
    return this.#options.storage.compactable(group.id, index, LOG_KEPT_BYTES);
  }

  pinnedIndex(group: Group): number {
    // A repaired state goes on where the log does. How far that goes, the sender bounds by its own.
    const repairIndex = group.raft.wantsState ? this.snapshots.endOf(group.id) : Infinity;
    return Math.min(repairIndex, this.#outgoing.pins.oldest(group.id));
  }

  flush(): void {
    this.#peers.flush();
  }

  stop(): void {
    this.#forwarding.stop();
  }
}
