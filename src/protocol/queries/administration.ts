/** Calls of operators and of services about one group, and whether a shard may lead. */
import type { StreamName } from '../flat-path.ts';
import { NO_RESULT, asks, query, says } from '../operation.ts';

export type AdminRequest =
  | { readonly call: 'snapshot' }
  /** Undefined: the index of the last snapshot. */
  | { readonly call: 'purge'; readonly upTo: number | undefined }
  /** The address is empty when the configuration file has it. */
  | { readonly call: 'learner'; readonly node: number; readonly address: string }
  | { readonly call: 'transfer' | 'allow-revert' | 'forget-learner'; readonly node: number }
  /** Ascending, each once. */
  | { readonly call: 'membership'; readonly voters: readonly number[] };

export type AdminCall = AdminRequest['call'];

/** How an operator's call about a group ended. The HTTP side turns it into a status and a body. */
export interface CallResult {
  readonly outcome: CallOutcome;
  /** JSON, or one sentence; empty: none. */
  readonly body: Readonly<Record<string, unknown>> | string;
}

export const sentence = (outcome: CallOutcome, text: string): CallResult => ({ outcome, body: `${text}\n` });

/** The 409 of a call that only a leader can serve. */
export function notLeader(
  { id, raft: { leader } }: { readonly id: number; readonly raft: { readonly leader: number } },
  more: Record<string, unknown>,
): CallResult {
  const current = leader === 0 ? null : leader;
  const body = { raft_group_id: id, current_leader: current, leader: current, ...more, reason: 'not leader' };
  return { outcome: 'refused', body };
}

export type CallOutcome =
  | 'done'
  | 'nothing-to-do'
  | 'invalid'
  | 'not-found'
  /** This node cannot do it, or not now. */
  | 'refused'
  /** The node that should take over leadership declines; another one may accept. */
  | 'declined'
  | 'failed'
  | 'store-failed'
  | 'retry'
  | 'disk-full';

const CALL_RESULT = says<CallResult>();

export const admin = query({
  number: 40,
  scope: 'control',
  needsLeaders: false,
  request: asks<AdminRequest>(),
  result: CALL_RESULT,
});

export interface ShedRequest {
  /** How the node campaigns: as usual, never, or later than the others. */
  readonly priority: 'normal' | 'none' | 'low';
  /** Why, as bits to be shown (placement/state/shed.ts). */
  readonly reasons: number;
}

/** Whether this node may lead, for all groups of the shard. */
export const shed = query({
  number: 41,
  scope: 'control',
  needsLeaders: false,
  request: asks<ShedRequest>(),
  result: NO_RESULT,
});

export interface FlushRequest extends StreamName {
  /** Flushes a prefix of the stream's hot bytes, when it has at least this many. */
  readonly minHotBytes: number;
  /** Bound of the object's size; 0: the shard's own bound. */
  readonly maxBytes: number;
}

/** Moves one object's worth of a stream's hot bytes to the cold store, whatever their age. */
export const flushStream = query({
  number: 43,
  scope: 'control',
  needsLeaders: false,
  request: asks<FlushRequest>(),
  result: CALL_RESULT,
});

export interface GarbageRequest {
  readonly bucket: string;
  /** Entries whose objects the answer names, at most. */
  readonly limit: number;
  /** Where the last answer ended; undefined: from the beginning. */
  readonly from: number | undefined;
}

export interface GarbageResult {
  /** The group came from a backup, so some objects may be another cluster's. */
  readonly isRestored: boolean;
  /** Some of the entries, and the keys of those objects that are the group's own. */
  readonly seqs: readonly number[];
  readonly keys: readonly string[];
  /** Where the next query goes on; undefined: all of the queue was looked at. */
  readonly next: number | undefined;
}

/** Objects of one bucket that a group must delete. */
export const bucketGarbage = query({
  number: 44,
  scope: 'group',
  needsLeaders: false,
  request: asks<GarbageRequest>(),
  result: says<GarbageResult>(),
});

/** The answer to `open` names the export, which is held while its reader goes on. */
export type ExportRequest =
  | { readonly step: 'open' }
  | { readonly step: 'hold'; readonly id: number }
  | { readonly step: 'close'; readonly id: number };

/** The answer to `open`; the other steps get none. */
export interface ExportResult {
  /** Identifies the export in the other calls. */
  readonly id: number;
  readonly appliedCommands: number;
  /** Origin of the group's objects in the cold store. */
  readonly origin: string;
}

/** A backup of a group (backup/shard/exports.ts). */
export const exportGroup = query({
  number: 45,
  scope: 'control',
  needsLeaders: false,
  request: asks<ExportRequest>(),
  result: says<ExportResult>(),
});
