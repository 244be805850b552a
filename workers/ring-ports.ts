/** The shard's ports over the real rings and transfer channels. */
import { assert } from '../src/base/assert.ts';
import type { TransferReceiver, TransferSender } from '../src/mailbox/transfer-channel.ts';
import type { RingReader, RingWriter } from '../src/mailbox/ring.ts';
import type { Waker } from '../src/mailbox/wake.ts';
import type { ReplyTarget, RequestSource } from '../src/shard/ports.ts';

export class RingRequests implements RequestSource {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly #reader: RingReader;
  readonly #transfers: TransferReceiver;

  constructor(reader: RingReader, transfers: TransferReceiver) {
    this.#reader = reader;
    this.#transfers = transfers;
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

  takeTransfer(id: number): Uint8Array {
    return new Uint8Array(this.#transfers.take(id));
  }
}

/** Longest nap of a shard that waits for space on the way back: a lost wake-up costs this much, no more. */
const NAP_MS = 5;
/** The main thread never waits for a shard, so a ring that stays full this long means that it is stuck. */
const NAPS_MAX = 12_000;

export class RingReplies implements ReplyTarget {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly #writer: RingWriter;
  readonly #waker: Waker;
  readonly #transfers: TransferSender;
  readonly #nap = new Int32Array(new SharedArrayBuffer(4));

  constructor(writer: RingWriter, waker: Waker, transfers: TransferSender) {
    this.#writer = writer;
    this.#waker = waker;
    this.#transfers = transfers;
    this.bytes = writer.bytes;
    this.view = writer.view;
  }

  reserve(sizeBytes: number): number {
    for (let naps = 0; ; naps++) {
      let at = this.#writer.reserve(sizeBytes);
      if (at >= 0) return at;
      assert(naps < NAPS_MAX, 'the main thread drains the reply ring');
      this.publish();
      this.#writer.requestSpace();
      at = this.#writer.reserve(sizeBytes);
      if (at >= 0) return at;
      this.#writer.waitForSpace(NAP_MS);
    }
  }

  commit(sizeBytes: number): void {
    this.#writer.commit(sizeBytes);
  }

  sendTransfer(body: Uint8Array<ArrayBuffer>): number {
    assert(body.byteLength === body.buffer.byteLength, 'a transfer channel body owns its memory');
    for (let naps = 0; ; naps++) {
      const id = this.#transfers.send(body.buffer);
      if (id > 0) return id;
      assert(naps < NAPS_MAX, 'the main thread takes what is in the transfer channel');
      this.publish();
      Atomics.wait(this.#nap, 0, 0, NAP_MS);
    }
  }

  publish(): void {
    if (this.#writer.publish()) this.#waker.wake();
  }
}
