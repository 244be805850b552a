/** A backup of a group (backup/shard/exports.ts). */
import { query } from './operation.ts';
import { numberIn, resultFields, textIn } from './frame-fields.ts';
import { A, B, MODE, TEXT, VALUE } from './generic-fields.ts';
import type { RequestCodec } from './request.ts';

/** It is named by the answer to `open`, and held while its reader goes on. */
export type ExportRequest =
  | { readonly step: 'open' }
  | { readonly step: 'hold'; readonly id: number }
  | { readonly step: 'close'; readonly id: number };

const OPEN = 1;
const HOLD = 2;
const CLOSE = 3;

const EXPORT_REQUEST: RequestCodec<ExportRequest> = {
  write(request, asked) {
    request[MODE] = asked.step === 'open' ? OPEN : asked.step === 'hold' ? HOLD : CLOSE;
    request[VALUE] = asked.step === 'open' ? 0 : asked.id;
  },
  read(query) {
    if (query[MODE] === OPEN) return { step: 'open' };
    return { step: query[MODE] === HOLD ? 'hold' : 'close', id: query[VALUE] };
  },
};

/** The result of `open`. */
const EXPORT_RESULT = resultFields({
  /** Its name in the other calls. */
  id: numberIn(A),
  appliedCommands: numberIn(B),
  /** Origin of the group's objects in the cold store. */
  origin: textIn(TEXT),
});

export const exportGroup = query({
  number: 45,
  scope: 'control',
  needsLeaders: false,
  request: EXPORT_REQUEST,
  result: EXPORT_RESULT,
});
