import { assert } from '../../../src/base/assert.ts';
import type { Entry, ReadState } from '../../../src/raft/types.ts';
import type { TestNode } from './node.ts';

/** The safety properties of §3.2, watched from outside over all nodes and their whole lives. */
export class Checker {
  /** Every entry that any node was given to apply, by index - 1. */
  readonly committed: Entry[] = [];
  readonly #leaders = new Map<number, number>();
  readonly #reads = new Map<number, number>();

  /** To be called after each event, with the nodes that are up. */
  observe(nodes: readonly TestNode[]): void {
    for (const node of nodes) {
      this.#stateMachineSafety(node);
      if (node.raft.role === 'leader') this.#electionSafety(node);
    }
  }

  /** A read begins: everything committed anywhere now must be visible to it. */
  readStarted(context: number, nodes: readonly TestNode[]): void {
    this.#reads.set(context, Math.max(this.committed.length, ...nodes.map((node) => node.raft.commitIndex)));
  }

  readAnswered(read: ReadState): void {
    if (read.index === 0) return;
    const least = this.#reads.get(read.context);
    assert(
      least !== undefined && read.index >= least,
      `read ${read.context} got ${read.index}, ${least} was committed`,
    );
  }

  /** Log matching: where two logs have the same term at an index, they are equal up to there. Costly; now and then. */
  logMatching(nodes: readonly TestNode[]): void {
    for (const a of nodes) {
      for (const b of nodes) {
        if (a.id >= b.id) continue;
        let index = Math.min(a.raft.lastIndex, b.raft.lastIndex);
        while (index > 0 && a.raft.termAt(index) !== b.raft.termAt(index)) index -= 1;
        for (; index > 0; index -= 1) {
          const left = a.raft.termAt(index);
          const right = b.raft.termAt(index);
          if (left < 0 || right < 0) break;
          assert(left === right, `log matching: n${a.id} and n${b.id} differ at ${index}: ${left}, ${right}`);
        }
      }
    }
  }

  /** A node restarted: what it applied before its crash is checked again, from its checkpoint on. */
  forget(node: TestNode): void {
    this.#seen.delete(node);
  }

  readonly #seen = new Map<TestNode, number>();

  #stateMachineSafety(node: TestNode): void {
    const from = this.#seen.get(node) ?? 0;
    for (let at = from; at < node.applied.length; at += 1) {
      const entry = node.applied[at]!;
      const known = this.committed[at];
      if (known === undefined) this.committed.push(entry);
      else {
        const same =
          known.term === entry.term && known.kind === entry.kind && String(known.data) === String(entry.data);
        assert(same, `state machine safety: n${node.id} applied another entry at ${at + 1}`);
      }
    }
    this.#seen.set(node, node.applied.length);
  }

  #electionSafety(node: TestNode): void {
    const { term } = node.raft;
    const known = this.#leaders.get(term);
    if (known === undefined) {
      this.#leaders.set(term, node.id);
      this.#leaderCompleteness(node);
    } else assert(known === node.id, `election safety: n${known} and n${node.id} lead term ${term}`);
  }

  #leaderCompleteness(node: TestNode): void {
    for (const entry of this.committed) {
      if (entry.term >= node.raft.term) continue;
      const term = node.raft.termAt(entry.index);
      const compacted = term < 0 && entry.index <= node.raft.commitIndex;
      assert(compacted || term === entry.term, `leader completeness: n${node.id} leads without ${entry.index}`);
    }
  }
}
