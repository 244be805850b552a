/**
 * The identity of the cluster: 128 random bits in its data directories, so that directories of two clusters never mix.
 * It is part of the configuration of group 0, where a leader puts it: into the very first configuration, or, in a
 * cluster older than identities, once every member understands them. Nodes learn it by applying that configuration, or
 * from a peer.
 */
import type { Group } from '../group/group.ts';
import { members } from '../raft/configuration.ts';
import { isUnrecorded } from './members.ts';

/** The group whose configuration carries it. */
const IDENTITY_GROUP = 0;

export type IdentitySource = 'heard' | 'decided';

export interface IdentityOptions {
  readonly nodeId: number;
  /** Identity of the data directory; empty: not known yet. */
  readonly known: string;
  /** The identity to use if this node decides. */
  readonly drawn: string;
  /** Notifies the data directory and the other shards. Decided: the configuration of this node's own group has it. */
  readonly learned: (identity: string, source: IdentitySource) => void;
}

export class ClusterIdentity {
  readonly #options: IdentityOptions;
  #known: string;
  /** Nodes that connected and understand identities. */
  readonly #modern = new Set<number>();

  constructor(options: IdentityOptions) {
    this.#options = options;
    this.#known = options.known;
  }

  /** Empty: not known yet. */
  get known(): string {
    return this.#known;
  }

  /** A peer knows it. The first one counts: the handshake refuses peers with another identity closing their links. */
  hear(identity: string): void {
    if (identity === '' || this.#known !== '') return;
    this.#known = identity;
    this.#options.learned(identity, 'heard');
  }

  /** Takes the node-wide identity, whatever this shard heard first. */
  settle(identity: string): void {
    this.#known = identity;
  }

  /** A node connected that does or does not understand identities. */
  met(node: number, isModern: boolean): void {
    if (isModern) this.#modern.add(node);
    else this.#modern.delete(node);
  }

  /** Once a tick. */
  look(group: Group): void {
    if (group.id !== IDENTITY_GROUP) return;
    const { raft, state } = group;
    const { identity } = raft.configuration;
    if (identity === undefined) this.#complete(group);
    else if (raft.configurationIndex <= state.appliedIndex) this.#decide(identity);
  }

  /** A majority's decision overrides what a peer reported. */
  #decide(identity: string): void {
    if (identity === this.#known) return;
    this.#known = identity;
    this.#options.learned(identity, 'decided');
  }

  /** For the first configuration of a group. */
  firstOf(group: Group): string | undefined {
    return group.id === IDENTITY_GROUP ? this.#proposal : undefined;
  }

  get #proposal(): string {
    return this.#known === '' ? this.#options.drawn : this.#known;
  }

  /** Records the identity in the group, also after a leader of an older version has dropped it. */
  #complete(group: Group): void {
    const { raft, leads } = group;
    if (!leads || isUnrecorded(group)) return;
    const others = members(raft.configuration).filter((node) => node !== this.#options.nodeId);
    if (this.#known === '' && !others.every((node) => this.#modern.has(node))) return;
    raft.proposeConfiguration({ ...raft.configuration, identity: this.#proposal });
  }
}
