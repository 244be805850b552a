/**
 * How many signed tokens with a wrong signature are verified. One costs the main thread up to half a millisecond, ten
 * times as much as a request, and a stranger who knows issuer and audience can make any number of them. Beyond a number
 * in a second, from one address or from all, tokens that are not remembered are refused unseen. Those that are go on. A
 * token that was real and has ended proves nothing against its address.
 */
import { isJwt } from './jwt-tokens.ts';
import type { Connected, ForwardedHeaders, Senders } from './senders.ts';
import type { Grant } from './scopes.ts';
import type { TokenFault } from './token-book.ts';

const INTERVAL_MS = 1000;
/** At most a hundredth of the thread. */
const FROM_ADDRESS_MAX = 20;
/** From very many addresses: half of the thread at worst, and the addresses that are kept. */
const FROM_ALL_MAX = 1000;

type Verified = Grant | TokenFault;

/** The request that brings a token: its connection, and what the proxy in front says. */
interface TokenSender {
  readonly peer: Connected;
  readonly headers: ForwardedHeaders;
}

export class FailedTokens {
  readonly #senders: Senders;
  readonly #monotonicMs: () => number;
  /** Failures of this interval, by address. */
  readonly #failures = new Map<string, number>();
  #all = 0;
  #endMs = -Infinity;

  constructor(senders: Senders, monotonicMs: () => number) {
    this.#senders = senders;
    this.#monotonicMs = monotonicMs;
  }

  /** `verify` gives the grant of a token that is not remembered, or why it has none. */
  bounded(token: string, { peer, headers }: TokenSender, verify: () => Verified): Verified | 'throttled' {
    if (!isJwt(token)) return verify();
    if (this.#monotonicMs() >= this.#endMs) this.#begin();
    const network = networkOf(this.#senders.senderOf(peer, headers).from);
    const failed = this.#failures.get(network) ?? 0;
    if (failed >= FROM_ADDRESS_MAX || this.#all >= FROM_ALL_MAX) return 'throttled';
    const found = verify();
    // All others are seen at once, or were real once, and remembered.
    if (found !== 'wrong-signature') return found;
    this.#failures.set(network, failed + 1);
    this.#all++;
    return found;
  }

  #begin(): void {
    this.#endMs = this.#monotonicMs() + INTERVAL_MS;
    this.#failures.clear();
    this.#all = 0;
  }
}

/** Its /64 of an IPv6 address, because one host has all of it. */
function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  const [front = '', back = ''] = address.split('::');
  const groups = front === '' ? [] : front.split(':');
  const zeros = address.includes('::') ? 8 - groups.length - (back === '' ? 0 : back.split(':').length) : 0;
  return [...groups, ...Array<string>(zeros).fill('0'), ...back.split(':')].slice(0, 4).join(':');
}
