/**
 * Large answers whose clients take them slowly. What the kernel does not take waits here, counted, instead of in the
 * buffers of uWebSockets.js: five thousand connections that asked for 1 MiB and read nothing held 3.4 GB there.
 *
 * The more waits, the less a read may bring (a client continues from Stream-Next-Offset); at the bound reads are
 * refused with 503, and answers that were under way already are cut.
 *
 * Writing to the socket of an answer of unknown length, as uWebSockets.js behaves
 * (20.51 and later; read in its source and tried):
 *
 * - `write` copies what the kernel does not take and returns false. Inside `cork` a write below 16 KiB always returns
 *   true, because it only fills the cork buffer; that the kernel refused it shows at the NEXT write. So a full socket
 *   is noticed one small frame late, which is fine, and every write must be corked: uncorked each frame is three
 *   system calls instead of one (13 µs instead of 5 µs for each reader, measured).
 * - Inside `cork` a write of more than fits the cork buffer is LOST, all of it, when the kernel has no room for what
 *   was corked before, be it the nine bytes of the chunk's own size: `uncork` in its AsyncSocket.h returns and forgets
 *   it. The client takes what follows for the missing bytes. So no write is larger than the cork buffer.
 * - With an onWritable handler uWebSockets.js does not send its buffer by itself: the next write does. So the handler
 *   always writes, a comment, and is called again as long as bytes remain. Without a handler, the library would close
 *   the connection 10 s after the socket has drained, even though the stream is only quiet.
 * - A refused write starts a timeout of 10 s (coarse), each further one restarts it, onWritable ends it. There is no
 *   timeout at all while nothing is refused: a quiet stream stays open for as long as both ends like.
 */
import type { ErrorLog } from '../ports.ts';
import { type ResponseOwner, guardAbort, whenGone, whenWritable } from './guard.ts';
import type { RequestIds } from '../audit/request-ids.ts';
import type { UwsResponse } from './uws.ts';

/**
 * Bytes that wait for slow clients in this process, and as many for event streams (live/live.ts). Slow clients have most
 * of an answer here for a second. @internal
 */
export const WAITING_BYTES_MAX = 128 * 1024 * 1024;
/** From here on a read brings SMALL_READ_BYTES. */
const WAITING_BYTES_MANY = WAITING_BYTES_MAX / 4;
const SMALL_READ_BYTES = 128 * 1024;
/** Sockets take this much without help; with the headers it fits the buffer of uWebSockets.js (CorkedWrite). */
const UNCOUNTED_BYTES = 8 * 1024;

/** The cork buffer has 16 KiB; a chunk's head goes there too, before the first `Transfer-Encoding: chunked`. */
const WRITE_BYTES_MAX = 15 * 1024;

type CorkedSocket = Pick<UwsResponse, 'cork' | 'write'>;

/** One function for all writes: a closure for each of 1000 readers would cost as much as the frame. */
export class CorkedWrite {
  #res: CorkedSocket | undefined;
  #bytes: Uint8Array = new Uint8Array(0);
  #isTaken = true;
  readonly #run = (): void => {
    if (this.#res !== undefined) this.#isTaken = this.#res.write(this.#bytes);
  };

  all(res: CorkedSocket, bytes: Uint8Array): boolean {
    this.#res = res;
    for (let at = 0; at < bytes.length; at += WRITE_BYTES_MAX) {
      this.#bytes = bytes.length <= WRITE_BYTES_MAX ? bytes : bytes.subarray(at, at + WRITE_BYTES_MAX);
      res.cork(this.#run);
    }
    this.#res = undefined;
    return this.#isTaken;
  }
}

export class ResponseBackpressure {
  usedBytes = 0;
  readonly #log: ErrorLog;
  readonly #ids: RequestIds;
  #waiting = 0;
  #idle: (() => void) | undefined;
  readonly #write = new CorkedWrite();

  constructor(log: ErrorLog, ids: RequestIds) {
    this.#log = log;
    this.#ids = ids;
  }

  get full(): boolean {
    return this.usedBytes >= WAITING_BYTES_MAX;
  }

  /** So many more bytes may wait. */
  hasRoom(bytes: number): boolean {
    return this.usedBytes + bytes <= WAITING_BYTES_MAX;
  }

  /** Bytes that a read may bring now, given what its client allows (0: no bound). */
  readBytes(asked: number): number {
    if (this.usedBytes < WAITING_BYTES_MANY) return asked;
    return asked === 0 ? SMALL_READ_BYTES : Math.min(asked, SMALL_READ_BYTES);
  }

  /**
   * Ends an answer with `body`, whose memory may be `reused` afterwards, or is `kept` as it is.
   * Call it corked; `res` is not to be touched after.
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
    if (!this.hasRoom(size)) {
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

  /** Writes one piece, which is not empty. Returns false when the socket is full and bytes wait in memory. */
  writePiece(res: CorkedSocket, bytes: Uint8Array): boolean {
    return this.#write.all(res, bytes);
  }

  /** Owns the response in place of the first owner, which has answered. */
  #keep(res: UwsResponse, gone: () => void): ResponseOwner {
    const ids = this.#ids;
    const owner: ResponseOwner = {
      operation: 'unsent answer',
      get requestId() {
        return ids.of(res);
      },
      fail: () => void res.close(),
    };
    whenGone(res, guardAbort(this.#log, owner, gone));
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
