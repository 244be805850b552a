/** The options of a shard, and the consensus settings derived from them. */
import { ENTRY_BYTES_MAX, ENTRY_FILL_BYTES, UNCOMMITTED_BYTES_MAX } from '../base/limits.ts';
import { Group } from '../group/group.ts';
import type { PieceBounds } from '../group/large-commands.ts';
import type { ReplySink } from '../protocol/reply.ts';
import type { Runtime } from '../base/runtime.ts';
import type { LogReader, RaftConfig } from '../raft/types.ts';
import type { WorkMemory } from '../stream/core/collect.ts';
import { State } from '../stream/core/state.ts';
import type { ClusterIdentity } from './cluster-identity.ts';
import type { ColdPort, ColdSettings } from '../cold/ports.ts';
import type { PinBounds } from './log-pins.ts';
import type { Log, ReplyTarget, RequestSource, ShardStorage } from './ports.ts';
import type { ShardLinks } from './replication.ts';
import type { ScrubPace } from './scrub.ts';
import { decodeConfiguration } from '../raft/configuration.ts';

/** A leader that is silent for one to two seconds is replaced; a follower's commit may stall that long unnoticed. */
const ELECTION_TICKS = 10;
const HEARTBEAT_TICKS = 2;

export interface ShardOptions {
  readonly shard: number;
  readonly nodeId: number;
  /** Groups that this shard owns, ascending. */
  readonly groups: readonly number[];
  readonly storage: ShardStorage;
  readonly requests: RequestSource;
  readonly replies: ReplyTarget;
  /** Voters of a group whose configuration was never changed: the nodes of the configuration file. */
  readonly voters: readonly number[];
  /** All nodes of the configuration file. */
  readonly nodes: readonly number[];
  /** Undefined: clusters and their directories have no identity. */
  readonly identity?: ClusterIdentity | undefined;
  /** Differs between boots; seeds election timeouts. */
  readonly seed: number;
  /** Identifies this run of the process to its peers; positive. */
  readonly boot: number;
  readonly log: Log;
  /** See CommitsOptions. */
  readonly logWrites?: Int32Array | undefined;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
  /** Undefined: a single node. */
  readonly links?: ShardLinks | undefined;
  /** Undefined: everything stays on the nodes. */
  readonly cold?: { readonly port: ColdPort; readonly settings: ColdSettings } | undefined;
  /** Bytes of a group that may wait for a majority before writes get 503; 0 or undefined: only consensus' own bound. */
  readonly uncommittedBytesMax?: number | undefined;
  /** Bound of what is applied and not on disk, in bytes; that of a node with one shard by default (backlog.ts). */
  readonly changedBytesMax?: number | undefined;
  /** That bound until the log of the process before is applied. */
  readonly replayBytesMax?: number | undefined;
  /** One tick of Raft's logical time; tests make it short. */
  readonly tickMs?: number | undefined;
  /** Bounds of messages between nodes, in bytes: the simulator makes them small. */
  readonly messages?: Pick<RaftConfig, 'maxMessageBytes' | 'maxInflightBytes'>;
  /** Target size for combining commands into an entry, in bytes: the simulator makes it small. */
  readonly entryFillBytes?: number;
  /** How large commands are cut: the simulator makes the pieces small. */
  readonly pieces?: PieceBounds;
  /** How fast all rows are read again and again. */
  readonly scrub?: ScrubPace | undefined;
  /** How far a node that gets a snapshot may be behind: the simulator makes it small. */
  readonly pinBounds?: PinBounds;
}

const MESSAGES: NonNullable<ShardOptions['messages']> = {
  maxMessageBytes: ENTRY_FILL_BYTES,
  maxInflightBytes: 16 * 1024 * 1024,
};

/** The group's state as the storage has it. */
export function stateOf({ storage }: ShardOptions, group: number, memory: WorkMemory): State {
  return new State(group, storage.tx, storage.prefix(group), memory);
}

/** One group, from what the storage has. */
export function newGroup(options: ShardOptions, state: State, log: LogReader, sink: ReplySink): Group {
  const group = new Group(state, raftConfig(options, state, log), sink);
  group.admission.uncommitted.bytesMax = options.uncommittedBytesMax || Infinity;
  group.entryFillBytes = options.entryFillBytes ?? ENTRY_FILL_BYTES;
  if (options.pieces !== undefined) group.large.bounds = options.pieces;
  return group;
}

function raftConfig(options: ShardOptions, state: State, log: LogReader): RaftConfig {
  const { storage, nodeId, seed } = options;
  const { term, vote } = storage.vote(state.group);
  return {
    nodeId,
    electionTicks: ELECTION_TICKS,
    heartbeatTicks: HEARTBEAT_TICKS,
    ...(options.messages ?? MESSAGES),
    maxEntryBytes: ENTRY_BYTES_MAX,
    maxUncommittedBytes: UNCOMMITTED_BYTES_MAX,
    seed: seed + state.group,
    lost: storage.lost(state.group),
    bootId: options.boot,
    log,
    // A vote that the disk changed has no term.
    hardState: { term: Math.max(term, log.term(log.lastIndex())), vote, commit: state.appliedIndex },
    configuration: stateConfiguration(state.configuration) ?? {
      voters: options.voters,
      votersOutgoing: [],
      learners: [],
    },
    applied: state.appliedIndex,
    snapshotIndex: state.appliedIndex,
    snapshotTerm: state.appliedTerm,
  };
}

/** The configuration in a group's state; undefined before the first change. */
export function stateConfiguration(encoded: Uint8Array): ReturnType<typeof decodeConfiguration> | undefined {
  return encoded.length === 0 ? undefined : decodeConfiguration(encoded);
}
