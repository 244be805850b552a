/**
 * How a shard's store is divided: all of a group's rows lie under a two-byte prefix. A group has two of them, its number and
 * its number plus OTHER_HALF: state lives under one, and a received snapshot is written under the other before it takes over.
 */
export const OTHER_HALF = 0x4000;
/** Prefix of the shard's own rows, behind those of all groups. */
export const SYSTEM_PREFIX = 0xffff;
