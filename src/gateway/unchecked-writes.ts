/**
 * Writes to buckets without a known quota. They go to their leader immediately, marked. If the bucket has a quota, the
 * leader says so and nothing was written. To send such a write again its bytes must still be here, so it is copied,
 * unless another write to the bucket came through within the last second.
 */
import { assert } from '../base/assert.ts';
import { ownCopy } from '../base/bytes.ts';
import { errorCode } from '../base/errors.ts';
import { QUOTA_BUCKETS_MAX, QUOTA_HELD_BYTES_MAX, QUOTA_HELD_MAX } from '../base/limits.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import { QUOTA_UNKNOWN, QUOTA_UNMARKED, type Request } from '../protocol/request.ts';
import { FRESH_MS } from './quota-entry.ts';
import { COMMANDS } from '../protocol/operations.ts';

/** Charged for a copy in addition to its bytes. */
const COPY_BYTES = 200;
/** Objects kept for reuse, of about a hundred bytes each. */
const KEPT_MAX = 1024;

/** Bounded copies of requests. */
export class HeldRequests {
  #count = 0;
  #bytes = 0;

  /** Undefined: too many are held. */
  take(request: Request): Request | undefined {
    const size = sizeOf(request);
    if (this.#count >= QUOTA_HELD_MAX || this.#bytes + size > QUOTA_HELD_BYTES_MAX) return undefined;
    this.#count++;
    this.#bytes += size;
    const { payload, attributes } = request.command;
    const command = {
      ...request.command,
      payload: payload && ownCopy(payload),
      attributes: attributes && ownCopy(attributes),
    };
    return { ...request, command };
  }

  drop(copy: Request): void {
    this.#count--;
    this.#bytes -= sizeOf(copy);
  }
}

function sizeOf({ command }: Request): number {
  return COPY_BYTES + (command.payload?.length ?? 0) + (command.attributes?.length ?? 0);
}

/** A bucket that had no quota at the time. */
interface Free {
  readonly bucket: string;
  atMs: number;
}

export interface UncheckedPort {
  readonly inner: ShardGateway;
  readonly held: HeldRequests;
  readonly monotonicMs: () => number;
  /** The bucket is known to have a quota by now. */
  readonly hasQuota: (bucket: string) => boolean;
  /** The bucket has a quota. Any copy is to be sent again, answered and dropped; otherwise `reply` answers. */
  readonly onQuota: (bucket: string, copy: Request | undefined, reply: Reply, handler: ReplyHandler) => void;
}

export class UncheckedWrites {
  readonly #port: UncheckedPort;
  readonly #free = new Map<string, Free>();
  /** Consecutive requests often name the same bucket. */
  #last: Free | undefined;
  readonly #kept: UncheckedWrite[] = [];

  constructor(port: UncheckedPort) {
    this.#port = port;
  }

  isFree(bucket: string): boolean {
    return this.#last?.bucket === bucket;
  }

  /** It has a quota, or will get one. */
  forget(bucket: string): void {
    this.#free.delete(bucket);
    if (this.#last?.bucket === bucket) this.#last = undefined;
  }

  forgetAll(): void {
    this.#free.clear();
    this.#last = undefined;
  }

  send(request: Request, handler: ReplyHandler): boolean {
    const { inner, held, monotonicMs } = this.#port;
    const { bucket } = request.command;
    const free = this.#last?.bucket === bucket ? this.#last : this.#free.get(bucket);
    if (free !== undefined) this.#last = free;
    const isFresh = free !== undefined && monotonicMs() - free.atMs < FRESH_MS;
    const write = this.#kept.pop() ?? new UncheckedWrite(this.#onReply);
    write.bucket = bucket;
    write.handler = handler;
    write.copy = isFresh ? undefined : held.take(request);
    write.isNews = !isFresh;
    request.quotaMark = QUOTA_UNKNOWN;
    const sent = inner.send(request, write);
    request.quotaMark = QUOTA_UNMARKED;
    if (!sent) this.#end(write);
    return sent;
  }

  readonly #onReply = (write: UncheckedWrite, reply: Reply): void => {
    const { bucket, handler, copy, isNews } = write;
    const code = errorCode(reply.code);
    const isUnknown = code === 'QUOTA_UNKNOWN';
    const hasQuota = isUnknown || code === 'QUOTA_EXCEEDED';
    // Some frames of a batch may have been accepted before the group itself was full.
    const repeats = isUnknown || (hasQuota && copy?.op !== COMMANDS.appendBatch.number);
    // Otherwise it is dropped.
    if (repeats) write.copy = undefined;
    this.#end(write);
    assert(handler !== undefined, 'a write is answered once');
    if (hasQuota) return this.#port.onQuota(bucket, repeats ? copy : undefined, reply, handler);
    if (isNews && reply.code === 0) this.#note(bucket);
    return handler.onReply(reply);
  };

  #end(write: UncheckedWrite): void {
    if (write.copy !== undefined) this.#port.held.drop(write.copy);
    write.copy = undefined;
    write.handler = undefined;
    if (this.#kept.length < KEPT_MAX) this.#kept.push(write);
  }

  #note(bucket: string): void {
    if (this.#port.hasQuota(bucket)) return;
    const atMs = this.#port.monotonicMs();
    const known = this.#free.get(bucket);
    if (known !== undefined) known.atMs = atMs;
    else {
      if (this.#free.size >= QUOTA_BUCKETS_MAX) this.forgetAll();
      this.#free.set(bucket, { bucket, atMs });
    }
  }
}

/** A write in progress. */
class UncheckedWrite implements ReplyHandler {
  bucket = '';
  handler: ReplyHandler | undefined;
  copy: Request | undefined;
  /** Its success must be recorded. */
  isNews = false;
  readonly #done: (write: UncheckedWrite, reply: Reply) => void;

  constructor(done: (write: UncheckedWrite, reply: Reply) => void) {
    this.#done = done;
  }

  onReply(reply: Reply): void {
    this.#done(this, reply);
  }
}
