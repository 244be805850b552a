/**
 * Writes that reach a node which does not lead their group: sent to the leader, and answered here once this node has
 * applied them too, so that a node can show what it acknowledged. While no leader is known they wait, for a bounded
 * time.
 *
 * On the links, a request travels as its mailbox frame with the payload inside; the answer is the leader's applied
 * index (f64) and a reply frame. NO_LEADER means that nothing was done, so the request is sent again. A broken link
 * leaves the outcome unknown, and the client is told so. The request is not sent again even with producer headers: the
 * refusal of a second attempt (no leader, a full disk) says nothing about the first, which may still arrive (tried: sim
 * seed 0x13ae).
 *
 * Small writes of a group keep their order while its leader changes. One that its former leader sends back would be
 * overtaken by those that go straight to the new one, so they go behind it.
 */
import { SESSION_PIPELINED_COMMAND_BYTES_MAX } from '../base/limits.ts';
import { type ErrorCode, errorNumber } from '../base/errors.ts';
import { Slab } from '../base/slab.ts';
import { type Sibling, Table } from '../base/table.ts';
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';
import { SlotSequence } from '../group/reply-slot.ts';
import { VERSION_WITH_FORWARD_PIECES } from '../peer/codec/handshake.ts';
import type { BodyRefusal } from '../protocol/checked-body.ts';
import { Reply, explain } from '../protocol/reply.ts';
import { hasCheckedBody, withPlainBody } from './checked-frames.ts';
import { WholeBuffer } from './frames.ts';
import type { PeerPort, ForwardOrigin } from './ports.ts';

/** A write waits this long for a leader. */
export const LEADER_WAIT_MS = 5000;
/**
 * Maximum wait for a known leader, which may have other large bodies to write first. Two of 32 MiB take some twenty
 * seconds at a load of 30 on two cores.
 */
const BUSY_WAIT_MS = 30_000;
/** Requests that wait for a leader or for an answer, in bytes per shard; more are refused immediately. */
const WAITING_BYTES_MAX = 64 * 1024 * 1024;
const NO_LEADER = errorNumber('NO_LEADER');
/** A node that answered that it does not lead is asked again after this long, unless another leader is known. */
const ASK_AGAIN_MS = 50;
/**
 * A request sent to a former leader is abandoned when another node has led for this long: a leader that was cut off
 * would keep its clients waiting until the link is found dead. One that handed over in order answers well before.
 */
const FORMER_LEADER_MS = 1000;
/** Additional time for a large body to arrive and be refused between busy nodes: 32 MiB in four seconds. */
const FORMER_LEADER_BYTES_PER_MS = 8192;
/** Interval between checks whether such a node still leads. */
const LOOK_MS = 100;

interface Queued {
  readonly group: Group;
  readonly slot: number;
  /** In the order in which they came. */
  readonly place: number;
  /** Clients send several such writes without waiting. Larger ones hold up nothing, and wait for nothing. */
  readonly keepsOrder: boolean;
  frame: Uint8Array;
  /** When it gives up: without any leader (extended while one is seen), and with a leader that takes no more bytes. */
  deadlineMs: number;
  readonly busyDeadlineMs: number;
  /** The node that last answered that it does not lead, and when it may be asked again. */
  refusedBy: number;
  askAgainMs: number;
}

/** Sent, and not answered yet. */
interface InFlight extends Sibling<InFlight> {
  readonly one: Queued;
  readonly to: number;
  /** When another leader was first seen; 0: not yet. */
  formerSinceMs: number;
}

/** A request of another node. `hash`: its slot. */
interface Served extends Sibling<Served> {
  readonly origin: ForwardOrigin;
  readonly group: Group;
}

/** The writes of a group that keep their order: they are on their way to one node at a time. */
interface Line {
  to: number;
  inFlight: number;
  /** One of them is queued. */
  isWaiting: boolean;
}

interface AwaitingApply {
  readonly group: Group;
  readonly slot: number;
  readonly index: number;
  readonly bytes: Uint8Array;
  readonly deadlineMs: number;
}

/** The shard, as writes that wait need it. */
export interface ForwardingHost {
  /** Writes an answer to the main thread. */
  readonly deliver: (reply: Reply) => void;
  /** Asks for a turn. */
  readonly wake: () => void;
  /** This node leads by now: proposes or refuses a write that waited. False: it hands over, and the write waits on. */
  readonly propose: (group: Group, slot: number, frame: Uint8Array, nowMs: number) => boolean;
}

export class Forwarding {
  readonly #peers: PeerPort;
  readonly #nodeId: number;
  readonly #host: ForwardingHost;
  #queued: Queued[] = [];
  #awaitingApply: AwaitingApply[] = [];
  /** By their places. */
  readonly #inFlight = new Table<InFlight>();
  readonly #lines = new Map<Group, Line>();
  #place = 0;
  #lookAtMs = 0;
  #waitingBytes = 0;
  /** Wall clock, for commands; and the monotonic clock, for waits. */
  #nowMs = 0;
  #clockMs = 0;
  readonly #reply = new Reply();
  /** Memory of requests and answers in flight, which come and go in about the same order. */
  readonly #memory = new Slab();
  /** Views of the memory block in use, and of the data of the last socket read. */
  readonly #whole = new WholeBuffer();
  readonly #received = new WholeBuffer();
  /** Requests of other nodes in progress here, by slot. */
  readonly #origins = new Table<Served>();
  readonly #slots = new SlotSequence('node');
  /** The leader has answered the request of this slot. */
  onAnswered: ((slot: number) => void) | undefined;
  readonly counters = { sent: 0, served: 0, queued: 0 };

  constructor(peers: PeerPort, nodeId: number, host: ForwardingHost) {
    this.#peers = peers;
    this.#nodeId = nodeId;
    this.#host = host;
  }

  /** Takes a request of this node's main thread; copies it. */
  submit(group: Group, slot: number, frame: Uint8Array, payload: Uint8Array | undefined, nowMs: number): void {
    this.#nowMs = nowMs;
    const size = frame.length + (payload?.length ?? 0);
    if (this.#waitingBytes + size > WAITING_BYTES_MAX) return this.#refuse(slot, 'LEADER_BUSY');
    const whole = this.#memory.take(size);
    whole.set(frame);
    if (payload !== undefined) whole.set(payload, frame.length);
    this.#waitingBytes += size;
    const deadlineMs = this.#clockMs + LEADER_WAIT_MS;
    const busyDeadlineMs = this.#clockMs + BUSY_WAIT_MS;
    const keepsOrder = size <= SESSION_PIPELINED_COMMAND_BYTES_MAX;
    const place = this.#place++;
    const asked = { refusedBy: 0, askAgainMs: 0 };
    this.#send({ group, slot, place, keepsOrder, frame: whole, deadlineMs, busyDeadlineMs, ...asked });
  }

  /** Writes of the group wait, or may come back from a node that no longer leads: later ones go behind them. */
  holds(group: Group): boolean {
    const line = this.#lines.get(group);
    if (line === undefined) return false;
    return line.isWaiting || (line.inFlight > 0 && (group.accepts || line.to !== group.raft.leader));
  }

  /** The command frame of a write without a waiting client. */
  submitQuietly(group: Group, frame: Uint8Array): void {
    const leader = group.raft.leader;
    if (leader !== 0 && leader !== this.#nodeId) this.#peers.forward(leader, group.id, frame, () => undefined);
  }

  /** Takes a request that another node sent here; returns the slot that its answer will carry. */
  accept(origin: ForwardOrigin, group: Group): number {
    const slot = this.#slots.take();
    this.#origins.add({ hash: slot, sibling: undefined, origin, group });
    this.counters.served++;
    return slot;
  }

  /** Sends the answer of a request that another node sent here. */
  answer(reply: Reply): void {
    let waiting = this.#origins.first(reply.id);
    while (waiting !== undefined && waiting.hash !== reply.id) waiting = waiting.sibling;
    if (waiting === undefined) return;
    this.#origins.delete(waiting);
    const span = this.#memory.take(8 + reply.bytesMax());
    const { bytes, view } = this.#whole.of(span);
    const at = span.byteOffset;
    view.setFloat64(at, waiting.group.state.appliedIndex, true);
    const size = reply.write(bytes, view, at + 8);
    this.#peers.reply(waiting.origin, span.subarray(0, 8 + size));
  }

  /** Once a turn: sends what is queued, answers what has been applied here. */
  turn(nowMs: number, clockMs: number): void {
    this.#nowMs = nowMs;
    this.#clockMs = clockMs;
    if (this.#queued.length > 0) {
      // Those that a node has refused come back behind later ones.
      const queued = this.#queued;
      if (!planted('sent-back-goes-last')) queued.sort((a, b) => a.place - b.place);
      this.#queued = [];
      for (const line of this.#lines.values()) line.isWaiting = false;
      for (const one of queued) this.#send(one);
    }
    if (this.#inFlight.size > 0 && clockMs >= this.#lookAtMs) this.#giveUp();
    this.release();
  }

  /** Answers requests whose commands are applied here. */
  release(): void {
    if (this.#awaitingApply.length > 0)
      this.#awaitingApply = this.#awaitingApply.filter((waiting) => !this.#release(waiting));
  }

  /** Something waits for the next turn. */
  get waiting(): number {
    return this.#queued.length + this.#awaitingApply.length;
  }

  /** Refuses everything that waits. */
  stop(): void {
    for (const { slot } of this.#queued.splice(0)) this.#refuse(slot, 'STOPPING');
    for (const { slot } of this.#awaitingApply.splice(0)) this.#refuse(slot, 'OUTCOME_UNKNOWN');
  }

  #send(one: Queued): void {
    const { group, slot } = one;
    const isHeld = one.keepsOrder && this.holds(group);
    if (group.accepts && !isHeld && this.#host.propose(group, slot, one.frame, this.#nowMs)) {
      this.#waitingBytes -= one.frame.length;
      return;
    }
    const leader = group.raft.leader;
    if (hasCheckedBody(one.frame) && this.#isOlder(leader, group.id)) {
      const refusal = this.#makePlain(one);
      if (refusal !== undefined) return this.#refuse(slot, refusal.code, refusal.reason);
    }
    const { frame } = one;
    const inFlight: InFlight = { hash: one.place, sibling: undefined, one, to: leader, formerSinceMs: 0 };
    const sent =
      !isHeld &&
      leader !== 0 &&
      leader !== this.#nodeId &&
      (leader !== one.refusedBy || this.#clockMs >= one.askAgainMs) &&
      this.#peers.forward(leader, group.id, frame, (answer) => {
        // Otherwise it was abandoned, and the client was told.
        if (this.#back(inFlight)) this.#onAnswer(one, leader, answer);
      });
    if (sent) {
      this.#inFlight.add(inFlight);
      if (one.keepsOrder) {
        const line = this.#line(group);
        line.to = leader;
        line.inFlight++;
      }
      this.counters.sent++;
      if (planted('forwarded-twice')) this.#peers.forward(leader, group.id, frame, () => undefined);
      return;
    }
    const isBusy = leader !== 0 && leader !== this.#nodeId && this.#peers.connected(leader, group.id);
    if (isBusy) one.deadlineMs = this.#clockMs + LEADER_WAIT_MS;
    if (this.#clockMs < Math.min(one.deadlineMs, one.busyDeadlineMs)) {
      this.counters.queued++;
      return this.#queue(one);
    }
    this.#waitingBytes -= frame.length;
    this.#refuse(slot, isBusy ? 'LEADER_BUSY' : 'NO_LEADER');
  }

  #queue(one: Queued): void {
    this.#queued.push(one);
    if (one.keepsOrder) this.#line(one.group).isWaiting = true;
  }

  #line(group: Group): Line {
    let line = this.#lines.get(group);
    if (line === undefined) this.#lines.set(group, (line = { to: 0, inFlight: 0, isWaiting: false }));
    return line;
  }

  /** It is not in flight any more. False: nor was it before. */
  #back(inFlight: InFlight): boolean {
    if (!this.#inFlight.delete(inFlight)) return false;
    if (inFlight.one.keepsOrder) this.#line(inFlight.one.group).inFlight--;
    return true;
  }

  #isOlder(leader: number, group: number): boolean {
    const isPeer = leader !== 0 && leader !== this.#nodeId && this.#peers.connected(leader, group);
    return isPeer && this.#peers.version(leader, group) < VERSION_WITH_FORWARD_PIECES;
  }

  /** For a leader of the version before. Returns the refusal of a body that was refused. */
  #makePlain(one: Queued): BodyRefusal | undefined {
    const plain = withPlainBody(one.frame);
    if (plain === undefined) return undefined;
    this.#waitingBytes -= one.frame.length;
    if ('code' in plain) return plain;
    this.#waitingBytes += plain.length;
    one.frame = plain;
    return undefined;
  }

  #giveUp(): void {
    this.#lookAtMs = this.#clockMs + LOOK_MS;
    for (const inFlight of this.#inFlight.all().sort((a, b) => a.hash - b.hash)) {
      const { one, to } = inFlight;
      const { leader } = one.group.raft;
      if (leader === to || leader === 0) continue;
      if (inFlight.formerSinceMs === 0) inFlight.formerSinceMs = this.#clockMs;
      const patienceMs = FORMER_LEADER_MS + one.frame.length / FORMER_LEADER_BYTES_PER_MS;
      if (this.#clockMs - inFlight.formerSinceMs < patienceMs) continue;
      this.#back(inFlight);
      this.#host.wake();
      this.#waitingBytes -= one.frame.length;
      this.#refuse(one.slot, 'OUTCOME_UNKNOWN');
    }
  }

  #onAnswer(one: Queued, from: number, answer: Uint8Array | undefined): void {
    const { group, slot, frame } = one;
    this.#host.wake();
    if (answer === undefined || answer.length < 8) {
      if (planted('broken-link-means-not-done')) return this.#queue(one);
      this.#waitingBytes -= frame.length;
      return this.#refuse(slot, 'OUTCOME_UNKNOWN');
    }
    // A frame carries all answers of a turn; one view serves them all.
    const { bytes: frameBytes, view } = this.#received.of(answer);
    this.#reply.read(frameBytes, view, answer.byteOffset + 8);
    // It may have led when the request left. A node that answers this twice does not know better than this node.
    if (this.#reply.code === NO_LEADER && from !== one.refusedBy) one.deadlineMs = this.#clockMs + LEADER_WAIT_MS;
    if (this.#reply.code === NO_LEADER && this.#clockMs < Math.min(one.deadlineMs, one.busyDeadlineMs)) {
      one.refusedBy = from;
      one.askAgainMs = this.#clockMs + ASK_AGAIN_MS;
      return this.#queue(one);
    }
    this.#waitingBytes -= frame.length;
    this.onAnswered?.(slot);
    const deadlineMs = this.#clockMs + BUSY_WAIT_MS;
    const bytes = this.#memory.copy(answer.subarray(8));
    const index = planted('reply-before-apply') ? 0 : view.getFloat64(answer.byteOffset, true);
    this.#awaitingApply.push({ group, slot, index, bytes, deadlineMs });
    return undefined;
  }

  #release(waiting: AwaitingApply): boolean {
    if (waiting.group.state.appliedIndex < waiting.index) {
      if (this.#clockMs < waiting.deadlineMs) return false;
      // Done, but this node is cut off and cannot show it, so it must not acknowledge it.
      this.#refuse(waiting.slot, 'OUTCOME_UNKNOWN');
      return true;
    }
    const { bytes, view } = this.#whole.of(waiting.bytes);
    this.#reply.read(bytes, view, waiting.bytes.byteOffset);
    this.#reply.id = waiting.slot;
    this.#host.deliver(this.#reply);
    return true;
  }

  #refuse(slot: number, code: ErrorCode, reason = ''): void {
    this.#reply.refuse(slot, code);
    if (reason !== '') explain(this.#reply, reason);
    this.#host.deliver(this.#reply);
  }
}
