/**
 * Identifies the receiver of a command's answer. A slot is one number, so that queues hold no object per command: the
 * tag in its upper bits names the receiver kind, the rest belongs to the receiver. All slots fit into 31 bits, which V8
 * stores without an object.
 */

/** `client`: a request of this node's main thread. `shard`: a command of the shard itself. `node`:  another node. */
export type Receiver = 'client' | 'shard' | 'node';

/** Slot of a command without a receiver. */
export const NO_SLOT = -1;

interface Range {
  readonly first: number;
  readonly last: number;
}

const RANGES: Readonly<Record<Receiver, Range>> = {
  client: { first: 0, last: 0x2fff_ffff },
  shard: { first: 0x3000_0000, last: 0x3fff_ffff },
  node: { first: 0x4000_0000, last: 0x7fff_ffff },
};
const SHARD_FIRST = RANGES.shard.first;
const NODE_FIRST = RANGES.node.first;

/** Undefined for NO_SLOT, whose answers are dropped before they are sent. */
export function receiverOf(slot: number): Receiver {
  if (slot < SHARD_FIRST) return 'client';
  return slot < NODE_FIRST ? 'shard' : 'node';
}

/** Consecutive slots of one receiver, which has far fewer commands in flight than there are slots. */
export class SlotSequence {
  readonly #range: Range;
  #next: number;

  constructor(receiver: Receiver) {
    this.#range = RANGES[receiver];
    this.#next = this.#range.first;
  }

  take(): number {
    const slot = this.#next;
    this.#next = slot === this.#range.last ? this.#range.first : slot + 1;
    return slot;
  }
}
