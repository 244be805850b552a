/**
 * The address from which a request comes. A proxy puts the address of its client into X-Forwarded-For, and so may any
 * stranger: the header counts only when the connection comes from a proxy that is trusted, and only as far as trusted
 * proxies wrote it. They append, so what counts is the last address that is not one of theirs.
 */
import { BlockList, SocketAddress, isIP } from 'node:net';
import { decodeUtf8 } from '../base/utf8.ts';

export interface SenderAddress {
  /** Empty: the connection is gone. */
  readonly from: string;
  /** The proxy that says so; undefined: the connection itself comes from there. */
  readonly via?: string;
}

/** The response of a request, as the HTTP library hands it over. */
export interface Connected {
  getRemoteAddressAsText(): ArrayBuffer;
}

/** More proxies stand in no row; what is in front of these is not looked at. */
const HOPS_MAX = 16;

export class Senders {
  #trusted = new BlockList();
  #isTrusting = false;

  constructor(proxies: readonly string[]) {
    this.trust(proxies);
  }

  /** From the next request on: addresses, and networks as `10.0.0.0/8`. */
  trust(proxies: readonly string[]): void {
    const trusted = new BlockList();
    for (const proxy of proxies) {
      const [address = '', bits] = proxy.split('/');
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
      if (bits === undefined) trusted.addAddress(address, family);
      else trusted.addSubnet(address, Number(bits), family);
    }
    this.#trusted = trusted;
    this.#isTrusting = proxies.length > 0;
  }

  /** `forwardedFor`: the header, its lines joined by commas; empty: none came. */
  senderOf(peer: Connected, forwardedFor: string): SenderAddress {
    const from = canonical(decodeUtf8(new Uint8Array(peer.getRemoteAddressAsText()))) ?? '';
    if (!this.#isTrusting || forwardedFor === '' || !this.#trusts(from)) return { from };
    const client = this.#clientOf(forwardedFor);
    return client === undefined ? { from } : { from: client, via: from };
  }

  /** From the right. An entry that is no address ends the walk: no trusted proxy wrote it, or it knew no better. */
  #clientOf(forwardedFor: string): string | undefined {
    let client: string | undefined;
    let end = forwardedFor.length;
    for (let hop = 0; hop < HOPS_MAX && end >= 0; hop++) {
      const comma = end === 0 ? -1 : forwardedFor.lastIndexOf(',', end - 1);
      const address = addressIn(forwardedFor.slice(comma + 1, end));
      if (address === undefined) return client;
      client = address;
      if (!this.#trusts(address)) return client;
      end = comma;
    }
    return client;
  }

  #trusts(address: string): boolean {
    if (address === '') return false;
    return this.#trusted.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  }
}

/** Some proxies add the port, and then brackets to addresses of version 6. */
const WRITTEN = /^(?:\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?|(\d+\.\d+\.\d+\.\d+):\d{1,5}|([0-9A-Fa-f:.]+))$/;
const ADDRESS_CHARS_MAX = 64;

function addressIn(entry: string): string | undefined {
  if (entry.length > ADDRESS_CHARS_MAX) return undefined;
  const match = WRITTEN.exec(entry.trim());
  return canonical(match?.[1] ?? match?.[2] ?? match?.[3] ?? '');
}

const MAPPED = '::ffff:';

/** One spelling for each address; IPv4 as such, also where it came in one of version 6. */
function canonical(address: string): string | undefined {
  const family = isIP(address);
  if (family === 0) return undefined;
  if (family === 4) return address;
  const shortest = new SocketAddress({ address, family: 'ipv6' }).address;
  const mapped = shortest.slice(MAPPED.length);
  return shortest.startsWith(MAPPED) && isIP(mapped) === 4 ? mapped : shortest;
}
