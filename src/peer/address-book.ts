/**
 * Addresses of the other nodes, from three sources: the configuration file; the groups' configurations, for nodes that
 * joined while the cluster ran; and the nodes themselves, while they are connected to us. The last one helps a node
 * that was away, or lost its disk, while another node joined that leads now: it could not even tell that leader what it
 * lacks.
 */
import { type Address, formatAddress, parseAddress } from '../base/address.ts';
import { decodeUtf8Strict } from '../base/utf8.ts';
import type { Session } from './listener.ts';
import type { PeerAddress } from './routes.ts';

interface Guest {
  address: Address;
  readonly sessions: Set<Session>;
}

export class AddressBook {
  #configured: readonly PeerAddress[] = [];
  #joined: readonly PeerAddress[] = [];
  readonly #guests = new Map<number, Guest>();

  /** Each node once. The file takes precedence, and what the node itself reports comes last. */
  get peers(): readonly PeerAddress[] {
    const guests = [...this.#guests].map(([node, { address }]) => ({ node, address }));
    const all = [...guests, ...this.#joined, ...this.#configured];
    return [...new Map(all.map((peer) => [peer.node, peer])).values()];
  }

  configure(peers: readonly PeerAddress[]): void {
    this.#configured = peers;
  }

  join(addresses: ReadonlyMap<number, string>): void {
    this.#joined = [...addresses].flatMap(([node, written]) => {
      const address = parseAddress(written);
      return address === undefined ? [] : [{ node, address }];
    });
  }

  /** Stores the address that a node reports with a ping. False: nothing new, or not an address. */
  introduce(session: Session, bytes: Uint8Array): boolean {
    const address = parseAddress(decodeUtf8Strict(bytes));
    if (address === undefined) return false;
    const { node } = session.peer;
    const guest = this.#guests.get(node);
    if (guest === undefined) {
      this.#guests.set(node, { address, sessions: new Set([session]) });
      return true;
    }
    guest.sessions.add(session);
    const isNew = formatAddress(guest.address) !== formatAddress(address);
    guest.address = address;
    return isNew;
  }

  /** True when this was the last session of a node that reported its address. */
  leave(session: Session): boolean {
    const guest = this.#guests.get(session.peer.node);
    if (guest?.sessions.delete(session) !== true || guest.sessions.size > 0) return false;
    return this.#guests.delete(session.peer.node);
  }
}
