/**
 * An operator's flush of one stream, checked once a turn until there is an answer. Everything that depends on the
 * operator is a 4xx, including a node without a cold store and one that does not lead; a failing store is a 502.
 */
import { ERRORS } from '../../base/errors.ts';
import type { Group } from '../../group/group.ts';
import { isImporting } from '../../stream/backup/apply-import.ts';
import { QUERIES } from '../../protocol/operations.ts';
import type { Query } from '../../protocol/request.ts';
import type { FlushCall } from './flusher.ts';
import type { ColdTier } from './tier.ts';
import { type CallResult, notLeader, sentence } from '../../protocol/queries/administration.ts';

/** Maximum size of one object, whatever the caller asks for: it is held in memory. */
const CALL_BYTES_MAX = 8 * 1024 * 1024;
/** Calls waiting for the job of their group. */
const CALLS_MAX = 16;

const NO_STORE = 'this node has no cold store: set storage.cold.backend and start it again';
const UNCONFIRMED = 'the cold store took the object, and no majority confirmed in time that it is there; retry';

/** Returns the check to repeat until it gives an answer. */
export function flushCall(cold: ColdTier | undefined, group: Group, query: Query): () => CallResult | undefined {
  if (cold === undefined) return () => sentence('refused', NO_STORE);
  const stream = query.key();
  const asked = QUERIES.flushStream.request.read(query);
  const wanted = Math.max(1, asked.minHotBytes);
  const maxBytes = asked.maxBytes === 0 ? CALL_BYTES_MAX : Math.min(asked.maxBytes, CALL_BYTES_MAX);
  let call: FlushCall | undefined;
  return () => {
    if (!group.leads) return notLeader(group, {});
    // A leader that has not applied everything before its term may not know the stream yet.
    if (group.state.appliedTerm !== group.raft.term) return undefined;
    // A lookup keeps the stream in the cache; for an import that is undone it would be a stream without rows.
    if (isImporting(group.state)) return sentence('retry', ERRORS.GROUP_IMPORTING.text);
    if (call === undefined) {
      const early = refusal(group, stream, wanted);
      if (early !== undefined) return early;
      if (cold.flusher.callsOf(group) >= CALLS_MAX) return sentence('retry', 'other flushes of this group wait; retry');
      call = { stream, maxBytes, done: undefined, reason: '' };
      cold.flusher.call(group, call);
    }
    return call.done === undefined ? undefined : outcome(group, call);
  };
}

function refusal(group: Group, stream: Uint8Array, wanted: number): CallResult | undefined {
  const head = group.state.find(stream, 0, stream.length);
  if (head === undefined) return sentence('not-found', 'stream not found');
  return head.tail - head.hotStart < wanted ? { outcome: 'nothing-to-do', body: '' } : undefined;
}

function outcome(group: Group, { stream, done, reason }: FlushCall): CallResult {
  switch (done) {
    case 'flushed': {
      const head = group.state.find(stream, 0, stream.length);
      if (head === undefined) return sentence('not-found', 'stream not found');
      // Applied commands, as backups count them: not the index in the log.
      const { appliedCommands } = group.state;
      return { outcome: 'done', body: { hot_start_offset: head.hotStart, group_commit_index: appliedCommands } };
    }
    case 'failed':
      return sentence('store-failed', `the cold store did not take the object from this node: ${reason}`);
    case 'unconfirmed':
      return sentence('retry', UNCONFIRMED);
    case 'damaged':
      return sentence('retry', ERRORS.ROW_DAMAGED.text);
    case 'leader-lost':
      return notLeader(group, {});
    default:
      return { outcome: 'nothing-to-do', body: '' };
  }
}
