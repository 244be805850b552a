/** Frames in order. Raft messages among them may be dropped. */
import { FRAME_KIND, frameKind } from './codec/frame.ts';

/** Handed-out slots at the front that are tolerated before the array is cut. */
const FRONT_SLOTS_MAX = 1024;

export class FrameQueue {
  /** The queued frames; undefined in place of a dropped one. */
  #frames: (Uint8Array | undefined)[] = [];
  #front = 0;
  /** No droppable frame before this position. */
  #droppableFrom = 0;
  #bytes = 0;
  #firmBytes = 0;
  #count = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of frames that are never dropped. */
  get firmBytes(): number {
    return this.#firmBytes;
  }

  get count(): number {
    return this.#count;
  }

  push(frame: Uint8Array): void {
    this.#frames.push(frame);
    this.#bytes += frame.length;
    if (frameKind(frame) !== FRAME_KIND.raft) this.#firmBytes += frame.length;
    this.#count++;
  }

  shift(): Uint8Array | undefined {
    while (this.#front < this.#frames.length) {
      const frame = this.#frames[this.#front];
      this.#frames[this.#front++] = undefined;
      if (frame === undefined) continue;
      this.#bytes -= frame.length;
      if (frameKind(frame) !== FRAME_KIND.raft) this.#firmBytes -= frame.length;
      this.#count--;
      this.#cut();
      return frame;
    }
    this.#cut();
    return undefined;
  }

  /** Drops the oldest Raft message; undefined: there is none. */
  dropOldest(): Uint8Array | undefined {
    let at = Math.max(this.#droppableFrom, this.#front);
    for (; at < this.#frames.length; at++) {
      const frame = this.#frames[at];
      if (frame === undefined || frameKind(frame) !== FRAME_KIND.raft) continue;
      this.#frames[at] = undefined;
      this.#bytes -= frame.length;
      this.#count--;
      this.#droppableFrom = at + 1;
      return frame;
    }
    this.#droppableFrom = at;
    return undefined;
  }

  #cut(): void {
    if (this.#front < this.#frames.length && this.#front < FRONT_SLOTS_MAX) return;
    this.#frames.splice(0, this.#front);
    this.#droppableFrom = Math.max(0, this.#droppableFrom - this.#front);
    this.#front = 0;
  }
}
