/**
 * gzip of large answers, made by the threads of libuv's pool: the HTTP thread only copies the bytes
 * and hears of the end. zlib takes them piece by piece (16 KiB of output, well below a
 * millisecond), so other work of the pool gets its turn.
 *
 * Requests for the same bytes share one compression: a thousand long-polls that one append answers cost it once.
 * It goes on when its client leaves; it takes milliseconds, and its memory is counted until then.
 */
import { gzip } from 'node:zlib';
import type { ErrorLog } from '../ports.ts';

/** JSON shrinks to a fifth; level 6 takes three times as long as 1 to make that a sixth. */
const LEVEL = 1;
/** The memory that zlib allocates for one stream at its usual window. */
const STATE_BYTES = 256 * 1024;
/** Seven of the largest usual answers, about 30 ms of a core. Beyond it answers go out as they are. */
const MAKING_BYTES_MAX = 16 * 1024 * 1024;

/** `body`: a copy of what was given; `packed` is undefined when compressing failed or saved nothing. */
export type Packed = (body: Uint8Array, packed: Uint8Array | undefined) => void;

export interface Packing {
  readonly done: Packed;
  /** For log lines: made when it is asked for. */
  readonly requestId?: () => string | undefined;
}

export class Compression {
  /** Bytes that are held for work under way. */
  usedBytes = 0;
  readonly #log: ErrorLog;
  /** The requests that wait for compressed bytes, by the name of the bytes. */
  readonly #waiting = new Map<string, Packing[]>();

  constructor(log: ErrorLog) {
    this.#log = log;
  }

  /** False: there is no room. Else `done` runs once, later. Equal keys mean equal bytes; their memory may be reused. */
  start(key: string, body: Uint8Array, packing: Packing): boolean {
    const others = this.#waiting.get(key);
    if (others !== undefined) {
      others.push(packing);
      return true;
    }
    const bytes = 2 * body.length + STATE_BYTES;
    if (this.usedBytes + bytes > MAKING_BYTES_MAX) return false;
    this.usedBytes += bytes;
    const waiting = [packing];
    this.#waiting.set(key, waiting);
    const copy = body.slice();
    gzip(copy, { level: LEVEL }, (error, packed) => {
      this.usedBytes -= bytes;
      this.#waiting.delete(key);
      if (error !== null) this.#log(error, 'gzip', packing.requestId?.());
      const result = error === null && packed.length < copy.length ? packed : undefined;
      for (const one of waiting) this.#tell(one, copy, result);
    });
    return true;
  }

  /** Catches what `done` throws: an exception in the callback of zlib would end the process. */
  #tell({ done, requestId }: Packing, body: Uint8Array, packed: Uint8Array | undefined): void {
    try {
      done(body, packed);
    } catch (error) {
      this.#log(error, 'gzip', requestId?.());
    }
  }
}
