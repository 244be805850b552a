import { assert } from '../base/assert.ts';
import { decodeAddresses, encodeAddresses, withAddresses } from './addresses.ts';
import type { Addresses, Configuration } from './types.ts';

/** An operator's request; the core derives the joint step from it. */
export interface MembershipTarget {
  readonly voters: readonly number[];
  readonly learners: readonly number[];
  /** Added to the configuration's addresses, or replacing them. */
  readonly addresses?: Addresses;
  /** Set only if the configuration has none. */
  readonly identity?: string | undefined;
}

export function isVoter(configuration: Configuration, node: number): boolean {
  return configuration.voters.includes(node) || configuration.votersOutgoing.includes(node);
}

export function isJoint(configuration: Configuration): boolean {
  return configuration.votersOutgoing.length > 0;
}

/** Every node that receives the log, ascending. */
export function members(configuration: Configuration): number[] {
  const all = [...configuration.voters, ...configuration.votersOutgoing, ...configuration.learners];
  return sorted(all);
}

/** Ascending without duplicates; ids must be positive integers. */
export function sorted(ids: readonly number[]): number[] {
  for (const id of ids) assert(Number.isSafeInteger(id) && id > 0, `node id ${id}`);
  return [...new Set(ids)].sort((a, b) => a - b);
}

/**
 * First step from `current` towards `target`: joint when the voters change (§4.3), direct when only learners do
 * (learners are in no quorum, so any two such configurations overlap).
 */
export function firstStep(current: Configuration, target: MembershipTarget): Configuration {
  assert(!isJoint(current), 'a membership change is under way');
  const voters = sorted(target.voters);
  assert(voters.length > 0, 'a configuration needs a voter');
  const learners = sorted(target.learners).filter((id) => !voters.includes(id));
  const same = voters.length === current.voters.length && voters.every((id) => current.voters.includes(id));
  const addresses = new Map([...(current.addresses ?? []), ...(target.addresses ?? [])]);
  const identity = current.identity ?? target.identity;
  const lists = { voters, votersOutgoing: same ? [] : sorted(current.voters), learners };
  return withAddresses(identity === undefined ? lists : { ...lists, identity }, addresses);
}

/** Second step: drops the outgoing half. */
export function withoutOutgoing(joint: Configuration): Configuration {
  return withAddresses({ ...joint, votersOutgoing: [] }, joint.addresses);
}

/**
 * Layout: three counts (u16 LE: voters, outgoing, learners), then the ids in that order (f64 LE, exact to 2^53), then
 * the addresses, if there are any (addresses.ts).
 */
export function encodeConfiguration(configuration: Configuration): Uint8Array {
  const lists = [configuration.voters, configuration.votersOutgoing, configuration.learners];
  const count = lists.reduce((sum, list) => sum + list.length, 0);
  const addresses = encodeAddresses(configuration);
  const bytes = new Uint8Array(6 + 8 * count + addresses.length);
  bytes.set(addresses, 6 + 8 * count);
  const view = new DataView(bytes.buffer);
  let at = 6;
  lists.forEach((list, which) => {
    view.setUint16(2 * which, list.length, true);
    for (const id of list) {
      view.setFloat64(at, id, true);
      at += 8;
    }
  });
  return bytes;
}

/** Inverse of `encodeConfiguration`. The bytes come from the log, so damage is a broken invariant. */
export function decodeConfiguration(bytes: Uint8Array): Configuration {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  assert(bytes.length >= 6, 'configuration entry too short');
  const counts = [view.getUint16(0, true), view.getUint16(2, true), view.getUint16(4, true)];
  const idsEnd = 6 + 8 * (counts[0]! + counts[1]! + counts[2]!);
  assert(bytes.length >= idsEnd, 'configuration entry has a wrong length');
  const addresses = decodeAddresses(bytes.subarray(idsEnd));
  assert(addresses !== undefined, 'configuration entry has broken addresses');
  let at = 6;
  const lists = counts.map((count) => {
    const ids: number[] = [];
    for (let left = count; left > 0; left -= 1) {
      ids.push(view.getFloat64(at, true));
      at += 8;
    }
    return sorted(ids);
  });
  return withAddresses({ voters: lists[0]!, votersOutgoing: lists[1]!, learners: lists[2]! }, addresses);
}
