/** Append: a message or records at the tail of a stream, and the closing of one. */
import { NO_RESULT, command } from './operation.ts';
import { commandFields } from './command-request.ts';

/** Fields of an append, alone or in a batch. */
export const APPEND_FIELDS = commandFields(
  'bucket',
  'stream',
  'contentType',
  'payload',
  'close',
  'streamSeq',
  'producerId',
  'producerEpoch',
  'producerSeq',
  'recordMatch',
  'expectedOffset',
  'condition',
);

export type AppendFields = ReturnType<typeof APPEND_FIELDS.fields>;

export const append = command({
  number: 2,
  forwardable: true,
  wouldAddBytes: true,
  freesSpace: false,
  body: 'message',
  mayBringNoRecords: false,
  quota: 'counted',
  createsStream: false,
  isImport: false,
  request: APPEND_FIELDS,
  result: NO_RESULT,
});
