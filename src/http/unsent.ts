/**
 * Large answers whose clients take them slowly. What the kernel does not take waits here, counted, instead of in the buffers of
 * uWebSockets.js: five thousand connections that asked for 1 MiB and read nothing held 3.4 GB there.
 *
 * The more waits, the less a read may bring (a client continues from Stream-Next-Offset); at the bound reads are refused
 * with 503, and answers that were under way already are cut.
 */
import type { ErrorLog, HttpContext } from './contract.ts';
import { type ResponseOwner, guardAbort, takeOver, whenWritable } from './guard.ts';
import type { UwsResponse } from './uws.ts';

/** Bytes that wait for slow clients in this process. A client on a slow line has most of its answer here for a second or so. */
const UNSENT_BYTES_MAX = 128 * 1024 * 1024;
/** From here on a read brings SMALL_READ_BYTES. */
const UNSENT_BYTES_MANY = UNSENT_BYTES_MAX / 4;
const SMALL_READ_BYTES = 128 * 1024;
/** Sockets take this much without help; with the headers it fits the buffer in which uWebSockets.js corks (live/socket.ts). */
const UNCOUNTED_BYTES = 8 * 1024;

export class Unsent {
  usedBytes = 0;
  readonly #log: ErrorLog;
  #waiting = 0;
  #idle: (() => void) | undefined;

  constructor(log: ErrorLog) {
    this.#log = log;
  }

  get full(): boolean {
    return this.usedBytes >= UNSENT_BYTES_MAX;
  }

  /** Bytes that a read may bring now, given what its client allows (0: no bound). */
  readBytes(asked: number): number {
    if (this.usedBytes < UNSENT_BYTES_MANY) return asked;
    return asked === 0 ? SMALL_READ_BYTES : Math.min(asked, SMALL_READ_BYTES);
  }

  /** Ends an answer with `body`, whose memory may be reused afterwards. Call it corked; `res` is not to be touched after. */
  end(res: UwsResponse, body: Uint8Array): void {
    if (body.length <= UNCOUNTED_BYTES) {
      res.end(body);
      return;
    }
    const [, whole] = res.tryEnd(body, body.length);
    if (whole) return;
    const from = res.getWriteOffset();
    const size = body.length - from;
    if (this.usedBytes + size > UNSENT_BYTES_MAX) {
      this.#keep(res, () => undefined);
      res.close();
      return;
    }
    const rest = body.slice(from);
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

  /** In place of whoever had it: that one has answered. */
  #keep(res: UwsResponse, gone: () => void): ResponseOwner {
    const owner = { operation: 'unsent answer', fail: () => void res.close() };
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

const unsents = new WeakMap<HttpContext, Unsent>();

/** The unsent answers of `ctx`. */
export function unsentOf(ctx: HttpContext): Unsent {
  let unsent = unsents.get(ctx);
  if (unsent === undefined) unsents.set(ctx, (unsent = new Unsent(ctx.logError)));
  return unsent;
}
