/**
 * Collects a request body. The usual body arrives in one chunk and is used where it lies, in memory of uWebSockets.js
 * that is valid only during the callback. A body in several chunks is copied into one resizable buffer: it grows in
 * place, so a chunked body is copied once, and its pages go back to the system at once, not when the collector gets to
 * it (a few large bodies would otherwise stay resident for as long as the process is idle).
 *
 * Bounds: a declared size over the limit is refused before the body is read, a chunked one as soon as it passes it.
 * All bodies together stay within a budget, which is charged as bytes arrive: what is only announced holds no room
 * that others need. Slow senders: uWebSockets.js closes a connection that brings less than 160 KiB in 10 s while a
 * body is awaited, SlowBodies one whose body takes too long as a whole.
 */
import type { BodyBudget, SlowBodies } from '../access/bodies.ts';
import type { ErrorLog } from '../ports.ts';
import { type ResponseOwner, guardData, readData } from './guard.ts';
import type { UwsResponse } from './uws.ts';

/** The language's own since ES2024 (Node 20 has it); the compiler's library here is ES2023. */
interface ResizableBuffer extends ArrayBuffer {
  resize(byteLength: number): void;
}
const newResizable = ArrayBuffer as unknown as new (
  byteLength: number,
  options: { maxByteLength: number },
) => ResizableBuffer;

/** Step of growth in bytes: uWebSockets.js hands over up to 512 KiB at a time. */
const GROWTH_BYTES = 512 * 1024;

/** Takes the body of a request. */
export interface Consumer<Call> {
  /** The body is complete. `body` may lie in memory that is gone after the call; the gateway takes a large one. */
  consume(call: Call, body: Uint8Array): void;
  /** Answers a body that is too large, in place of the plain refusal. */
  tooLarge?(call: Call): void;
}

/** Counts bytes against limits (access/request-meters.ts). */
export interface Spending {
  spend(bytes: number): void;
}

/** The request that the body belongs to. */
interface BodyOwner extends ResponseOwner {
  /** Answered, or the client is gone: what still comes is thrown away. */
  readonly isOver: boolean;
  readonly meters: Spending;
  /** Cuts the connection; `status` is what the metrics count. */
  close(status: number): void;
}

/** The bounds that the bodies of one listener share. */
export interface BodyBounds {
  readonly budget: BodyBudget;
  readonly slowBodies: SlowBodies;
  readonly logError: ErrorLog;
}

export class BodyReader<Owner extends BodyOwner> {
  consumer: Consumer<Owner> | undefined = undefined;
  readonly #bounds: BodyBounds;
  readonly #owner: Owner;
  readonly #data: ReturnType<typeof guardData>;
  #budget: BodyBudget;
  #bytesMax = 0;
  /** Bytes taken from the budget. */
  #heldBytes = 0;
  /** uWebSockets.js will call again: such an object must not serve another request. */
  #pending = false;
  #buffer: ResizableBuffer | undefined = undefined;
  #length = 0;
  #declared = -1;

  constructor(bounds: BodyBounds, owner: Owner) {
    this.#bounds = bounds;
    this.#owner = owner;
    this.#budget = bounds.budget;
    this.#data = guardData(bounds.logError, owner, (chunk, last) => this.#chunk(chunk, last));
  }

  get isPending(): boolean {
    return this.#pending;
  }

  /** `declared` is Content-Length in bytes, -1 when unknown. */
  read(res: UwsResponse, declared: number, bytesMax: number, budget: BodyBudget): void {
    this.#bytesMax = bytesMax;
    this.#budget = budget;
    this.#declared = declared;
    this.#length = 0;
    // A body that is never read is discarded by uWebSockets.js, and the connection closed if that takes over 10 s.
    if (declared > bytesMax) return this.#tooLarge();
    // Only a look: it would not fit if it came now.
    if (!budget.hasRoom(declared)) return this.#owner.fail('INFLIGHT_FULL');
    this.#pending = true;
    readData(res, this.#data);
  }

  #ready(body: Uint8Array): void {
    this.consumer?.consume(this.#owner, body);
  }

  #tooLarge(): void {
    if (this.consumer?.tooLarge === undefined) this.#owner.fail('BODY_TOO_LARGE');
    else this.consumer.tooLarge(this.#owner);
  }

  /** The request is over. */
  release(): void {
    this.consumer = undefined;
    if (this.#heldBytes > 0) this.#budget.give(this.#heldBytes);
    this.#heldBytes = 0;
    this.#drop();
  }

  /** The body takes too long: the client may not even read an answer. */
  cutOff(): void {
    this.#drop();
    this.#owner.close(408);
  }

  #chunk(chunk: ArrayBuffer, last: boolean): void {
    if (last) this.#pending = false;
    if (this.#owner.isOver) return;
    const size = this.#length + chunk.byteLength;
    if (size > this.#heldBytes && !this.#hold(size)) return;
    if (!last && this.#length === 0) this.#bounds.slowBodies.add(this);
    if (last && this.#length === 0) return this.#ready(new Uint8Array(chunk));
    if (chunk.byteLength > 0) {
      new Uint8Array(this.#reserve(size)).set(new Uint8Array(chunk), this.#length);
      this.#length = size;
    }
    if (!last) return;
    try {
      const buffer = this.#reserve(size);
      // The gateway may give all of it to a shard.
      buffer.resize(size);
      this.#ready(new Uint8Array(buffer, 0, size));
    } finally {
      this.#drop();
    }
  }

  /** Takes what the body needs beyond what it holds already; false when it was refused. */
  #hold(size: number): boolean {
    if (size > this.#bytesMax) {
      this.#drop();
      this.#tooLarge();
      return false;
    }
    if (!this.#budget.take(size - this.#heldBytes)) {
      this.#drop();
      this.#owner.fail('INFLIGHT_FULL');
      return false;
    }
    this.#owner.meters.spend(size - this.#heldBytes);
    this.#heldBytes = size;
    return true;
  }

  /** The buffer, with room for `size` bytes. Only the address range of the largest body is taken at once. */
  #reserve(size: number): ResizableBuffer {
    const most = this.#declared >= 0 ? Math.max(this.#declared, size) : this.#bytesMax;
    const buffer = (this.#buffer ??= new newResizable(0, { maxByteLength: most }));
    if (size > buffer.byteLength) buffer.resize(Math.min(Math.max(size, buffer.byteLength + GROWTH_BYTES), most));
    return buffer;
  }

  #drop(): void {
    this.#bounds.slowBodies.delete(this);
    // It has no bytes, and no size to change, when it was given away.
    if (this.#buffer !== undefined && this.#buffer.byteLength > 0) this.#buffer.resize(0);
    this.#buffer = undefined;
    this.#length = 0;
  }
}
