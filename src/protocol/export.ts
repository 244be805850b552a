/** A backup of a group (backup/shard/exports.ts). */
import { query, type ResultCodec } from './operation.ts';
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

/** Of `open`. */
export interface ExportResult {
  /** Its name in the other calls. */
  readonly id: number;
  readonly appliedCommands: number;
  /** Origin of the group's objects in the cold store. */
  readonly origin: string;
}

const EXPORT_RESULT: ResultCodec<ExportResult> = {
  write(reply, { id, appliedCommands, origin }) {
    reply[A] = id;
    reply[B] = appliedCommands;
    reply[TEXT] = origin;
  },
  read: (reply) => ({ id: reply[A], appliedCommands: reply[B], origin: reply[TEXT] }),
};

export const exportGroup = query({
  number: 45,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  request: EXPORT_REQUEST,
  result: EXPORT_RESULT,
});
