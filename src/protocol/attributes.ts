/** Sets the attributes of a stream, a JSON object. */
import { PARAMETERS_ONLY, NO_RESULT, command } from './operation.ts';
import { commandFields } from './command-request.ts';

export const setAttributes = command({
  number: 4,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: false,
  ...PARAMETERS_ONLY,
  request: commandFields('bucket', 'stream', 'attributes'),
  result: NO_RESULT,
});
