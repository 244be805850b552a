/**
 * Frames queued for one peer, by priority: small urgent frames overtake large ones. Small requests, entries and large
 * requests share what is left, so that none of them waits for all of another. Each priority keeps its order.
 * The bounds are in bytes; on overflow the oldest Raft messages are dropped, because Raft repeats them.
 */
import { assert } from '../base/assert.ts';
import { SESSION_PIPELINED_COMMAND_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { FORWARD, type Forward } from './codec/forward.ts';
import { FRAME_KIND, FRAME_HEAD_BYTES, frameKind, pieceOf } from './codec/frame.ts';
import { FrameQueue } from './frame-queue.ts';
import { LargeRequests } from './large-requests.ts';

/** Heartbeats, votes, Raft answers, pings: a leader needs them to stay leader. */
export const PRIORITY_CONTROL = 0;
/** Answers to forwarded requests: small, and a client waits for them. */
export const PRIORITY_REPLIES = 1;
/** Forwarded requests, but the large ones. */
export const PRIORITY_REQUESTS = 2;
/** Entries; and large requests, for a peer that takes them whole. */
export const PRIORITY_ENTRIES = 3;
export const PRIORITY_SNAPSHOTS = 4;
export type Priority = 0 | 1 | 2 | 3 | 4;

/** A larger frame is sent in pieces of at most this size, between which others go. */
export const PIECE_BYTES_MAX = 64 * 1024;
assert(
  FORWARD.size + SESSION_PIPELINED_COMMAND_BYTES_MAX <= PIECE_BYTES_MAX,
  'appends of a session that are under way together share the requests that keep their order',
);
/** Bound of control frames: minutes of heartbeats and answers; a link that carries less is as good as broken. */
const CONTROL_BYTES_MAX = 1024 * 1024;
/** Bytes of requests and entries that pass a waiting snapshot before a piece of it is sent: they must not starve it. */
const SNAPSHOT_TURN_BYTES = 256 * 1024;

/** Priority of a frame by its kind and size alone: RAFT counts as entries. */
export function priorityOf(frame: Uint8Array): Priority {
  switch (frameKind(frame)) {
    case FRAME_KIND.ping:
    case FRAME_KIND.snapshotAck:
      return PRIORITY_CONTROL;
    case FRAME_KIND.forwardReply:
      return PRIORITY_REPLIES;
    case FRAME_KIND.forward:
      return isLarge(frame) || planted('requests-wait-in-line') ? PRIORITY_ENTRIES : PRIORITY_REQUESTS;
    case FRAME_KIND.snapshotBegin:
    case FRAME_KIND.snapshotChunk:
    case FRAME_KIND.snapshotEnd:
      return PRIORITY_SNAPSHOTS;
    default:
      return PRIORITY_ENTRIES;
  }
}

function isLarge(frame: Uint8Array): boolean {
  return frame.length > PIECE_BYTES_MAX + FRAME_HEAD_BYTES;
}

/** A share of a link. One that begins to wait has no claim to what it did not use before. */
interface Lane {
  sentBytes: number;
}
type LaneName = 'requests' | 'entries' | 'largeRequests';

export class SendQueue {
  /** Frames dropped, refused, or pending when a connection was lost; never reset. */
  droppedFrames = 0;
  droppedBytes = 0;
  readonly #bytesMax: number;
  readonly #control = new FrameQueue();
  readonly #replies = new FrameQueue();
  readonly #requests = new FrameQueue();
  readonly #entries = new FrameQueue();
  readonly #largeRequests = new LargeRequests();
  readonly #snapshots = new FrameQueue();
  /** The waiting lane that has sent least goes next. */
  readonly #lanes = { requests: newLane(), entries: newLane(), largeRequests: newLane() };
  /** Bytes that the lane that went last had sent before. */
  #sharedBytes = 0;
  /** A large frame that is sent in pieces. A peer puts together one at a time. */
  #cut: { readonly frame: Uint8Array; readonly of: 'entries' | 'snapshots' } | undefined;
  #cutAt = 0;
  #passedBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return (
      this.#control.bytes + this.#largeBytes + (this.#cut === undefined ? 0 : this.#cut.frame.length - this.#cutAt)
    );
  }

  /** Frames, and requests that become pieces. */
  get count(): number {
    const { count } = this.#largeRequests;
    const frames = this.#control.count + this.#replies.count + this.#requests.count + this.#entries.count;
    return frames + count + this.#snapshots.count + (this.#cut === undefined ? 0 : 1);
  }

  /**
   * Whether an undroppable frame would be accepted behind others of `waitingBytes` that are to come. They may take half
   * of the queue: if requests for a leader filled it, no entry would fit.
   */
  hasRoom(bytes: number, waitingBytes = 0): boolean {
    const requestBytes = waitingBytes + this.#requests.firmBytes + this.#largeRequests.bytes;
    const firmBytes = requestBytes + this.#replies.firmBytes + this.#entries.firmBytes + this.#snapshots.firmBytes;
    return firmBytes === 0 || firmBytes + bytes <= this.#bytesMax / 2;
  }

  /** False: no space, even by dropping. An empty queue accepts a frame of any size, or it would never be sent. */
  push(frame: Uint8Array, priority: Priority = priorityOf(frame)): boolean {
    if (planted('urgent-waits-in-line')) priority = PRIORITY_ENTRIES;
    if (!this.#makeRoom(frame.length, priority === PRIORITY_CONTROL)) {
      this.#countDrop(frame.length);
      return false;
    }
    if (priority === PRIORITY_REQUESTS && this.#requests.count === 0) this.#join(this.#lanes.requests);
    if (priority === PRIORITY_ENTRIES && this.#entries.count === 0) this.#join(this.#lanes.entries);
    this.#queueOf(priority).push(frame);
    return true;
  }

  /** A request for a peer that takes it in pieces, by the same rules. Its bytes must not change until it is sent. */
  pushLarge(request: Forward): boolean {
    if (!this.#makeRoom(request.bytes.length, false)) {
      this.#countDrop(request.bytes.length);
      return false;
    }
    if (this.#largeRequests.count === 0) this.#join(this.#lanes.largeRequests);
    this.#largeRequests.push(request);
    return true;
  }

  /**
   * The next frame to send. `urgent`: only one that must not wait for bytes in flight. `pieceBytes`: what the peer gets
   * of a larger frame at a time; Infinity: it takes them whole.
   */
  shift(which: 'all' | 'urgent' = 'all', pieceBytes = Infinity): Uint8Array | undefined {
    if (which === 'urgent' || this.#control.count > 0) return this.#control.shift();
    if (this.#replies.count > 0) return this.#replies.shift();
    const lane = this.#nextLane();
    const isTurn = lane === undefined || this.#passedBytes >= SNAPSHOT_TURN_BYTES;
    if (this.#cut?.of === 'snapshots' || (this.#cut === undefined && this.#snapshots.count > 0 && isTurn)) {
      this.#passedBytes = 0;
      return this.#whole('snapshots', pieceBytes);
    }
    if (lane === undefined) return undefined;
    const frame = this.#take(lane, pieceBytes);
    const bytes = frame?.length ?? 0;
    this.#sharedBytes = this.#lanes[lane].sentBytes;
    this.#lanes[lane].sentBytes += bytes;
    this.#passedBytes = this.#snapshots.count === 0 ? 0 : this.#passedBytes + bytes;
    return frame;
  }

  /** Drops everything queued. */
  clear(): void {
    if (this.#cut !== undefined) this.#countDrop(this.#cut.frame.length - this.#cutAt);
    this.#cut = undefined;
    for (const bytes of this.#largeRequests.clear()) this.#countDrop(bytes);
    for (let frame = this.shift(); frame !== undefined; frame = this.shift()) this.#countDrop(frame.length);
  }

  get #largeBytes(): number {
    const { bytes } = this.#largeRequests;
    return this.#replies.bytes + this.#requests.bytes + this.#entries.bytes + bytes + this.#snapshots.bytes;
  }

  #makeRoom(bytes: number, isControl: boolean): boolean {
    const isFull = (): boolean => {
      const [waiting, max] = isControl ? [this.#control.bytes, CONTROL_BYTES_MAX] : [this.#largeBytes, this.#bytesMax];
      return waiting > 0 && waiting + bytes > max;
    };
    while (isFull()) {
      const dropped = (isControl ? this.#control : this.#entries).dropOldest();
      if (dropped === undefined) return false;
      this.#countDrop(dropped.length);
    }
    return true;
  }

  #join(lane: Lane): void {
    lane.sentBytes = Math.max(lane.sentBytes, this.#sharedBytes);
  }

  #nextLane(): LaneName | undefined {
    const { requests, entries, largeRequests } = this.#lanes;
    // Entries keep their order, so they wait for the rest of a large one; and for that of a snapshot.
    const entriesWait = this.#cut === undefined ? this.#entries.count > 0 : this.#cut.of === 'entries';
    let [next, least]: [LaneName | undefined, number] = [undefined, Infinity];
    if (this.#requests.count > 0) [next, least] = ['requests', requests.sentBytes];
    if (entriesWait && entries.sentBytes < least) [next, least] = ['entries', entries.sentBytes];
    if (this.#largeRequests.count > 0 && largeRequests.sentBytes < least) next = 'largeRequests';
    return next;
  }

  #take(lane: LaneName, pieceBytes: number): Uint8Array | undefined {
    if (lane === 'requests') return this.#requests.shift();
    if (lane === 'entries') return this.#whole('entries', pieceBytes);
    return this.#largeRequests.piece(Math.min(pieceBytes, PIECE_BYTES_MAX));
  }

  /** The next frame, or a piece of it when it is large. */
  #whole(of: 'entries' | 'snapshots', pieceBytes: number): Uint8Array | undefined {
    if (this.#cut === undefined) {
      const frame = (of === 'entries' ? this.#entries : this.#snapshots).shift();
      if (frame === undefined || pieceBytes === Infinity || !isLarge(frame)) return frame;
      this.#cut = { frame, of };
      this.#cutAt = 0;
    }
    const { frame } = this.#cut;
    const piece = pieceOf(frame, this.#cutAt, pieceBytes);
    this.#cutAt += pieceBytes;
    if (this.#cutAt >= frame.length) this.#cut = undefined;
    return piece;
  }

  #queueOf(priority: Priority): FrameQueue {
    if (priority === PRIORITY_CONTROL) return this.#control;
    if (priority === PRIORITY_REPLIES) return this.#replies;
    if (priority === PRIORITY_REQUESTS) return this.#requests;
    return priority === PRIORITY_ENTRIES ? this.#entries : this.#snapshots;
  }

  #countDrop(bytes: number): void {
    this.droppedFrames++;
    this.droppedBytes += bytes;
  }
}

function newLane(): Lane {
  return { sentBytes: 0 };
}
