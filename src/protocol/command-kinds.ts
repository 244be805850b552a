/** What a replicated command does, and which optional parts it has (command.ts). Numbers are in logs: never reused. */
export const COMMAND_CREATE = 1;
export const COMMAND_APPEND = 2;
export const COMMAND_DELETE = 3;
export const COMMAND_SET_ATTRIBUTES = 4;
/** Renews a sliding lifetime after a read; no answer to a client. */
export const COMMAND_TOUCH = 5;
/** Removes up to a bounded number of expired streams of the group; no answer to a client. */
export const COMMAND_SWEEP = 6;
export const COMMAND_DELETE_BUCKET = 7;
/** Several appends in one request, with a result each; the payload is frames (batch.ts). */
export const COMMAND_APPEND_BATCH = 8;
export const COMMAND_PUBLISH_SNAPSHOT = 9;
export const COMMAND_RETENTION = 10;
export const COMMAND_PURGE = 11;
export const COMMAND_QUOTA = 12;
/** An object is in the cold store; its slices replace the rows that they hold. Payload: protocol/cold.ts, as of the two behind. */
export const COMMAND_FLUSH = 13;
/** Entries of the GC queue whose objects are gone from the cold store. */
export const COMMAND_GC_DONE = 14;
/** Objects found in the cold store that nothing refers to. */
export const COMMAND_DOOM = 15;
/** An object is in the cold store whose chunks each replace a run of chunks. Payload: as of a flush. */
export const COMMAND_COMPACT = 16;
/** A backup comes into an empty group; payloads: protocol/import-command.ts. */
export const COMMAND_IMPORT_BEGIN = 17;
export const COMMAND_IMPORT_ROWS = 18;
export const COMMAND_IMPORT_END = 19;
export const COMMAND_IMPORT_ABORT = 20;
/** A fork is made step by step, named by its token (forks/state/); payloads: protocol/fork-command.ts. */
export const COMMAND_FORK_BEGIN = 21;
/** In the group of the source. */
export const COMMAND_FORK_PIN = 22;
export const COMMAND_FORK_DATA = 23;
/** The payload is the first own body of the fork, as of a create. */
export const COMMAND_FORK_END = 24;
export const COMMAND_FORK_ABORT = 25;
/** A fork is gone, its source is told: in the group of the source, and then in that of the fork, which forgets to tell it. */
export const COMMAND_FORK_UNPIN = 26;
export const COMMAND_FORK_UNPINNED = 27;
/** Is the fork with this token still there? Changes nothing; a command, so that the answer holds for good. */
export const COMMAND_FORK_CHECK = 28;

/**
 * Added to the kind of a command that has a condition (condition.ts): a node of a version without conditions does not know the
 * sum and stops at it, where it would otherwise apply the write unconditionally. Kinds stay below.
 */
export const KIND_CONDITIONAL = 64;

export const FLAG_CLOSE = 1;
export const FLAG_PRODUCER = 2;
export const FLAG_SEQ = 4;
export const FLAG_MATCH = 8;
/** The payload is normalised JSON, one record a line, with its ends behind it. */
export const FLAG_RECORDS = 16;
export const FLAG_LIFETIME = 32;
export const FLAG_ATTRS = 64;
export const FLAG_FORK = 128;
