/**
 * Which optional parts a replicated command has (command.ts). Its kind is the number of its operation (operations.ts).
 */

/**
 * Added to the kind of a conditional command (condition.ts): a node of a version without conditions does not know the
 * sum and stops, where it would otherwise apply the write unconditionally. Kinds stay below.
 */
export const KIND_CONDITIONAL = 64;

export const FLAG_CLOSE = 1;
export const FLAG_PRODUCER = 2;
export const FLAG_SEQ = 4;
export const FLAG_MATCH = 8;
/** The payload is normalised JSON, one record a line, followed by its ends. */
export const FLAG_RECORDS = 16;
export const FLAG_LIFETIME = 32;
export const FLAG_ATTRS = 64;
export const FLAG_FORK = 128;
