/** Delete: removes a stream. */
import { command } from './operation.ts';
import { FORK_GONE } from './fork-gone.ts';

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
  result: FORK_GONE,
});
