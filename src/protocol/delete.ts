/** Delete: removes a stream. */
import { command } from './operation.ts';
import { FORK_GONE } from './fork-gone.ts';
import { commandFields } from './command-request.ts';

export const deleteStream = command({
  number: 3,
  forwardable: true,
  wouldAddBytes: false,
  freesSpace: true,
  body: 'none',
  mayBringNoRecords: false,
  quota: 'none',
  createsStream: false,
  isImport: false,
  request: commandFields('bucket', 'stream', 'condition'),
  result: FORK_GONE,
});
