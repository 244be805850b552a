/**
 * gzip of large answers, made by the threads of libuv's pool: the HTTP thread only copies the bytes and hears of the end. zlib takes
 * them piece by piece (16 KiB of output, well below a millisecond), so whatever else the pool has to do gets its turns.
 *
 * Whoever asks for the same bytes meanwhile waits for the same work: a thousand long-polls that one append answers cost it once.
 * Work goes on when its client leaves; it is over in milliseconds, and what it holds is counted until then.
 */
import { gzip } from 'node:zlib';
import type { ErrorLog, HttpContext } from './contract.ts';

/** JSON shrinks to a fifth; level 6 takes three times as long as 1 to make that a sixth. */
const LEVEL = 1;
/** What zlib allocates for one stream at its usual window. */
const STATE_BYTES = 256 * 1024;
/** Seven of the largest usual answers, about 30 ms of a core. Who comes beyond gets the bytes as they are instead of waiting. */
const MAKING_BYTES_MAX = 16 * 1024 * 1024;

/** `body`: a copy of what was given; `packed` is undefined when compressing failed or saved nothing. */
export type Packed = (body: Uint8Array, packed: Uint8Array | undefined) => void;

export class Compression {
  /** Bytes that are held for work under way. */
  usedBytes = 0;
  readonly #log: ErrorLog;
  /** By the name of the bytes: who waits for them. */
  readonly #waiting = new Map<string, Packed[]>();

  constructor(log: ErrorLog) {
    this.#log = log;
  }

  /** False: there is no room. Else `done` runs once, later. Equal keys mean equal bytes; their memory may be reused afterwards. */
  start(key: string, body: Uint8Array, done: Packed): boolean {
    const others = this.#waiting.get(key);
    if (others !== undefined) {
      others.push(done);
      return true;
    }
    const bytes = 2 * body.length + STATE_BYTES;
    if (this.usedBytes + bytes > MAKING_BYTES_MAX) return false;
    this.usedBytes += bytes;
    const waiting = [done];
    this.#waiting.set(key, waiting);
    const copy = body.slice();
    gzip(copy, { level: LEVEL }, (error, packed) => {
      this.usedBytes -= bytes;
      this.#waiting.delete(key);
      if (error !== null) this.#log(error, 'gzip');
      const result = error === null && packed.length < copy.length ? packed : undefined;
      for (const one of waiting) this.#tell(one, copy, result);
    });
    return true;
  }

  /** What throws here would end the process. */
  #tell(done: Packed, body: Uint8Array, packed: Uint8Array | undefined): void {
    try {
      done(body, packed);
    } catch (error) {
      this.#log(error, 'gzip');
    }
  }
}

const compressions = new WeakMap<HttpContext, Compression>();

/** What is compressed for `ctx`. */
export function compressionOf(ctx: HttpContext): Compression {
  let compression = compressions.get(ctx);
  if (compression === undefined) compressions.set(ctx, (compression = new Compression(ctx.logError)));
  return compression;
}
