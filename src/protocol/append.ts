/** Append: a message or records at the tail of a stream, and the closing of one. */
import { NO_RESULT, command } from './operation.ts';

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
  result: NO_RESULT,
});
