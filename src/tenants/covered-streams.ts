/** The listing of a bucket for a token that may list only some of its streams, page by page as any other. */
import { type Grant, type NameRange, rangesOf } from '../access/scopes.ts';
import { compareText } from '../base/text.ts';
import type { ShardGateway } from '../ports.ts';
import type { ListRequest, ListedStream } from '../protocol/queries/summaries.ts';
import { type BucketRefusal, type ListedStreams, listStreams } from './bucket-streams.ts';

type Done = (page: BucketRefusal | ListedStreams) => void;

/** Lists what a grant covers. Its ranges do not overlap, so one after the other they give names in order. */
export function listCovered(gateway: ShardGateway, grant: Grant, wanted: ListRequest, done: Done): void {
  const ranges = rangesOf(grant, 'list', wanted.bucket).flatMap((range) => narrowed(range, wanted.prefix));
  ranges.sort((left, right) => compareText(left.prefix, right.prefix));
  new CoveredPage(gateway, wanted, ranges, done).next();
}

/** The part of a range whose names begin with `prefix`. */
function narrowed(range: NameRange, prefix: string): NameRange[] {
  if (range.prefix.startsWith(prefix)) return [range];
  return !range.isExact && prefix.startsWith(range.prefix) ? [{ prefix, isExact: false }] : [];
}

class CoveredPage {
  readonly #gateway: ShardGateway;
  readonly #wanted: ListRequest;
  readonly #ranges: NameRange[];
  readonly #done: Done;
  readonly #streams: ListedStream[] = [];

  constructor(gateway: ShardGateway, wanted: ListRequest, ranges: readonly NameRange[], done: Done) {
    this.#gateway = gateway;
    this.#wanted = wanted;
    this.#ranges = ranges.filter((range) => !isBefore(range, wanted.after));
    this.#done = done;
  }

  /** Asks for the next range. When the page is full, one more name tells whether there is another page. */
  next(): void {
    const range = this.#ranges.shift();
    if (range === undefined) return this.#finish(false);
    const { bucket, after, limit } = this.#wanted;
    const left = limit - this.#streams.length;
    const { prefix, isExact } = range;
    listStreams(this.#gateway, { bucket, prefix, after, limit: isExact ? 1 : Math.max(1, left) }, (page) => {
      if (page.code !== 'OK') return this.#done(page);
      // The name itself comes first among those that begin with it.
      const found = isExact ? page.streams.filter(({ stream_id }) => stream_id === prefix) : page.streams;
      if (left === 0) return found.length > 0 ? this.#finish(true) : this.next();
      this.#streams.push(...found);
      return !isExact && page.hasMore ? this.#finish(true) : this.next();
    });
  }

  #finish(hasMore: boolean): void {
    this.#done({ code: 'OK', streams: this.#streams, hasMore });
  }
}

/** All names of the range come before the cursor, or are the cursor. */
function isBefore({ prefix, isExact }: NameRange, after: string): boolean {
  if (after === '') return false;
  if (isExact) return compareText(prefix, after) <= 0;
  return !after.startsWith(prefix) && compareText(prefix, after) < 0;
}
