/** Lifetimes of streams. No client waits for an answer to these commands. */
import { CHANGE, OF_LEADER, NO_RESULT, command } from './operation.ts';
import { NO_FIELDS } from './command-request.ts';

/** Renews a sliding lifetime after a read. */
export const touch = command({
  number: 5,
  ...CHANGE,
  request: NO_FIELDS,
  result: NO_RESULT,
});

/** Removes a bounded number of expired streams of the group; proposed by its leader. */
export const expire = command({
  number: 6,
  ...OF_LEADER,
  request: NO_FIELDS,
  result: NO_RESULT,
});
