/** Sets and shows the attributes of a stream, a JSON object. */
import { NO_RESULT, command, query } from './operation.ts';
import { commandFields } from './command-request.ts';
import { NAMED_STREAM } from './request.ts';

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
  request: commandFields('bucket', 'stream', 'attributes'),
  result: NO_RESULT,
});

export const getAttributes = query({
  number: 34,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  request: NAMED_STREAM,
  result: NO_RESULT,
});
