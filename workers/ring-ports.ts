/** The shard's ports over the real rings and lanes. */
import { assert } from '../src/base/assert.ts';
import type { LaneReceiver, LaneSender } from '../src/mailbox/lane.ts';
import type { RingReader, RingWriter } from '../src/mailbox/ring.ts';
import type { Waker } from '../src/mailbox/wake.ts';
import type { ReplyTarget, RequestSource } from '../src/shard/ports.ts';

export class RingRequests implements RequestSource {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly #reader: RingReader;
  readonly #lane: LaneReceiver;

  constructor(reader: RingReader, lane: LaneReceiver) {
    this.#reader = reader;
    this.#lane = lane;
    this.bytes = reader.bytes;
    this.view = reader.view;
  }

  get offset(): number {
    return this.#reader.offset;
  }

  get length(): number {
    return this.#reader.length;
  }

  next(): boolean {
    return this.#reader.next();
  }

  release(): void {
    this.#reader.release();
  }

  takeLane(id: number): Uint8Array {
    return new Uint8Array(this.#lane.take(id));
  }
}

/** How long one nap of a shard that waits for space in the reply ring is; the main thread drains at every loop turn. */
const NAP_MS = 1;
/** The main thread never waits for a shard, so a ring that stays full this long means that it is stuck. */
const NAPS_MAX = 60_000;

export class RingReplies implements ReplyTarget {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly #writer: RingWriter;
  readonly #waker: Waker;
  readonly #lane: LaneSender;
  readonly #nap = new Int32Array(new SharedArrayBuffer(4));

  constructor(writer: RingWriter, waker: Waker, lane: LaneSender) {
    this.#writer = writer;
    this.#waker = waker;
    this.#lane = lane;
    this.bytes = writer.bytes;
    this.view = writer.view;
  }

  reserve(sizeBytes: number): number {
    for (let naps = 0; ; naps++) {
      const at = this.#writer.reserve(sizeBytes);
      if (at >= 0) return at;
      this.#rest(naps);
    }
  }

  commit(sizeBytes: number): void {
    this.#writer.commit(sizeBytes);
  }

  sendLane(body: Uint8Array<ArrayBuffer>): number {
    assert(body.byteLength === body.buffer.byteLength, 'a lane body owns its memory');
    for (let naps = 0; ; naps++) {
      const id = this.#lane.send(body.buffer);
      if (id > 0) return id;
      this.#rest(naps);
    }
  }

  publish(): void {
    if (this.#writer.publish()) this.#waker.wake();
  }

  /** Full: shows what is written so far and blocks this thread for a moment, so that the refusal travels back to main. */
  #rest(naps: number): void {
    assert(naps < NAPS_MAX, 'the main thread drains the reply ring');
    this.publish();
    Atomics.wait(this.#nap, 0, 0, NAP_MS);
  }
}
