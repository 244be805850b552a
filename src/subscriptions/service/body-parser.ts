/**
 * Parses the bodies of subscription requests: small ones immediately, large ones in a separate thread, because
 * JSON.parse of 2 MiB takes up to 110 ms, and the main thread does all of HTTP. The thread starts when it is needed and
 * ends when it is idle.
 */
import { MillraceError } from '../../base/errors.ts';
import type { Runtime } from '../../base/runtime.ts';
import { threadEntry } from '../../threads/entry.ts';
import { ThreadPool } from '../../threads/thread-pool.ts';
import { type BodyKind, type BodyOf, type Parsed, parseBody } from '../state/requests.ts';
import type { Logger } from '../../logging/logger.ts';
import { caughtCode } from '../../base/caught.ts';

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

export interface BodiesOptions {
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'setTimer'>;
  readonly log: Logger;
}

export class Bodies {
  readonly #threads: ThreadPool<BodyTask, Parsed<BodyOf[BodyKind]>>;
  #closed = false;

  constructor({ runtime, log }: BodiesOptions) {
    this.#threads = new ThreadPool({
      title: 'the threads that parse bodies',
      entry: threadEntry('bodies'),
      task: 'parse',
      threadsMax: 1,
      tasksPerThread: 1,
      queueMax: QUEUE_MAX,
      idleMs: IDLE_MS,
      heapMiBMax: HEAP_MIB_MAX,
      runtime,
      onError: (error) => log.error({ err: error }, 'a thread that parses bodies failed; another one takes its place'),
    });
  }

  /** Transfers the memory of a large body. Rejects with a MillraceError. */
  async parse<Kind extends BodyKind>(kind: Kind, body: Uint8Array<ArrayBuffer>): Promise<Parsed<BodyOf[Kind]>> {
    if (body.length <= AT_ONCE_BYTES_MAX) return parseBody(kind, body);
    if (this.#closed) throw new MillraceError('STOPPING');
    if (this.#threads.queueSize >= QUEUE_MAX) throw new MillraceError('INFLIGHT_FULL');
    try {
      return (await this.#threads.run({ kind, body }, [body.buffer])) as Parsed<BodyOf[Kind]>;
    } catch (error) {
      if (this.#closed) throw new MillraceError('STOPPING');
      // Its heap was full, so the thread ended; another one will start.
      if (caughtCode(error) === 'ERR_WORKER_OUT_OF_MEMORY') return TOO_COMPLEX;
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    void this.#threads.close();
  }
}

const TOO_COMPLEX = { ok: false, reason: 'the body takes too much memory to be parsed' } as const;
