/**
 * Large answers whose clients take them slowly. What the kernel does not take waits here, counted, instead of in the buffers of
 * uWebSockets.js: five thousand connections that asked for 1 MiB and read nothing held 3.4 GB there.
 *
 * The more waits, the less a read may bring (a client continues from Stream-Next-Offset); at the bound reads are refused
 * with 503, and answers that were under way already are cut.
 *
 * Writing to the socket of an answer of unknown length, as uWebSockets.js behaves (20.51 and later; read in its source and tried):
 *
 * - `write` copies what the kernel does not take and returns false. Inside `cork` a write below 16 KiB always returns true,
 *   because it only fills the cork buffer; that the kernel refused it shows at the NEXT write. So a full socket is noticed one
 *   small frame late, which is fine, and every write must be corked: uncorked each frame is three system calls instead of
 *   one (13 µs instead of 5 µs for each reader, measured).
 * - Inside `cork` a write of more than fits the cork buffer is LOST, all of it, when the kernel has no room for what was corked
 *   before, be it the nine bytes of the chunk's own size: `uncork` in its AsyncSocket.h returns and forgets it. The client
 *   takes what follows for the missing bytes. So no write is larger than the cork buffer.
 * - With an onWritable handler uWebSockets.js does not send its buffer by itself: the next write does. So the handler
 *   always writes, a comment, and is called again as long as bytes remain. Without a handler, the library would close the
 *   connection 10 s after the socket has drained, even though the stream is only quiet.
 * - A refused write starts a timeout of 10 s (coarse), each further one restarts it, onWritable ends it. There is no
 *   timeout at all while nothing is refused: a quiet stream stays open for as long as both ends like.
 */
import type { HttpContext } from './context.ts';
import { type ErrorLog, type ResponseOwner, guardAbort, takeOver, whenWritable } from './guard.ts';
import { requestIdOf } from './request-ids.ts';
import type { UwsResponse } from './uws.ts';

/** Bytes that wait for slow clients in this process. A client on a slow line has most of its answer here for a second or so. */
const WAITING_BYTES_MAX = 128 * 1024 * 1024;
/** From here on a read brings SMALL_READ_BYTES. */
const WAITING_BYTES_MANY = WAITING_BYTES_MAX / 4;
const SMALL_READ_BYTES = 128 * 1024;
/** Sockets take this much without help; with the headers it fits the buffer in which uWebSockets.js corks (writeChunk). */
const UNCOUNTED_BYTES = 8 * 1024;

export class ResponseBackpressure {
  usedBytes = 0;
  readonly #log: ErrorLog;
  #waiting = 0;
  #idle: (() => void) | undefined;

  constructor(log: ErrorLog) {
    this.#log = log;
  }

  get full(): boolean {
    return this.usedBytes >= WAITING_BYTES_MAX;
  }

  /** Bytes that a read may bring now, given what its client allows (0: no bound). */
  readBytes(asked: number): number {
    if (this.usedBytes < WAITING_BYTES_MANY) return asked;
    return asked === 0 ? SMALL_READ_BYTES : Math.min(asked, SMALL_READ_BYTES);
  }

  /**
   * Ends an answer with `body`, whose memory may be `reused` afterwards, or is `kept` as it is. Call it corked; `res` is not to be
   * touched after.
   */
  end(res: UwsResponse, body: Uint8Array, memory: 'reused' | 'kept' = 'reused'): void {
    if (body.length <= UNCOUNTED_BYTES) {
      res.end(body);
      return;
    }
    const [, whole] = res.tryEnd(body, body.length);
    if (whole) return;
    const from = res.getWriteOffset();
    const size = body.length - from;
    if (this.usedBytes + size > WAITING_BYTES_MAX) {
      this.#keep(res, () => undefined);
      res.close();
      return;
    }
    // A kept body counts in full for each client: it may be gone from where it was kept before the last of them has it.
    const rest = memory === 'kept' ? body.subarray(from) : body.slice(from);
    this.usedBytes += size;
    this.#waiting++;
    let over = false;
    const finish = (): void => {
      if (over) return;
      over = true;
      this.usedBytes -= size;
      this.#waiting--;
      if (this.#waiting === 0) this.#idle?.();
    };
    const owner = this.#keep(res, finish);
    whenWritable(res, this.#log, owner, (offset) => {
      const [taken, done] = res.tryEnd(rest.subarray(offset - from), body.length);
      if (done) finish();
      return taken;
    });
  }

  /** In place of the owner, which has answered. */
  #keep(res: UwsResponse, gone: () => void): ResponseOwner {
    const owner: ResponseOwner = {
      operation: 'unsent answer',
      get requestId() {
        return requestIdOf(res);
      },
      fail: () => void res.close(),
    };
    takeOver(res, owner, guardAbort(this.#log, owner, gone));
    return owner;
  }

  /** Resolves when nothing waits. */
  idle(): Promise<void> {
    if (this.#waiting === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }
}

const backpressures = new WeakMap<HttpContext, ResponseBackpressure>();

/** The unsent answers of `ctx`. */
export function backpressureOf(ctx: HttpContext): ResponseBackpressure {
  let backpressure = backpressures.get(ctx);
  if (backpressure === undefined) backpressures.set(ctx, (backpressure = new ResponseBackpressure(ctx.logError)));
  return backpressure;
}

/** The cork buffer has 16 KiB; the head of a chunk goes there too, in front of the first one `Transfer-Encoding: chunked`. */
const WRITE_BYTES_MAX = 15 * 1024;

let corkedRes: Pick<UwsResponse, 'cork' | 'write'>;
let corkedBytes: Uint8Array;
let corkedTaken: boolean;

/** One function for all writes: a closure for each of 1000 readers would cost as much as the frame. */
const writeCorked = (): void => {
  corkedTaken = corkedRes.write(corkedBytes);
};

/** Writes some bytes, not none. False: the socket is full, and the bytes (or earlier ones) wait in memory. */
export function writeChunk(res: Pick<UwsResponse, 'cork' | 'write'>, bytes: Uint8Array): boolean {
  corkedRes = res;
  if (bytes.length <= WRITE_BYTES_MAX) {
    corkedBytes = bytes;
    res.cork(writeCorked);
    return corkedTaken;
  }
  let taken = true;
  for (let at = 0; at < bytes.length; at += WRITE_BYTES_MAX) {
    corkedBytes = bytes.subarray(at, at + WRITE_BYTES_MAX);
    res.cork(writeCorked);
    taken = corkedTaken;
  }
  return taken;
}
