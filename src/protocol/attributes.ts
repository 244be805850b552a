/** Sets and shows the attributes of a stream, a JSON object. */
import { PARAMETERS_ONLY, NO_RESULT, command, query } from './operation.ts';
import { commandFields } from './command-request.ts';
import { NAMED_STREAM } from './request.ts';

export const setAttributes = command({
  number: 4,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: false,
  ...PARAMETERS_ONLY,
  request: commandFields('bucket', 'stream', 'attributes'),
  result: NO_RESULT,
});

export const getAttributes = query({
  number: 34,
  scope: 'stream',
  needsLeaders: false,
  request: NAMED_STREAM,
  result: NO_RESULT,
});
