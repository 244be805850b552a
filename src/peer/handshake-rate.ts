/**
 * How many TLS handshakes begin. Each has the shard's thread sign with the node's key, a third of a millisecond with
 * P-256 and several with a large RSA key, before the other side has shown anything.
 */
import { lookup } from 'node:dns';

export interface HandshakeRateLimits {
  /** In a second from one address: a node that starts makes one for each of its shards, and probes. */
  readonly fromAddress: number;
  /** In a second from all that were no node before: some percent of the thread. */
  readonly fromStrangers: number;
}

const INTERVAL_MS = 1000;
/** More addresses than nodes have. Beyond it all are strangers. */
const NODES_MAX = 1024;

export class HandshakeRate {
  readonly #limits: HandshakeRateLimits;
  readonly #monotonicMs: () => number;
  /** Addresses from which a node has proved itself, or is expected: strangers cannot keep them out. */
  readonly #nodes = new Set<string>();
  /** Those of this interval, by address; there are no more than have begun and were let in. */
  readonly #begun = new Map<string, number>();
  #strangers = 0;
  #endMs = -Infinity;

  constructor(limits: HandshakeRateLimits, monotonicMs: () => number) {
    this.#limits = limits;
    this.#monotonicMs = monotonicMs;
  }

  /** Counts one that wants to begin. The answer says why it may not. */
  refusal(address: string): string | undefined {
    if (this.#monotonicMs() >= this.#endMs) this.#begin();
    const { fromAddress, fromStrangers } = this.#limits;
    const begun = this.#begun.get(address) ?? 0;
    if (begun >= fromAddress) return `more than ${fromAddress} TLS handshakes in a second from one address`;
    const isNode = this.#nodes.has(address);
    if (!isNode && this.#strangers >= fromStrangers)
      return `more than ${fromStrangers} TLS handshakes in a second from strangers`;
    this.#begun.set(address, begun + 1);
    if (!isNode) this.#strangers++;
    return undefined;
  }

  /** A node has proved itself from there, or is expected. */
  proven(address: string): void {
    if (this.#nodes.size < NODES_MAX) this.#nodes.add(address);
  }

  /** A node is expected from this host, a name or an address: as proven from the start on. */
  expect(host: string): void {
    lookup(host, { all: true }, (error, found) => {
      if (error !== null) return;
      // A listener for both families shows addresses of version 4 as those of version 6.
      for (const { address } of found) for (const spelling of [address, `::ffff:${address}`]) this.proven(spelling);
    });
  }

  #begin(): void {
    this.#endMs = this.#monotonicMs() + INTERVAL_MS;
    this.#begun.clear();
    this.#strangers = 0;
  }
}
