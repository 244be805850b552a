/** The meters of one request: those of its token and of its bucket. Reused from request to request. */
import type { Credentials } from './admission.ts';
import type { LimitBook } from './limit-book.ts';
import type { LimitRefusal, Meter } from './meter.ts';

export class RequestMeters {
  readonly #book: LimitBook;
  #token: Meter | undefined;
  #bucket: Meter | undefined;
  #isReader = false;

  constructor(book: LimitBook) {
    this.#book = book;
  }

  /** The sender of a request is known. Before its route, so that no request of a token goes uncounted. */
  begin(credentials: Credentials, clockMs: number): LimitRefusal | undefined {
    this.#book.clockMs = clockMs;
    this.follow(credentials, '');
    return this.#token?.begin(clockMs);
  }

  /** The sender may use the bucket. Not before that is known: nothing that is refused may use up what others need. */
  enter(bucket: string, clockMs: number): LimitRefusal | undefined {
    this.#bucket = this.#book.ofBucket(bucket);
    return this.#bucket?.begin(clockMs);
  }

  /** It goes on with what it began as another request, which was counted. */
  follow(credentials: Credentials, bucket: string): void {
    this.#token = typeof credentials === 'object' ? this.#book.ofToken(credentials) : undefined;
    this.#bucket = this.#book.ofBucket(bucket);
  }

  /** Bytes of its body came, or of its answer go. */
  spend(bytes: number): void {
    this.#token?.spend(bytes);
    this.#bucket?.spend(bytes);
  }

  /** It becomes a live reader, unless there are too many. */
  addReader(): LimitRefusal | undefined {
    const refusal = this.#token?.addReader();
    if (refusal !== undefined) return refusal;
    const full = this.#bucket?.addReader();
    if (full === undefined) this.#isReader = true;
    else this.#token?.removeReader();
    return full;
  }

  /** It is no live reader any more, if it ever was. */
  removeReader(): void {
    if (!this.#isReader) return;
    this.#isReader = false;
    this.#token?.removeReader();
    this.#bucket?.removeReader();
  }
}
