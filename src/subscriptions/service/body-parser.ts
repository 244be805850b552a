/**
 * Parses the bodies of subscription requests: small ones immediately, large ones in a separate thread, because
 * JSON.parse of 2 MiB takes up to 110 ms, and the main thread does all of HTTP. The thread starts when it is needed and
 * ends when it is idle.
 */
import { Piscina } from 'piscina';
import { MillraceError } from '../../base/errors.ts';
import { type BodyKind, type BodyOf, parseBody } from '../state/body-kinds.ts';
import type { Parsed } from '../state/requests.ts';

/** At worst some 50 ns per byte, so up to this size less than a millisecond. */
const AT_ONCE_BYTES_MAX = 16 * 1024;
/** 2 MiB of `[` or `{}` make some hundred bytes of objects per byte. */
const HEAP_MIB_MAX = 512;
const IDLE_MS = 30_000;
/** Queue length, at 2 MiB each. They take seconds, so more would time out. */
const QUEUE_MAX = 64;

export interface BodyTask {
  readonly kind: BodyKind;
  readonly body: Uint8Array<ArrayBuffer>;
}

export class Bodies {
  #pool: Piscina<BodyTask, Parsed<BodyOf[BodyKind]>> | undefined;
  #closed = false;

  /** Transfers the memory of a large body. Rejects with a MillraceError. */
  async parse<Kind extends BodyKind>(kind: Kind, body: Uint8Array<ArrayBuffer>): Promise<Parsed<BodyOf[Kind]>> {
    if (body.length <= AT_ONCE_BYTES_MAX) return parseBody(kind, body);
    if (this.#closed) throw new MillraceError('STOPPING');
    const pool = (this.#pool ??= newPool());
    if (pool.queueSize >= QUEUE_MAX) throw new MillraceError('INFLIGHT_FULL');
    try {
      return (await pool.run({ kind, body }, { transferList: [body.buffer] })) as Parsed<BodyOf[Kind]>;
    } catch (error) {
      if (this.#closed) throw new MillraceError('STOPPING');
      // Its heap was full, so the thread ended; another one will start.
      if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') return TOO_COMPLEX;
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    void this.#pool?.destroy();
  }
}

/** TypeScript when run from source, JavaScript when compiled. */
const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const TOO_COMPLEX = { ok: false, reason: 'the body takes too much memory to be parsed' } as const;

function newPool(): Piscina<BodyTask, Parsed<BodyOf[BodyKind]>> {
  const pool = new Piscina<BodyTask, Parsed<BodyOf[BodyKind]>>({
    filename: new URL(`../../../workers/bodies.${EXTENSION}`, import.meta.url).href,
    name: 'parse',
    minThreads: 0,
    maxThreads: 1,
    maxQueue: QUEUE_MAX,
    idleTimeout: IDLE_MS,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX },
    // Waiting with Atomics is for pools that are always busy.
    atomics: 'disabled',
    recordTiming: false,
  });
  // The task of a dying thread gets the error; an idle thread is replaced.
  pool.on('error', () => undefined);
  return pool;
}
