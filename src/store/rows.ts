/** Locations of a shard's rows in its store, for its two readers: the shard itself, and exports in their own thread. */
import { f64, struct, u16BE, u32BE, u8 } from '../base/struct.ts';
import { OTHER_HALF, SYSTEM_PREFIX } from './key-space.ts';

/**
 * The shard's own rows: vote of a group, which half its state uses, whether it lost its log, whether the store was
 *  used, the runs of peers.
 */
export const VOTE_TAG = 0x76;
export const HALF_TAG = 0x68;
export const LOST_TAG = 0x6c;
export const USED_TAG = 0x75;
const PEER_TAG = 0x70;

const PREFIX_KEY = struct({ prefix: u16BE });
const TAG_KEY = struct({ prefix: u16BE, tag: u8 });
/** Rows about one group, and about the whole shard with group 0. */
export const GROUP_KEY = struct({ prefix: u16BE, tag: u8, group: u16BE });
export const PEER_KEY = struct({ prefix: u16BE, tag: u8, node: u32BE });

export const VOTE_ROW = struct({ term: f64, vote: f64 });
export const PEER_ROW = struct({ incarnation: f64, boot: f64 }, 'directory');

export function systemKey(tag: number, group: number): Uint8Array {
  return GROUP_KEY.encode({ prefix: SYSTEM_PREFIX, tag, group });
}

/** Node ids have 32 bits. */
export function peerKey(node: number): Uint8Array {
  return PEER_KEY.encode({ prefix: SYSTEM_PREFIX, tag: PEER_TAG, node });
}

/** Prefix of the group's state, given its row of HALF_TAG. */
export function halfOf(group: number, row: Uint8Array | undefined): number {
  return row === undefined ? group : group + OTHER_HALF;
}

export function tagKey(prefix: number, tag: number): Uint8Array {
  return TAG_KEY.encode({ prefix, tag });
}

export function prefixKey(prefix: number): Uint8Array {
  return PREFIX_KEY.encode({ prefix });
}
