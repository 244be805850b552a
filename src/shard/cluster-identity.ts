/**
 * The identity of the cluster: 128 random bits that its data directories carry, so that those of two clusters never mix. It stands
 * in the configuration of group 0, where a leader puts it: into the first one of all, or, in a cluster from before there were
 * identities, once every member understands them. Nodes know it when they have applied that, or when a peer tells them.
 */
import type { Group } from '../group/group.ts';
import { members } from '../raft/configuration.ts';
import { isUnrecorded } from './members.ts';

/** The group whose configuration has it. */
const IDENTITY_GROUP = 0;

export type IdentitySource = 'heard' | 'decided';

export interface IdentityOptions {
  readonly nodeId: number;
  /** Of the data directory; empty: not known yet. */
  readonly known: string;
  /** The identity to use if this node decides. */
  readonly drawn: string;
  /** For the data directory, and the other shards. Decided: the configuration of this node's own group has it. */
  readonly learned: (identity: string, source: IdentitySource) => void;
}

export class ClusterIdentity {
  readonly #options: IdentityOptions;
  #known: string;
  /** Nodes that were met, and understand identities. */
  readonly #modern = new Set<number>();

  constructor(options: IdentityOptions) {
    this.#options = options;
    this.#known = options.known;
  }

  /** Empty: not known yet. */
  get known(): string {
    return this.#known;
  }

  /** A peer knows it. The first one counts: the handshake refuses peers of another, and links to them end. */
  hear(identity: string): void {
    if (identity === '' || this.#known !== '') return;
    this.#known = identity;
    this.#options.learned(identity, 'heard');
  }

  /** What counts for all shards of the node, whatever this one has heard first. */
  settle(identity: string): void {
    this.#known = identity;
  }

  /** A node was met that knows of identities, or that does not. */
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

  /** What a majority has agreed on counts for more than what a peer has said. */
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

  /** Also when a leader of an older version has dropped it. */
  #complete(group: Group): void {
    const { raft, leads } = group;
    if (!leads || isUnrecorded(group)) return;
    const others = members(raft.configuration).filter((node) => node !== this.#options.nodeId);
    if (this.#known === '' && !others.every((node) => this.#modern.has(node))) return;
    raft.proposeConfiguration({ ...raft.configuration, identity: this.#proposal });
  }
}
