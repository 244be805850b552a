/**
 * Frames queued for one peer, by priority: small urgent frames overtake large ones. Each priority keeps its order.
 * The bounds are in bytes; on overflow the oldest Raft messages are dropped, because Raft repeats them.
 */
import { planted } from '../base/planted.ts';
import {
  FRAME_FORWARD_REPLY,
  FRAME_PING,
  FRAME_SNAPSHOT_ACK,
  FRAME_SNAPSHOT_BEGIN,
  FRAME_SNAPSHOT_CHUNK,
  FRAME_SNAPSHOT_END,
  frameKind,
} from './codec/frame.ts';
import { FrameQueue } from './frame-queue.ts';

/** Heartbeats, votes, Raft answers, pings: a leader needs them to stay leader. */
export const PRIORITY_CONTROL = 0;
/** Answers to forwarded requests: small, and a client waits for them. */
export const PRIORITY_REPLIES = 1;
/** Entries and forwarded requests. */
export const PRIORITY_ENTRIES = 2;
export const PRIORITY_SNAPSHOTS = 3;
export type Priority = 0 | 1 | 2 | 3;

/**
 * Bound of the control frames alone: heartbeats and answers of all groups for minutes; a link that carries less is as
 * good as broken.
 */
const CONTROL_BYTES_MAX = 1024 * 1024;
/**
 * Bytes of entries that may pass a waiting snapshot before a piece of it is sent: continuous entries must not starve
 * it.
 */
const SNAPSHOT_TURN_BYTES = 256 * 1024;

/** Priority of a frame by its kind alone: RAFT counts as entries. */
export function priorityOf(frame: Uint8Array): Priority {
  switch (frameKind(frame)) {
    case FRAME_PING:
    case FRAME_SNAPSHOT_ACK:
      return PRIORITY_CONTROL;
    case FRAME_FORWARD_REPLY:
      return PRIORITY_REPLIES;
    case FRAME_SNAPSHOT_BEGIN:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_END:
      return PRIORITY_SNAPSHOTS;
    default:
      return PRIORITY_ENTRIES;
  }
}

export class SendQueue {
  readonly #bytesMax: number;
  readonly #control = new FrameQueue();
  readonly #replies = new FrameQueue();
  readonly #entries = new FrameQueue();
  readonly #snapshots = new FrameQueue();
  #passedBytes = 0;
  #droppedFrames = 0;
  #droppedBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#control.bytes + this.#largeBytes;
  }

  get count(): number {
    return this.#control.count + this.#replies.count + this.#entries.count + this.#snapshots.count;
  }

  /** Frames dropped, refused, or pending when a connection was lost; never reset. */
  get droppedFrames(): number {
    return this.#droppedFrames;
  }

  get droppedBytes(): number {
    return this.#droppedBytes;
  }

  /**
   * Whether an undroppable frame, or several of that total size, would be accepted. They may take half of the queue: if
   * requests for a leader filled it, no entry would fit.
   */
  hasRoom(bytes: number): boolean {
    const firmBytes = this.#replies.firmBytes + this.#entries.firmBytes + this.#snapshots.firmBytes;
    return firmBytes === 0 || firmBytes + bytes <= this.#bytesMax / 2;
  }

  /**
   * False: no space, even by dropping. An empty queue accepts a frame of any size, because it could never be sent
   * otherwise.
   */
  push(frame: Uint8Array, priority: Priority = priorityOf(frame)): boolean {
    if (planted('urgent-waits-in-line')) priority = PRIORITY_ENTRIES;
    const isControl = priority === PRIORITY_CONTROL;
    const isFull = (): boolean => {
      const [waiting, max] = isControl ? [this.#control.bytes, CONTROL_BYTES_MAX] : [this.#largeBytes, this.#bytesMax];
      return waiting > 0 && waiting + frame.length > max;
    };
    while (isFull()) {
      const dropped = (isControl ? this.#control : this.#entries).dropOldest();
      if (dropped === undefined) {
        this.#countDrop(frame);
        return false;
      }
      this.#countDrop(dropped);
    }
    this.#queueOf(priority).push(frame);
    return true;
  }

  /** The next frame to send. `urgent`: only one that must not wait for bytes in flight; `small`: nor a large frame. */
  shift(which: 'all' | 'small' | 'urgent' = 'all'): Uint8Array | undefined {
    if (which === 'urgent' || this.#control.count > 0) return this.#control.shift();
    if (which === 'small' || this.#replies.count > 0) return this.#replies.shift();
    const isTurn = this.#entries.count === 0 || this.#passedBytes >= SNAPSHOT_TURN_BYTES;
    if (this.#snapshots.count > 0 && isTurn) {
      this.#passedBytes = 0;
      return this.#snapshots.shift();
    }
    const frame = this.#entries.shift();
    this.#passedBytes = this.#snapshots.count === 0 ? 0 : this.#passedBytes + (frame?.length ?? 0);
    return frame;
  }

  /** Drops everything queued. */
  clear(): void {
    for (let frame = this.shift(); frame !== undefined; frame = this.shift()) this.#countDrop(frame);
  }

  get #largeBytes(): number {
    return this.#replies.bytes + this.#entries.bytes + this.#snapshots.bytes;
  }

  #queueOf(priority: Priority): FrameQueue {
    if (priority === PRIORITY_CONTROL) return this.#control;
    if (priority === PRIORITY_REPLIES) return this.#replies;
    return priority === PRIORITY_ENTRIES ? this.#entries : this.#snapshots;
  }

  #countDrop(frame: Uint8Array): void {
    this.#droppedFrames++;
    this.#droppedBytes += frame.length;
  }
}
