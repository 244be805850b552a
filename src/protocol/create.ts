/** Create: a new stream, perhaps with its first body. */
import { WRITE_FIELDS } from './append.ts';
import { CLIENT_BYTES, NO_RESULT, command } from './operation.ts';
import { commandFields } from './command-request.ts';

export const CREATE_FIELDS = commandFields(...WRITE_FIELDS, 'ttlSeconds', 'expiresAtMs', 'attributes');

export type CreateFields = ReturnType<typeof CREATE_FIELDS.fields>;

export const create = command({
  number: 1,
  ...CLIENT_BYTES,
  body: 'message',
  mayBringNoRecords: true,
  createsStream: true,
  request: CREATE_FIELDS,
  result: NO_RESULT,
});
