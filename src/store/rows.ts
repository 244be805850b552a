/** Locations of a shard's rows in its store, for its two readers: the shard itself, and exports in their own thread. */
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

export function systemKey(tag: number, group: number): Uint8Array {
  return new Uint8Array([SYSTEM_PREFIX >> 8, SYSTEM_PREFIX & 0xff, tag, group >> 8, group & 0xff]);
}

/** Node ids have 32 bits. */
export function peerKey(node: number): Uint8Array {
  const key = new Uint8Array(7);
  key.set(systemKey(PEER_TAG, 0).subarray(0, 3));
  new DataView(key.buffer).setUint32(3, node);
  return key;
}

/** Prefix of the group's state, given its row of HALF_TAG. */
export function halfOf(group: number, row: Uint8Array | undefined): number {
  return row === undefined ? group : group + OTHER_HALF;
}

export function tagKey(prefix: number, tag: number): Uint8Array {
  return new Uint8Array([prefix >> 8, prefix & 0xff, tag]);
}

export function prefixKey(prefix: number): Uint8Array {
  return new Uint8Array([prefix >> 8, prefix & 0xff]);
}
