/** Create: a new stream, perhaps with its first body. */
import { NO_RESULT, command } from './operation.ts';

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
  result: NO_RESULT,
});
