/** The main thread's side of a shard, without threads: request frames in, reply frames out. */
import { Reply } from '../../src/protocol/reply.ts';
import { type Request, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import type { ReplyTarget, RequestSource } from '../../src/shard/ports.ts';

/** Frames that wait for the next turn. What was handled is scribbled over, as the ring will be. */
export class SimSource implements RequestSource {
  bytes = new Uint8Array(0);
  view = new DataView(this.bytes.buffer);
  readonly offset = 0;
  length = 0;
  #waiting: Uint8Array<ArrayBuffer>[] = [];
  #handled: Uint8Array[] = [];
  readonly #transfers = new Map<number, Uint8Array>();
  #lastTransferId = 0;

  push(request: Request, slot: number, isTransferred: boolean): void {
    const { payload } = request.command;
    const transferId = isTransferred && payload !== undefined ? ++this.#lastTransferId : 0;
    if (transferId !== 0) this.#transfers.set(transferId, (payload as Uint8Array).slice());
    const bytes = new Uint8Array(requestBytesMax(request));
    const size = writeRequest(request, slot, transferId, bytes, new DataView(bytes.buffer), 0);
    this.#waiting.push(bytes.slice(0, size));
  }

  next(): boolean {
    const frame = this.#waiting.shift();
    if (frame === undefined) return false;
    this.bytes = frame;
    this.view = new DataView(frame.buffer);
    this.length = frame.length;
    this.#handled.push(frame);
    return true;
  }

  release(): void {
    for (const frame of this.#handled) frame.fill(0xa5);
    this.#handled = [];
  }

  takeTransfer(id: number): Uint8Array {
    const payload = this.#transfers.get(id);
    if (payload === undefined) throw new Error('a payload is taken once');
    this.#transfers.delete(id);
    return payload;
  }
}

const INITIAL_BYTES = 16 * 1024;

export class SimTarget implements ReplyTarget {
  bytes = new Uint8Array(INITIAL_BYTES);
  view = new DataView(this.bytes.buffer);
  /** Receives published records, each in its own memory. */
  onReply: (reply: Reply) => void = () => {};
  #written: Reply[] = [];
  readonly #transfers = new Map<number, Uint8Array>();
  #lastTransferId = 0;

  reserve(sizeBytes: number): number {
    if (sizeBytes > this.bytes.length) {
      this.bytes = new Uint8Array(2 * sizeBytes);
      this.view = new DataView(this.bytes.buffer);
    }
    return 0;
  }

  commit(sizeBytes: number): void {
    const reply = new Reply();
    const frame = this.bytes.slice(0, sizeBytes);
    reply.read(frame, new DataView(frame.buffer), 0);
    if (reply.transferId !== 0) {
      reply.body = this.#transfers.get(reply.transferId);
      this.#transfers.delete(reply.transferId);
    }
    this.#written.push(reply);
  }

  sendTransfer(body: Uint8Array<ArrayBuffer>): number {
    this.#transfers.set(++this.#lastTransferId, body);
    return this.#lastTransferId;
  }

  publish(): void {
    const written = this.#written;
    this.#written = [];
    for (const reply of written) this.onReply(reply);
  }
}
