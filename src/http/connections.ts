/**
 * How many connections there may be: in all, and from one address. One too many is closed as soon as it is accepted. Left in the
 * kernel's queue, which looks kinder, it would keep the listening socket ready: at the limit of open files the library
 * tries to accept it again and again, with all of a core.
 */
import { decodeUtf8 } from '../base/utf8.ts';
import { AddressCount, type CountByAddress, nameOfBytes } from './address-count.ts';
import type { UwsResponse } from './uws.ts';

/** Operators, their tools and what watches the node; apart from the clients', who must not shut them out. */
export const ADMIN_CONNECTIONS_MAX = 64;
const LOG_PAUSE_MS = 10_000;

export interface ConnectionBounds {
  readonly all: number;
  readonly perAddress: number;
}

/** What the library hands over of a connection. */
type Arrival = Pick<UwsResponse, 'getRemoteAddress' | 'getRemoteAddressAsText' | 'close'>;

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
    this.open += by;
    if (by < 0) {
      this.#addresses?.leave();
      return;
    }
    const isFew = this.#addresses?.arrive(nameOfBytes(new Uint8Array(res.getRemoteAddress()))) ?? true;
    if (this.open > this.bounds.all) this.#refuse(res, 'all');
    else if (!isFew) this.#refuse(res, 'perAddress');
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
    const fields = { plane: this.#plane, bound: key, limit: this.bounds[bound], open: this.open, closed: this.#unsaid };
    this.#unsaid = 0;
    this.#edge.warn({ ...fields, last_address: address }, 'connections beyond a bound are closed as they come');
  }
}

export class Connections {
  readonly client: PlaneConnections;
  readonly admin: PlaneConnections;

  constructor(bounds: ConnectionBounds, edge: ConnectionEdge) {
    this.client = new PlaneConnections('client', bounds, edge);
    this.admin = new PlaneConnections('admin', { all: ADMIN_CONNECTIONS_MAX, perAddress: ADMIN_CONNECTIONS_MAX }, edge);
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
      admin_connections_refused: admin.refused,
    };
  }
}
