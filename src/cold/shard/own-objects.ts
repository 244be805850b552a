import type { ObjectId } from '../../protocol/cold.ts';

/** Objects of this run that are being written or proposed: no orphans, although nothing refers to them. */
export class OwnObjects {
  readonly #run: string;
  readonly #nextSeq: () => number;
  readonly #seqs = new Set<number>();

  constructor(run: string, nextSeq: () => number) {
    this.#run = run;
    this.#nextSeq = nextSeq;
  }

  /** A name that no object had before. */
  begin(): ObjectId {
    const object = { run: this.#run, seq: this.#nextSeq() };
    this.#seqs.add(object.seq);
    return object;
  }

  end({ seq }: ObjectId): void {
    this.#seqs.delete(seq);
  }

  has({ run, seq }: ObjectId): boolean {
    return run === this.#run && this.#seqs.has(seq);
  }
}
