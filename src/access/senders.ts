/**
 * The address from which a request comes. A proxy puts the address of its client into X-Forwarded-For or Forwarded, and so
 * may any stranger: a header counts only when the connection comes from a proxy that is trusted, and only as far as trusted
 * proxies wrote it. They append, so what counts is the last address that is not one of theirs. Proxies write one of the
 * two headers, and pass on what their client wrote into the other: two that differ are both not believed.
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

/** Each with its lines joined by commas; empty: none came. */
export interface ForwardedHeaders {
  /** X-Forwarded-For. */
  readonly forwardedFor?: string;
  readonly forwarded?: string;
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

  senderOf(peer: Connected, { forwardedFor = '', forwarded = '' }: ForwardedHeaders): SenderAddress {
    const from = canonical(decodeUtf8(new Uint8Array(peer.getRemoteAddressAsText()))) ?? '';
    if (!this.#isTrusting || `${forwardedFor}${forwarded}` === '' || !this.#trusts(from)) return { from };
    const clients = new Set<string | undefined>();
    if (forwardedFor !== '') clients.add(this.#clientOf(entriesOf(forwardedFor)));
    if (forwarded !== '') clients.add(this.#clientOf(forwardedNodes(forwarded)));
    const [client] = clients;
    return client === undefined || clients.size > 1 ? { from } : { from: client, via: from };
  }

  /** From the last one. What is no address ends the walk: no trusted proxy wrote it, or it knew no better, or hides it. */
  #clientOf(entries: Iterable<string>): string | undefined {
    let client: string | undefined;
    let hop = 0;
    for (const entry of entries) {
      const address = hop++ < HOPS_MAX ? addressIn(entry) : undefined;
      if (address === undefined) return client;
      client = address;
      if (!this.#trusts(address)) return client;
    }
    return client;
  }

  #trusts(address: string): boolean {
    if (address === '') return false;
    return this.#trusted.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  }
}

/** Those of X-Forwarded-For, the last one first. */
function* entriesOf(forwardedFor: string): Generator<string> {
  for (let end = forwardedFor.length; end >= 0;) {
    const comma = end === 0 ? -1 : forwardedFor.lastIndexOf(',', end - 1);
    yield forwardedFor.slice(comma + 1, end);
    end = comma;
  }
}

/** Longer than any row of proxies writes. */
const FORWARDED_CHARS_MAX = 4096;

const TOKEN = String.raw`[!#$%&'*+.^_\x60|~\w-]+`;
/**
 * A parameter or nothing, and what ends it: `;` goes on with the element, `,` with the next one. Blanks belong to one
 * part alone: a stranger's row of them that could be split anywhere would take the thread for milliseconds.
 */
const PARAMETER = String.raw`[ \t]*(?:(${TOKEN})=(?:(${TOKEN})|"((?:[^"\\]|\\.)*)")[ \t]*)?([;,]|$)`;

/**
 * The `for` of each element, the last proxy's first; empty where it has none. A header that is malformed anywhere says
 * nothing: a text that begins in the part of a stranger may end in that of a proxy, and only from the header's beginning
 * can quotes be told.
 */
function forwardedNodes(header: string): readonly string[] {
  if (header.length > FORWARDED_CHARS_MAX) return [];
  const nodes: string[] = [];
  let node: string | undefined;
  const parameter = new RegExp(PARAMETER, 'y');
  for (;;) {
    const match = parameter.exec(header);
    if (match === null) return [];
    const [, name, token, quoted, end] = match;
    if (name?.toLowerCase() === 'for') {
      if (node !== undefined) return [];
      node = token ?? quoted?.replaceAll(/\\(.)/g, '$1') ?? '';
    }
    if (end === ';') continue;
    nodes.unshift(node ?? '');
    node = undefined;
    if (end === '') return nodes;
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
