/**
 * How many connections there may be: in all, and from one address. One too many is closed as soon as it is accepted.
 * Left in the kernel's queue, which looks kinder, it would keep the listening socket ready: at the limit of open files
 * the library tries to accept it again and again, with all of a core.
 */
import { readFileSync } from 'node:fs';
import { decodeUtf8 } from '../base/utf8.ts';

/** Operators, their tools and monitoring; counted apart from clients, which must not lock operators out. */
export const ADMIN_CONNECTIONS_MAX = 64;
/** Probes need no token, so one host could keep all of them. */
export const ADMIN_CONNECTIONS_PER_ADDRESS_MAX = ADMIN_CONNECTIONS_MAX / 2;
const LOG_PAUSE_MS = 10_000;

export interface ConnectionBounds {
  readonly all: number;
  readonly perAddress: number;
}

/** A new connection, as the HTTP library hands it over. */
interface Arrival {
  getRemoteAddress(): ArrayBuffer;
  getRemoteAddressAsText(): ArrayBuffer;
  close(): unknown;
}

export interface ConnectionEdge {
  monotonicMs(): number;
  warn(fields: Readonly<Record<string, unknown>>, message: string): void;
  /** Connections to a port of this host, by address. */
  connectionsTo(port: number): ReturnType<CountByAddress>;
}

export class PlaneConnections {
  open = 0;
  refused = 0;
  refusedByAddress = 0;
  /** Where the plane listens. */
  port = 0;
  readonly bounds: ConnectionBounds;
  readonly #plane: string;
  readonly #edge: ConnectionEdge;
  readonly #addresses: AddressCount | undefined;
  #nextLogMs = -Infinity;
  #unsaid = 0;

  constructor(plane: string, bounds: ConnectionBounds, edge: ConnectionEdge) {
    this.#plane = plane;
    this.bounds = bounds;
    this.#edge = edge;
    if (bounds.perAddress < bounds.all) {
      const recount = (): ReturnType<CountByAddress> => edge.connectionsTo(this.port);
      this.#addresses = new AddressCount(bounds.perAddress, recount, () => edge.monotonicMs());
    }
  }

  /** One came (1) or went (-1). */
  changed(res: Arrival, by: number): void {
    if (by < 0) return this.left();
    this.open += by;
    const isFew = this.#addresses?.arrive(nameOfBytes(new Uint8Array(res.getRemoteAddress()))) ?? true;
    if (this.open > this.bounds.all) this.#refuse(res, 'all');
    else if (!isFew) this.#refuse(res, 'perAddress');
  }

  /** One went. */
  left(): void {
    this.open--;
    this.#addresses?.leave();
  }

  #refuse(res: Arrival, bound: keyof ConnectionBounds): void {
    const from = decodeUtf8(new Uint8Array(res.getRemoteAddressAsText()));
    if (bound === 'all') this.refused++;
    else this.refusedByAddress++;
    this.#unsaid++;
    this.#say(bound, from);
    res.close();
  }

  #say(bound: keyof ConnectionBounds, address: string): void {
    const clockMs = this.#edge.monotonicMs();
    if (clockMs < this.#nextLogMs) return;
    this.#nextLogMs = clockMs + LOG_PAUSE_MS;
    const key = bound === 'all' ? 'server.max_connections' : 'server.max_connections_per_address';
    const setting = this.#plane === 'client' ? { bound: key } : {};
    const fields = { plane: this.#plane, ...setting, limit: this.bounds[bound], open: this.open, closed: this.#unsaid };
    this.#unsaid = 0;
    this.#edge.warn({ ...fields, last_address: address }, 'connections beyond a bound are closed as they come');
  }
}

export class Connections {
  readonly client: PlaneConnections;
  readonly admin: PlaneConnections;

  constructor(bounds: ConnectionBounds, edge: ConnectionEdge) {
    this.client = new PlaneConnections('client', bounds, edge);
    const ofAdmin = { all: ADMIN_CONNECTIONS_MAX, perAddress: ADMIN_CONNECTIONS_PER_ADDRESS_MAX };
    this.admin = new PlaneConnections('admin', ofAdmin, edge);
  }

  metrics(): Record<string, number> {
    const { client, admin } = this;
    return {
      http_connections: client.open,
      http_connections_max: client.bounds.all,
      http_connections_per_address_max: client.bounds.perAddress,
      http_connections_refused: client.refused,
      http_connections_refused_per_address: client.refusedByAddress,
      admin_connections: admin.open,
      admin_connections_refused: admin.refused + admin.refusedByAddress,
    };
  }
}

/**
 * How many connections each address has. The library names the address of a new connection, but not of one that has
 * closed. So each number has two bounds: all that came since the last count, and that less all that left, from any
 * address. Only when the limit lies between the two is the kernel's table read, and counting starts over.
 */

/** Reading 10,000 rows takes some 10 ms of the HTTP thread; this often that is one percent. */
const RECOUNT_PAUSE_MS = 1000;
/** A count that takes long is repeated less often: counting takes at most a twentieth of the thread. */
const RECOUNT_SHARE = 20;
/** Addresses that are remembered although they may have left, about 100 bytes each. */
const ADDRESSES_MAX = 100_000;

/** Connections by address, as the kernel has them now; undefined where it does not tell. */
export type CountByAddress = () => ReadonlyMap<string, number> | undefined;

export class AddressCount {
  readonly #limit: number;
  readonly #recount: CountByAddress;
  readonly #monotonicMs: () => number;
  /** Since the last count, those that it found included. */
  #arrived = new Map<string, number>();
  #left = 0;
  #nextRecountMs = -Infinity;

  constructor(limit: number, recount: CountByAddress, monotonicMs: () => number) {
    this.#limit = limit;
    this.#recount = recount;
    this.#monotonicMs = monotonicMs;
  }

  /** A connection is there. False: its address has more than the limit. */
  arrive(address: string): boolean {
    if (this.#arrived.size >= ADDRESSES_MAX) this.#countAnew(new Map());
    const most = (this.#arrived.get(address) ?? 0) + 1;
    this.#arrived.set(address, most);
    if (most <= this.#limit) return true;
    if (most - this.#left > this.#limit) return false;
    const clockMs = this.#monotonicMs();
    // Unknown: better one connection too many than a client locked out by mistake.
    if (clockMs < this.#nextRecountMs) return true;
    this.#countAnew(this.#arrived);
    const tookMs = this.#monotonicMs() - clockMs;
    this.#nextRecountMs = clockMs + Math.max(RECOUNT_PAUSE_MS, RECOUNT_SHARE * tookMs);
    return (this.#arrived.get(address) ?? 0) <= this.#limit;
  }

  leave(): void {
    this.#left++;
  }

  #countAnew(otherwise: Map<string, number>): void {
    const counted = this.#recount();
    if (counted !== undefined) this.#left = 0;
    this.#arrived = counted === undefined ? otherwise : new Map(counted);
  }
}

/** The states in which this process holds the descriptor: ESTABLISHED, and CLOSE_WAIT, which waits for it. */
const HELD: ReadonlySet<string> = new Set(['01', '08']);
const MAPPED = '0000000000000000FFFF0000';

/** Undefined where there is no such table. */
export function connectionsTo(port: number): ReadonlyMap<string, number> | undefined {
  const counts = new Map<string, number>();
  let isKnown = false;
  for (const path of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    let text: string;
    try {
      text = readFileSync(path, 'latin1');
    } catch {
      continue;
    }
    isKnown = true;
    count(text, port.toString(16).toUpperCase().padStart(4, '0'), counts);
  }
  return isKnown ? counts : undefined;
}

/** `   1: 0100007F:1155 0100007F:C350 01 ...`, addresses as words in the order of this machine. @internal */
export function count(table: string, port: string, counts: Map<string, number>): void {
  for (const line of table.split('\n')) {
    const [, local, remote, state] = line.trim().split(/\s+/, 4);
    if (local === undefined || remote === undefined || state === undefined || !HELD.has(state)) continue;
    if (!local.endsWith(`:${port}`)) continue;
    const name = nameOf(remote.slice(0, remote.indexOf(':')));
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
}

/** The same name for 4 or 16 bytes as the library hands them over. */
export function nameOfBytes(bytes: Uint8Array): string {
  let words = '';
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    for (let i = 3; i >= 0; i--) words += (bytes[at + i] ?? 0).toString(16).toUpperCase().padStart(2, '0');
  }
  return nameOf(words);
}

/** An IPv4 address however it is written; of IPv6 the /64, because one host has all of it. */
function nameOf(words: string): string {
  if (words.length === 8) return words;
  return words.startsWith(MAPPED) ? words.slice(MAPPED.length) : words.slice(0, 16);
}
