/** The check of a JSON body: by a leader, or for a large one by the pool of the node that received it. */
import { RECORDS_PER_REQUEST_MAX } from '../base/limits.ts';
import type { BodyRecords, BodyRefusal } from '../protocol/checked-body.ts';
import type { JsonNormalizer } from '../json/json-records.ts';

/** `mayBringNoRecords`: an empty array is a body without records, and not refused. */
export function checkJsonBody(
  body: Uint8Array,
  json: JsonNormalizer,
  mayBringNoRecords: boolean,
): BodyRecords | BodyRefusal {
  const result = json.records(body);
  if (!result.ok) return { code: 'INVALID_JSON', reason: result.reason };
  if (result.ends.length > RECORDS_PER_REQUEST_MAX) return { code: 'TOO_MANY_RECORDS', reason: '' };
  if (result.ends.length === 0 && !mayBringNoRecords) return { code: 'EMPTY_JSON_ARRAY', reason: '' };
  return result;
}
