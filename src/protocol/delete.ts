/** Delete: removes a stream. */
import { PARAMETERS_ONLY, command } from './operation.ts';
import { FORK_GONE } from './fork-gone.ts';
import { commandFields } from './command-request.ts';

export const deleteStream = command({
  number: 3,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: true,
  ...PARAMETERS_ONLY,
  request: commandFields('bucket', 'stream', 'condition'),
  result: FORK_GONE,
});
