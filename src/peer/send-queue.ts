/** Frames that wait for one peer, bounded in bytes. What gives way on overflow is Raft's oldest: Raft repeats itself. */
import { FRAME_RAFT, frameKind } from '../wire/peer/frame.ts';

/** Handed-out slots at the front that are tolerated before the array is cut. */
const FRONT_SLOTS_MAX = 1024;

export class SendQueue {
  readonly #bytesMax: number;
  /** Undefined: dropped. */
  #frames: (Uint8Array | undefined)[] = [];
  #front = 0;
  /** Nothing droppable lies before this position. */
  #droppableFrom = 0;
  #bytes = 0;
  /** Of frames that do not give way. */
  #firmBytes = 0;
  #count = 0;
  #droppedFrames = 0;
  #droppedBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get count(): number {
    return this.#count;
  }

  /** Frames that gave way, were refused, or were left at a loss; never reset. */
  get droppedFrames(): number {
    return this.#droppedFrames;
  }

  get droppedBytes(): number {
    return this.#droppedBytes;
  }

  /** True when a frame that does not give way, or several of that size in all, would be taken. */
  hasRoom(bytes: number): boolean {
    return this.#firmBytes === 0 || this.#firmBytes + bytes <= this.#bytesMax;
  }

  /** False: no room, also not by dropping. An empty queue takes a frame of any size, else it could never leave. */
  push(frame: Uint8Array): boolean {
    while (this.#count > 0 && this.#bytes + frame.length > this.#bytesMax && this.#dropOldest());
    if (this.#count > 0 && this.#bytes + frame.length > this.#bytesMax) {
      this.#countDrop(frame);
      return false;
    }
    this.#frames.push(frame);
    this.#bytes += frame.length;
    if (frameKind(frame) !== FRAME_RAFT) this.#firmBytes += frame.length;
    this.#count++;
    return true;
  }

  shift(): Uint8Array | undefined {
    while (this.#front < this.#frames.length) {
      const frame = this.#frames[this.#front];
      this.#frames[this.#front++] = undefined;
      if (frame === undefined) continue;
      this.#bytes -= frame.length;
      if (frameKind(frame) !== FRAME_RAFT) this.#firmBytes -= frame.length;
      this.#count--;
      this.#cut();
      return frame;
    }
    this.#cut();
    return undefined;
  }

  /** Gives up all that waits. */
  clear(): void {
    for (let frame = this.shift(); frame !== undefined; frame = this.shift()) this.#countDrop(frame);
  }

  #dropOldest(): boolean {
    let at = Math.max(this.#droppableFrom, this.#front);
    for (; at < this.#frames.length; at++) {
      const frame = this.#frames[at];
      if (frame === undefined || frameKind(frame) !== FRAME_RAFT) continue;
      this.#frames[at] = undefined;
      this.#bytes -= frame.length;
      this.#count--;
      this.#countDrop(frame);
      this.#droppableFrom = at + 1;
      return true;
    }
    this.#droppableFrom = at;
    return false;
  }

  #countDrop(frame: Uint8Array): void {
    this.#droppedFrames++;
    this.#droppedBytes += frame.length;
  }

  #cut(): void {
    if (this.#front < this.#frames.length && this.#front < FRONT_SLOTS_MAX) return;
    this.#frames.splice(0, this.#front);
    this.#droppableFrom = Math.max(0, this.#droppableFrom - this.#front);
    this.#front = 0;
  }
}
