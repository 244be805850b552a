/** Lifetimes of streams. No client waits for an answer to these commands. */
import { CHANGE, OF_LEADER, NO_RESULT, type ResultCodec, command } from './operation.ts';
import { NO_FIELDS } from './command-request.ts';

/** Renews a sliding lifetime after a read. */
export const touch = command({
  number: 5,
  ...CHANGE,
  request: NO_FIELDS,
  result: NO_RESULT,
});

/** It took as many deadlines as one command may: there are probably more. */
const IS_FULL: ResultCodec<{ readonly isFull: boolean }> = {
  write(reply, { isFull }) {
    reply.b = isFull ? 1 : 0;
  },
  read: ({ b }) => ({ isFull: b === 1 }),
};

/** Removes a bounded number of expired streams of the group; proposed by its leader. */
export const expire = command({
  number: 6,
  ...OF_LEADER,
  request: NO_FIELDS,
  result: IS_FULL,
});
