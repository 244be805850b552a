/** The groups of this shard, with memory for each group's incoming entries: a group releases its log from the front. */
import { Slab } from '../base/slab.ts';
import type { PeerIdentity } from './codec/handshake.ts';

export class LocalGroups {
  readonly #self: PeerIdentity;
  readonly #memory = new Map<number, Slab>();

  constructor(self: PeerIdentity) {
    this.#self = self;
  }

  has(group: number): boolean {
    return group < this.#self.groupCount && group % this.#self.shardCount === this.#self.shard;
  }

  /** Undefined for a group of another shard. */
  memory(group: number): Slab | undefined {
    if (!this.has(group)) return undefined;
    let memory = this.#memory.get(group);
    if (memory === undefined) {
      memory = new Slab();
      this.#memory.set(group, memory);
    }
    return memory;
  }
}
