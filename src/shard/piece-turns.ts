/** Large commands of a shard's groups take turns, a piece each, and all together a bounded share of the turn. */
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';
import { PIECE_BOUNDS, type PieceBounds } from '../group/large-commands.ts';

export class PieceTurns {
  readonly #groups: readonly Group[];
  readonly #turnBytes: number;
  #last = 0;

  constructor(groups: readonly Group[], { turn }: PieceBounds = PIECE_BOUNDS) {
    this.#groups = groups;
    this.#turnBytes = planted('pieces-not-bounded') ? Infinity : turn;
  }

  /** A piece could be cut now. */
  get areWaiting(): boolean {
    return this.#groups.some(({ nextPieceBytes }) => nextPieceBytes > 0);
  }

  cut(nowMs: number): void {
    let idle = 0;
    for (let left = this.#turnBytes; left > 0 && idle < this.#groups.length;) {
      this.#last = (this.#last + 1) % this.#groups.length;
      const bytes = this.#groups[this.#last]?.cut(nowMs) ?? 0;
      left -= bytes;
      idle = bytes === 0 ? idle + 1 : 0;
    }
  }
}
