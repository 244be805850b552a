/** Append: a message or records at the tail of a stream, and the closing of one. */
import { CLIENT_BYTES, NO_RESULT, command } from './operation.ts';
import { commandFields } from './command-request.ts';

/** Fields of a write that may create its stream. */
export const WRITE_FIELDS = [
  ...(['bucket', 'stream', 'contentType', 'payload', 'close', 'streamSeq', 'condition'] as const),
  ...(['producerId', 'producerEpoch', 'producerSeq'] as const),
] as const;

/** Fields of an append, alone or in a batch. */
export const APPEND_FIELDS = commandFields(...WRITE_FIELDS, 'recordMatch', 'expectedOffset');

export type AppendFields = ReturnType<typeof APPEND_FIELDS.fields>;

export const append = command({
  number: 2,
  ...CLIENT_BYTES,
  body: 'message',
  mayBringNoRecords: false,
  createsStream: false,
  request: APPEND_FIELDS,
  result: NO_RESULT,
});
