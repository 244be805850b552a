/** Thread entry of the pool that checks large JSON bodies. */
import { move, transferableSymbol, valueSymbol } from 'piscina';
import type { CheckedBody, JsonTask } from '../src/gateway/json-bodies.ts';
import { checkJsonBody } from '../src/group/json-body.ts';
import { BODY_RECORDS, BODY_REFUSED, encodeRecords, encodeRefusal } from '../src/protocol/checked-body.ts';
import { JsonNormalizer } from '../src/json/json-records.ts';

const normalizer = new JsonNormalizer();

/** Named in src/server/json-pool.ts. */
export function checkJson({ body, mayBringNoRecords }: JsonTask): unknown {
  const result = checkJsonBody(new Uint8Array(body), normalizer, mayBringNoRecords);
  const isRefused = 'code' in result;
  const encoded = isRefused ? encodeRefusal(result, body.byteLength) : encodeRecords(result, body.byteLength);
  const payload = encoded.buffer;
  const checked: CheckedBody = { mark: isRefused ? BODY_REFUSED : BODY_RECORDS, payload };
  return move({ [transferableSymbol]: [payload], [valueSymbol]: checked });
}
