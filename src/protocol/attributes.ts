/** Sets the attributes of a stream, a JSON object. */
import { CHANGE, NO_RESULT, command } from './operation.ts';
import { commandFields } from './command-request.ts';

export const setAttributes = command({
  number: 4,
  ...CHANGE,
  request: commandFields('bucket', 'stream', 'attributes'),
  result: NO_RESULT,
});
