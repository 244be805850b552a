/** Requests of this shard that are traced: when they were taken, and when the first of their stages was over. */
import type { Reply } from '../protocol/reply.ts';
import { STAGE_FORWARDED, STAGE_PLAIN, STAGE_WRITTEN } from '../protocol/stage.ts';

/** A node follows 200 a second, and other nodes send theirs; more wait only while no majority answers. */
const TRACED_SLOTS_MAX = 1024;

interface Mark {
  readonly takenMs: number;
  kind: number;
  /** -1: not yet. */
  firstMs: number;
}

export class TracedSlots {
  readonly #node: number;
  readonly #clockMs: () => number;
  readonly #marks = new Map<number, Mark>();

  constructor(node: number, clockMs: () => number) {
    this.#node = node;
    this.#clockMs = clockMs;
  }

  /** None, which is the usual case: nothing else needs to be called. */
  get isEmpty(): boolean {
    return this.#marks.size === 0;
  }

  /** The shard has taken it. */
  take(slot: number, what: 'read' | 'write' | 'forward'): void {
    if (this.#marks.size >= TRACED_SLOTS_MAX) return;
    const kind = what === 'read' ? STAGE_PLAIN : what === 'write' ? STAGE_WRITTEN : STAGE_FORWARDED;
    this.#marks.set(slot, { takenMs: this.#clockMs(), kind, firstMs: -1 });
  }

  /** Called when everything that the log took in this turn is on disk. */
  written(): void {
    for (const mark of this.#marks.values()) if (mark.kind === STAGE_WRITTEN) this.#first(mark);
  }

  /** The leader has answered. */
  answered(slot: number): void {
    const mark = this.#marks.get(slot);
    if (mark !== undefined) this.#first(mark);
  }

  /** The answer leaves, in front of what the leader said about its part. */
  end(reply: Reply): void {
    const mark = this.#marks.get(reply.id);
    if (mark === undefined) return;
    this.#marks.delete(reply.id);
    const { kind, firstMs } = mark;
    const totalMs = this.#clockMs() - mark.takenMs;
    const own =
      firstMs < 0
        ? { node: this.#node, kind: STAGE_PLAIN, firstMs: 0, totalMs }
        : { node: this.#node, kind, firstMs, totalMs };
    reply.stages = [own, ...reply.stages];
  }

  #first(mark: Mark): void {
    if (mark.firstMs < 0) mark.firstMs = this.#clockMs() - mark.takenMs;
  }
}
