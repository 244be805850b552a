/**
 * How a shard's store is divided: all of a group's rows have a two-byte prefix. A group has two prefixes, its number
 * and its number plus OTHER_HALF: one holds the state, and a received snapshot is written under the other before it
 * takes over.
 */
export const OTHER_HALF = 0x4000;
/** Prefix of the shard's own rows, after those of all groups. */
export const SYSTEM_PREFIX = 0xffff;
