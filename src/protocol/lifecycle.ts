/** Deleting a stream, its attributes, and its lifetime. */
import { CHANGE, NO_RESULT, OF_LEADER, REMOVAL, type ResultCodec, command } from './operation.ts';
import { NO_FIELDS, commandFields } from './command-request.ts';
import { FORK_GONE } from './fork-gone.ts';

export const deleteStream = command({
  number: 3,
  ...REMOVAL,
  request: commandFields('bucket', 'stream', 'condition'),
  result: FORK_GONE,
});

/** A JSON object. */
export const setAttributes = command({
  number: 4,
  ...CHANGE,
  request: commandFields('bucket', 'stream', 'attributes'),
  result: NO_RESULT,
});

/** Renews a sliding lifetime after a read. No client waits for an answer. */
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
