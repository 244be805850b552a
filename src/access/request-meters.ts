/** The meters of one request: those of its token and of its bucket. Reused from request to request. */
import type { Credentials } from './admission.ts';
import type { LimitBook } from './limit-book.ts';
import type { LimitRefusal, Meter } from './meter.ts';
import type { ReaderPlaces } from './reader-shares.ts';
import type { Grant } from './scopes.ts';

export class RequestMeters {
  readonly #book: LimitBook;
  /** Undefined: the sender has all rights. */
  #grant: Grant | undefined;
  #token: Meter | undefined;
  #bucket: Meter | undefined;
  /** Undefined: it is no live reader. */
  #places: readonly ReaderPlaces[] | undefined;

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
    this.#grant = typeof credentials === 'object' ? credentials : undefined;
    this.#token = this.#grant && this.#book.ofToken(this.#grant);
    this.#bucket = this.#book.ofBucket(bucket);
  }

  /** Bytes of its body came, or of its answer go. */
  spend(bytes: number): void {
    this.#token?.spend(bytes);
    this.#bucket?.spend(bytes);
  }

  /** It becomes a live reader, unless there are too many. */
  addReader(): LimitRefusal | undefined {
    const taken: ReaderPlaces[] = [];
    for (const places of [this.#token, this.#share(), this.#bucket]) {
      if (places === undefined) continue;
      const refusal = places.addReader();
      if (refusal !== undefined) {
        for (const place of taken) place.removeReader();
        return refusal;
      }
      taken.push(places);
    }
    this.#places = taken;
    return undefined;
  }

  /** A limit of its own stands in place of the share. */
  #share(): ReaderPlaces | undefined {
    if (this.#grant === undefined || this.#token?.allowance.live_readers !== undefined) return undefined;
    return this.#book.shareOf(this.#grant);
  }

  /** It is no live reader any more, if it ever was. */
  removeReader(): void {
    if (this.#places === undefined) return;
    for (const place of this.#places) place.removeReader();
    this.#places = undefined;
  }
}
