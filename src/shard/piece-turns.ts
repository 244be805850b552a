/**
 * Large commands of a shard's groups take turns, a piece each, and all together a bounded share of the turn. That is one
 * piece while other requests come: they wait for its write. Otherwise a turn takes more, because a sync costs nearly
 * as much for one piece as for several.
 */
import { planted } from '../base/planted.ts';
import type { Group } from '../group/group.ts';
import { PIECE_BOUNDS, type PieceBounds } from '../group/large-commands.ts';

/** So long others count as there: most of them send their next request when they have their answer. */
const OTHERS_MS = 100;

type CutGroup = Pick<Group, 'cut' | 'nextPieceBytes'>;

export interface PieceTurnsOptions {
  readonly groups: readonly CutGroup[];
  readonly pieces?: PieceBounds | undefined;
  /** Undefined: a single node. On others' nodes a record also delays groups that this one knows nothing of. */
  readonly links?: unknown;
}

export class PieceTurns {
  readonly #groups: readonly CutGroup[];
  readonly #bounds: PieceBounds;
  readonly #unsharedBytes: number;
  #last = 0;
  #otherAtMs = -Infinity;

  constructor({ groups, pieces = PIECE_BOUNDS, links }: PieceTurnsOptions) {
    this.#groups = groups;
    this.#bounds = pieces;
    this.#unsharedBytes = links === undefined ? pieces.alone : pieces.turn;
  }

  /** A piece could be cut now. */
  get areWaiting(): boolean {
    return this.#groups.some(({ nextPieceBytes }) => nextPieceBytes > 0);
  }

  /** A request came whose sender would wait for pieces. */
  otherCame(clockMs: number): void {
    this.#otherAtMs = clockMs;
  }

  cut(nowMs: number, clockMs: number): void {
    let idle = 0;
    for (let left = this.#turnBytes(clockMs); left > 0 && idle < this.#groups.length;) {
      this.#last = (this.#last + 1) % this.#groups.length;
      const bytes = this.#groups[this.#last]?.cut(nowMs) ?? 0;
      left -= bytes;
      idle = bytes === 0 ? idle + 1 : 0;
    }
  }

  #turnBytes(clockMs: number): number {
    if (planted('pieces-not-bounded')) return Infinity;
    return clockMs - this.#otherAtMs < OTHERS_MS ? this.#bounds.piece : this.#unsharedBytes;
  }
}
