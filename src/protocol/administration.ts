/** Operators' calls about one Raft group, and whether a shard may lead. */
import { NO_RESULT, query } from './operation.ts';
import { CALL_RESULT } from './call-result.ts';

/**
 * mode = one of ADMIN_*, value = node or index (-1 none), key = voters as `1,2,3`, or a learner's address (may be
 * empty).
 */
export const admin = query({
  number: 40,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  result: CALL_RESULT,
});

/**
 * Whether this node may lead, for all groups of the shard: mode as in placement/state/shed.ts; value = why, to be
 * shown.
 */
export const shed = query({ number: 41, scope: 'control', needsLeaders: false, duringImport: true, result: NO_RESULT });
