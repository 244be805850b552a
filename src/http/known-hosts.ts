/**
 * Under which names a plane answers. A web page can give its own name the address of this node (DNS rebinding), and is of the
 * same origin then: only the Host header, which holds the page's name, tells it from a client.
 */

/** Addresses cannot be rebound. The Host header puts those of version 6 in brackets. */
const IP_LITERAL = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:.]*:[0-9a-f:.]*)$/;
const LOOPBACK_V4 = /^127(?:\.\d{1,3}){3}$/;
const LOOPBACK_ORIGIN = /^https?:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/;
const WILDCARDS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** Where a plane listens, and its further names; without ports and brackets. */
export interface PlaneHosts {
  readonly listen: string;
  readonly names: readonly string[];
}

export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || LOOPBACK_V4.test(host);
}

/** A page of this host's loopback, as an Origin header writes it. */
export function isLoopbackOrigin(origin: string): boolean {
  return LOOPBACK_ORIGIN.test(origin);
}

export class KnownHosts {
  readonly #names: ReadonlySet<string>;
  readonly #isWildcard: boolean;
  /** Clients of one kind send the same Host again and again. */
  #last = '';

  constructor({ listen, names }: PlaneHosts) {
    this.#names = new Set([listen.toLowerCase(), ...names]);
    // Which addresses such a plane has may change at any time.
    this.#isWildcard = WILDCARDS.has(listen);
  }

  /** `header`: the Host header. Its port says nothing: tunnels and proxies have others. */
  has(header: string): boolean {
    if (header === this.#last && header !== '') return true;
    const host = hostOf(header);
    const known = isLoopbackHost(host) || this.#names.has(host) || (this.#isWildcard && IP_LITERAL.test(host));
    if (known) this.#last = header;
    return known;
  }
}

/** Of a Host header, in small letters; empty when it is none. */
function hostOf(header: string): string {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]+))(?::\d{0,5})?$/.exec(header);
  return (match?.[1] ?? match?.[2] ?? '').toLowerCase().replace(/\.$/, '');
}
