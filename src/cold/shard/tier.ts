/**
 * A shard's work for the cold tier of the groups that it leads. Deterministic: driven by turns and by the port's
 * answers, which go to the part that asked; the next turn handles them.
 */
import { planted } from '../../base/planted.ts';
import { Collector } from './collector.ts';
import { Flusher } from './flusher.ts';
import { Compactor } from './compactor.ts';
import { Sweeper } from './sweeper.ts';
import type { PartOptions } from './turn-loop.ts';

export class ColdTier {
  readonly flusher: Flusher;
  readonly collector: Collector;
  readonly sweeper: Sweeper;
  readonly compactor: Compactor;
  /** Sequence number of this run's objects; 0 is that of the empty flush. */
  #lastSeq = 0;

  constructor(options: Omit<PartOptions, 'nextSeq'>) {
    const shared = { ...options, nextSeq: (): number => ++this.#lastSeq };
    this.compactor = new Compactor(shared);
    this.flusher = new Flusher({ ...shared, onPublished: (group, slices) => this.compactor.flushed(group, slices) });
    this.collector = new Collector(shared);
    this.sweeper = new Sweeper({
      ...shared,
      owns: (object) =>
        this.flusher.own.has(object) || (this.compactor.own.has(object) && !planted('sweep-takes-merges')),
    });
    const { hotBytesMax } = options.settings;
    for (const { admission } of options.groups) admission.hot.bytesMax = hotBytesMax === 0 ? Infinity : hotBytesMax;
  }

  /** Call before the turn's entries are sealed, because its proposals go into them. */
  turn(nowMs: number, clockMs: number): void {
    this.flusher.turn(nowMs, clockMs);
    this.collector.turn(nowMs, clockMs);
    this.sweeper.turn(nowMs, clockMs);
    this.compactor.turn(nowMs, clockMs);
  }

  /** When a turn is due without input. */
  get dueAtMs(): number {
    return Math.min(this.flusher.dueAtMs, this.collector.dueAtMs, this.sweeper.dueAtMs, this.compactor.dueAtMs);
  }
}
