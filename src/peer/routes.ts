/**
 * Decides which links a shard needs, and which one leads to a group's shard on another node. Nodes may have different
 * numbers of shards; a peer's number is learned from its shard 0, which always exists, or from any link it opens to us.
 */
import { assert } from '../base/assert.ts';
import { Slab } from '../base/slab.ts';
import type { PeerIdentity } from './codec/handshake.ts';
import type { Address } from '../base/address.ts';
import type { PeerLink } from './link.ts';

/** A node and the address of its shard 0; shard i listens on port + i. */
export interface PeerAddress {
  readonly node: number;
  readonly address: Address;
}

interface Remote {
  readonly peer: PeerAddress;
  /** 0: not known yet. */
  shardCount: number;
  /** By shard. */
  readonly links: Map<number, PeerLink>;
}

export class Routes {
  readonly #self: PeerIdentity;
  readonly #open: (node: number, shard: number, address: Address) => PeerLink;
  readonly #remotes = new Map<number, Remote>();
  readonly #closed: (link: PeerLink) => void;

  /** `open` creates a link without starting it; `closed` is called for each link that is no longer needed. */
  constructor(
    self: PeerIdentity,
    open: (node: number, shard: number, address: Address) => PeerLink,
    closed: (link: PeerLink) => void,
  ) {
    this.#self = self;
    this.#open = open;
    this.#closed = closed;
  }

  /** Replaces the list of other nodes. Links to nodes that keep their address stay as they are. */
  setPeers(peers: readonly PeerAddress[]): void {
    const wanted = new Map(peers.map((peer) => [peer.node, peer]));
    for (const [node, remote] of this.#remotes) {
      const now = wanted.get(node)?.address;
      const { host, port } = remote.peer.address;
      if (now !== undefined && now.host === host && now.port === port) continue;
      this.#remotes.delete(node);
      for (const link of remote.links.values()) this.#close(link);
    }
    for (const peer of wanted.values()) {
      if (peer.node === this.#self.node || this.#remotes.has(peer.node)) continue;
      const remote: Remote = { peer, shardCount: 0, links: new Map() };
      this.#remotes.set(peer.node, remote);
      this.#plan(remote);
    }
  }

  /** A node reported its number of shards. */
  learn(node: number, shardCount: number): void {
    const remote = this.#remotes.get(node);
    if (remote === undefined || remote.shardCount === shardCount) return;
    assert(shardCount > 0, 'a node has shards');
    remote.shardCount = shardCount;
    this.#plan(remote);
  }

  /** The link to the shard that holds `group` on `node`; undefined: unknown node, or its shards are not yet known. */
  toGroup(node: number, group: number): PeerLink | undefined {
    const remote = this.#remotes.get(node);
    if (remote === undefined || remote.shardCount === 0) return undefined;
    return remote.links.get(group % remote.shardCount);
  }

  toShard(node: number, shard: number): PeerLink | undefined {
    return this.#remotes.get(node)?.links.get(shard);
  }

  *links(): IterableIterator<PeerLink> {
    for (const remote of this.#remotes.values()) yield* remote.links.values();
  }

  #plan(remote: Remote): void {
    const needed = this.#neededShards(remote.shardCount);
    for (const [shard, link] of remote.links) {
      if (needed.has(shard)) continue;
      remote.links.delete(shard);
      this.#close(link);
    }
    const { node, address } = remote.peer;
    for (const shard of needed) {
      if (remote.links.has(shard)) continue;
      const link = this.#open(node, shard, { host: address.host, port: address.port + shard });
      remote.links.set(shard, link);
      link.start();
    }
  }

  /** Shards of a node, given their number, that hold a group of ours. */
  #neededShards(shardCount: number): ReadonlySet<number> {
    const needed = new Set<number>();
    if (shardCount === 0) return needed.add(0);
    const { shard, shardCount: ours, groupCount } = this.#self;
    for (let group = shard; group < groupCount; group += ours) needed.add(group % shardCount);
    return needed;
  }

  #close(link: PeerLink): void {
    link.stop();
    this.#closed(link);
  }
}

/** The groups of this shard, with memory for the incoming entries of each: a group releases its log from the front. */
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
