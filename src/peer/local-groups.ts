/** The groups of this shard, and memory for the entries that come for each: a group lets go of its log from the front. */
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

  /** Undefined for a group of others. */
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
