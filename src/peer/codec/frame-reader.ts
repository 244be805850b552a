/**
 * Cuts a byte stream into frames. A frame within one chunk is handed out in place; one that spans chunks is assembled
 * in a buffer that is kept between frames. Memory: one frame (FRAME_PAYLOAD_BYTES_MAX), growing with the bytes that
 * arrive, not with the announced length.
 */
import { viewOf } from '../../base/bytes.ts';
import { FRAME_HEAD_BYTES, FRAME_PAYLOAD_BYTES_MAX, checkFrame, payloadBytesAt } from './frame.ts';
import type { FrameFault, FrameSink } from './frame.ts';

const INITIAL_BYTES = 4 * 1024;
/** A buffer larger than this, grown for one huge frame, is released. */
const KEPT_BYTES = 1024 * 1024;

export class FrameReader {
  readonly #payloadBytesMax: number;
  #pending = new Uint8Array(INITIAL_BYTES);
  #pendingBytes = 0;

  constructor(payloadBytesMax: number = FRAME_PAYLOAD_BYTES_MAX) {
    this.#payloadBytesMax = payloadBytesMax;
  }

  /** Bytes of memory held for a frame that is not complete. */
  get heldBytes(): number {
    return this.#pending.length;
  }

  /** Passes every frame completed by `chunk` to `sink`. After a fault the reader must not be used again. */
  push(chunk: Uint8Array, sink: FrameSink): FrameFault | undefined {
    let at = 0;
    while (at < chunk.length) {
      if (this.#pendingBytes === 0) {
        const end = this.#inPlace(chunk, at, sink);
        if (typeof end === 'string') return end;
        if (end > at) {
          at = end;
          continue;
        }
      }
      const taken = this.#collect(chunk, at, sink);
      if (typeof taken === 'string') return taken;
      at += taken;
    }
    return undefined;
  }

  /** Handles the frame at `at` if all of it is there; returns where it ends, or `at`. */
  #inPlace(chunk: Uint8Array, at: number, sink: FrameSink): number | FrameFault {
    if (chunk.length - at < FRAME_HEAD_BYTES) return at;
    const payloadBytes = payloadBytesAt(chunk, at);
    if (payloadBytes > this.#payloadBytesMax) return 'oversized frame';
    const end = at + FRAME_HEAD_BYTES + payloadBytes;
    if (end > chunk.length) return at;
    return deliver(chunk, at, end, sink) ?? end;
  }

  /** Takes what the pending frame still needs; returns the number of bytes taken. */
  #collect(chunk: Uint8Array, at: number, sink: FrameSink): number | FrameFault {
    const left = chunk.length - at;
    if (this.#pendingBytes < FRAME_HEAD_BYTES) {
      const take = Math.min(FRAME_HEAD_BYTES - this.#pendingBytes, left);
      this.#append(chunk, at, take);
      if (this.#pendingBytes < FRAME_HEAD_BYTES) return take;
      const payloadBytes = payloadBytesAt(this.#pending, 0);
      if (payloadBytes > this.#payloadBytesMax) return 'oversized frame';
      return payloadBytes === 0 ? (this.#complete(sink) ?? take) : take;
    }
    const wanted = FRAME_HEAD_BYTES + payloadBytesAt(this.#pending, 0);
    const take = Math.min(wanted - this.#pendingBytes, left);
    this.#append(chunk, at, take, wanted);
    return this.#pendingBytes === wanted ? (this.#complete(sink) ?? take) : take;
  }

  #complete(sink: FrameSink): FrameFault | undefined {
    const fault = deliver(this.#pending, 0, this.#pendingBytes, sink);
    this.#pendingBytes = 0;
    if (this.#pending.length > KEPT_BYTES) this.#pending = new Uint8Array(INITIAL_BYTES);
    return fault;
  }

  #append(chunk: Uint8Array, at: number, size: number, wanted = 0): void {
    const needed = this.#pendingBytes + size;
    if (needed > this.#pending.length) {
      // Doubling bounds the copying; never beyond the frame, which bounds the memory.
      const grown = new Uint8Array(Math.max(needed, Math.min(wanted, 2 * this.#pending.length)));
      grown.set(this.#pending.subarray(0, this.#pendingBytes));
      this.#pending = grown;
    }
    this.#pending.set(chunk.subarray(at, at + size), this.#pendingBytes);
    this.#pendingBytes = needed;
  }
}

function deliver(bytes: Uint8Array, at: number, end: number, sink: FrameSink): FrameFault | undefined {
  const view = viewOf(bytes);
  const kind = checkFrame(view, at, end);
  if (typeof kind === 'string') return kind;
  sink(kind, bytes.subarray(at + FRAME_HEAD_BYTES, end));
  return undefined;
}
