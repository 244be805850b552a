/** Sets and shows the attributes of a stream, a JSON object. */
import { NO_RESULT, command, query } from './operation.ts';

export const setAttributes = command({
  number: 4,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: false,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  result: NO_RESULT,
});

export const getAttributes = query({
  number: 34,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  result: NO_RESULT,
});
