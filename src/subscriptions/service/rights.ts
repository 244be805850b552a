/**
 * Requests of senders whose tokens have scopes. A subscription that follows anything out of their scopes is to them as one
 * that does not exist.
 */
import type { ControlRights } from '../ports.ts';
import type { SubscriptionConfig } from '../state/subscription.ts';
import { Refusal } from './api-refusal.ts';
import type { Membership } from './subscription-membership.ts';

type Rights = ControlRights | undefined;
type Finder = Pick<Membership, 'find'>;

/** Throws the refusal. A node appends to the wake stream in the name of its creator. */
export function mayCreate(rights: Rights, { pattern, streams, wake_stream: wakeStream }: SubscriptionConfig): void {
  mayFollow(rights, pattern, streams);
  if (rights === undefined || wakeStream === null || rights.appends(wakeStream)) return;
  throw new Refusal('INSUFFICIENT_SCOPE', 'append on the wake stream is not in the scopes of the token');
}

/** Throws the refusal. */
export function mayFollow(rights: Rights, pattern: string | null, paths: readonly string[]): void {
  if (rights === undefined || rights.follows(pattern, paths)) return;
  const what = pattern === null ? 'all of these streams' : 'all that the subscription can match';
  throw new Refusal('INSUFFICIENT_SCOPE', `subscribe and read on ${what} are not in the scopes of the token`);
}

export async function isSeen(finder: Finder, rights: ControlRights, id: string): Promise<boolean> {
  try {
    const { config, links } = await finder.find(id);
    const { pattern, streams, wake_stream: wakeStream } = config;
    // Streams that it was made with count when their links are gone, too: without any it would be open to every token.
    const mayRead = rights.follows(pattern, [...links.keys(), ...streams]);
    return mayRead && (wakeStream === null || rights.appends(wakeStream));
  } catch (error) {
    if (error instanceof Refusal && error.code === 'SUBSCRIPTION_NOT_FOUND') return false;
    throw error;
  }
}

/** Acts on a subscription that the sender may see, before and behind it: others may name more streams meanwhile. */
export async function seen<T>(finder: Finder, rights: Rights, id: string, act: () => Promise<T>): Promise<T> {
  const refuseUnseen = async (): Promise<void> => {
    if (rights === undefined || (await isSeen(finder, rights, id))) return;
    throw new Refusal('SUBSCRIPTION_NOT_FOUND', 'there is no such subscription');
  };
  await refuseUnseen();
  const result = await act();
  await refuseUnseen();
  return result;
}
