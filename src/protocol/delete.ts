/** Delete: removes a stream. */
import { REMOVAL, command } from './operation.ts';
import { FORK_GONE } from './fork-gone.ts';
import { commandFields } from './command-request.ts';

export const deleteStream = command({
  number: 3,
  ...REMOVAL,
  request: commandFields('bucket', 'stream', 'condition'),
  result: FORK_GONE,
});
