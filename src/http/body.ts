/**
 * Collects a request body. The usual body arrives in one chunk and is used where it lies, in memory of uWebSockets.js
 * that is valid only during the callback. A body in several chunks is copied into one resizable buffer: it grows in place,
 * so a chunked body is copied once, and its pages go back to the system at once, not when the collector gets to it (a few
 * large bodies would otherwise stay resident for as long as the process is idle).
 *
 * Bounds: a declared size over the limit is refused before the body is read, a chunked one as soon as it passes it. All bodies
 * together stay within a budget, which is charged as bytes arrive: what is only announced holds no room that others need. Slow
 * senders: uWebSockets.js closes a connection that brings less than 160 KiB in 10 s while a body is awaited, SlowBodies one
 * whose body takes too long as a whole.
 */
import { type ErrorLog, type ResponseOwner, guardData, readData } from './guard.ts';
import type { UwsResponse } from './uws.ts';

/** Bytes of request bodies that this process holds or has handed to a shard without an answer yet; shared by the planes. */
export class BodyBudget {
  readonly limitBytes: number;
  usedBytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  take(bytes: number): boolean {
    if (!this.hasRoom(bytes)) return false;
    this.usedBytes += bytes;
    return true;
  }

  /** Whether so many bytes would fit now. */
  hasRoom(bytes: number): boolean {
    return this.usedBytes + bytes <= this.limitBytes;
  }

  give(bytes: number): void {
    this.usedBytes -= bytes;
  }
}

/** 32 MiB over 1 Mbit/s take four and a half minutes. */
const BODY_MS_MAX = 300_000;
/** How often slow bodies are looked for; a body may take so much longer. */
const SWEEP_MS = 5000;

interface SlowBody {
  /** Ends the request and its connection. */
  cutOff(): void;
}

/**
 * Bodies that are on their way, and how long for. Half a body holds memory and a place in the budget; a sender that drips just fast
 * enough for the library (160 KiB in 10 s) would hold 32 MiB for half an hour.
 */
export class SlowBodies {
  readonly #clockMs: () => number;
  /** When the first piece came; the longest ago is the first. */
  readonly #since = new Map<SlowBody, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(clockMs: () => number) {
    this.#clockMs = clockMs;
  }

  get size(): number {
    return this.#since.size;
  }

  /** Its first piece came, and it was not all. */
  add(body: SlowBody): void {
    this.#since.set(body, this.#clockMs());
    this.#timer ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
  }

  /** Complete, refused or gone. */
  delete(body: SlowBody): void {
    // Most of the time there is none, and every request comes by.
    if (this.#since.size === 0 || !this.#since.delete(body) || this.#since.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  sweep(): void {
    const latestMs = this.#clockMs() - BODY_MS_MAX;
    for (const [body, sinceMs] of this.#since) {
      if (sinceMs > latestMs) return;
      this.delete(body);
      body.cutOff();
    }
  }
}

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
  /** The body is complete. `body` may lie in memory that is gone after the call. */
  consume(call: Call, body: Uint8Array): void;
  /** In place of the plain refusal. */
  tooLarge?(call: Call): void;
}

/** The request that the body belongs to. */
interface BodyOwner extends ResponseOwner {
  /** Answered, or the client is gone: what still comes is thrown away. */
  readonly isOver: boolean;
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
      this.#ready(new Uint8Array(this.#reserve(size), 0, size));
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
    this.#buffer?.resize(0);
    this.#buffer = undefined;
    this.#length = 0;
  }
}
