/** Create: a new stream, perhaps with its first body. */
import { NO_RESULT, command } from './operation.ts';
import { commandFields } from './command-request.ts';

export const CREATE_FIELDS = commandFields(
  'bucket',
  'stream',
  'contentType',
  'payload',
  'close',
  'streamSeq',
  'producerId',
  'producerEpoch',
  'producerSeq',
  'ttlSeconds',
  'expiresAtMs',
  'attributes',
  'condition',
);

export type CreateFields = ReturnType<typeof CREATE_FIELDS.fields>;

export const create = command({
  number: 1,
  forwardable: true,
  wouldAddBytes: true,
  freesSpace: false,
  body: 'message',
  mayBringNoRecords: true,
  quota: 'counted',
  createsStream: true,
  isImport: false,
  request: CREATE_FIELDS,
  result: NO_RESULT,
});
