import { int32At } from '../base/bytes.ts';
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { assert } from '../base/assert.ts';

/**
 * Out-of-band channel for payloads that are too big for a ring (request bodies up to 32 MiB, read replies): the buffer
 * moves to the other thread without a copy, and a ring record names it by its transfer id. Order at the sender:
 *
 *   1. reserve the ring record; when the ring is full, stop: nothing was sent yet
 *   2. `send` the buffer; postMessage puts it into the other port's queue before it returns
 *   3. write the transfer id into the record, commit, publish
 *
 * So the reader of the record finds the message in the queue already: `take` reads it synchronously and asserts that
 * it is there. The receiving port must never get a 'message' listener, or the event loop would take the messages away.
 */
export type TransferChannel = { sendPort: MessagePort; receivePort: MessagePort; shared: SharedArrayBuffer };

type Transfer = { id: number; buffer: ArrayBuffer };

const USED_BYTES = 0;
const BYTES_MAX = 1;

/** One i32 counts the bytes under way, so a transfer channel cannot hold more than this. */
const CHANNEL_BYTES_LIMIT = 2 ** 31 - 1;

/** One direction. `bytesMax` bounds what is sent and not yet taken; pass a port and `shared` to the other thread. */
export function createTransferChannel(bytesMax: number): TransferChannel {
  assert(
    bytesMax > 0 && bytesMax <= CHANNEL_BYTES_LIMIT,
    `channel bound ${bytesMax} is not from 1 to ${CHANNEL_BYTES_LIMIT} bytes`,
  );
  const shared = new SharedArrayBuffer(8);
  new Int32Array(shared)[BYTES_MAX] = bytesMax;
  const { port1, port2 } = new MessageChannel();
  return { sendPort: port1, receivePort: port2, shared };
}

/** @internal Bytes sent and not yet taken, from any thread. */
export function transferUsedBytes(shared: SharedArrayBuffer): number {
  return Atomics.load(new Int32Array(shared), USED_BYTES);
}

export class TransferSender {
  readonly #port: MessagePort;
  readonly #state: Int32Array<SharedArrayBuffer>;
  readonly #bytesMax: number;
  #lastId = 0;

  constructor(port: MessagePort, shared: SharedArrayBuffer) {
    this.#port = port;
    this.#state = new Int32Array(shared);
    this.#bytesMax = int32At(this.#state, BYTES_MAX);
  }

  /** Would `send` take a buffer of this size? Ask before reserving the ring record. */
  fits(sizeBytes: number): boolean {
    return Atomics.load(this.#state, USED_BYTES) + sizeBytes <= this.#bytesMax;
  }

  /**
   * Moves the buffer (it is detached here) and returns its transfer id, 1 to 2^32 - 1: 0 is free to mean "none". -1
   * when it is full. The buffer must own its memory: slices of Node's Buffer pool cannot be moved.
   */
  send(buffer: ArrayBuffer): number {
    const sizeBytes = buffer.byteLength;
    if (!this.fits(sizeBytes)) return -1;
    this.#lastId = this.#lastId === 0xffffffff ? 1 : this.#lastId + 1;
    // Counted before it can be taken, so that the count is never negative.
    Atomics.add(this.#state, USED_BYTES, sizeBytes);
    this.#port.postMessage({ id: this.#lastId, buffer } satisfies Transfer, [buffer]);
    return this.#lastId;
  }
}

export class TransferReceiver {
  readonly #port: MessagePort;
  readonly #state: Int32Array<SharedArrayBuffer>;
  /** Messages passed over by a `take` out of order. Bounded by the bytes of the transfer channel. */
  readonly #waiting = new Map<number, ArrayBuffer>();

  constructor(port: MessagePort, shared: SharedArrayBuffer) {
    this.#port = port;
    this.#state = new Int32Array(shared);
  }

  /** The buffer that a ring record named; each id can be taken once. */
  take(id: number): ArrayBuffer {
    const early = this.#waiting.get(id);
    if (early !== undefined) {
      this.#waiting.delete(id);
      return this.#taken(early);
    }
    for (;;) {
      const received = receiveMessageOnPort(this.#port) as { message: Transfer } | undefined;
      if (received === undefined) break;
      if (received.message.id === id) return this.#taken(received.message.buffer);
      this.#waiting.set(received.message.id, received.message.buffer);
    }
    throw new Error(`transfer ${id} is not there: its ring record was published first, or it was taken twice`);
  }

  #taken(buffer: ArrayBuffer): ArrayBuffer {
    Atomics.sub(this.#state, USED_BYTES, buffer.byteLength);
    return buffer;
  }
}
