/**
 * Resolves names for webhooks without getaddrinfo, which blocks a thread of the pool in which LMDB commits: four names
 * with unresponsive servers would stop the whole node. Queries use a socket; /etc/hosts is ignored.
 */
import { type LookupAddress, Resolver } from 'node:dns';
import { isIP } from 'node:net';

/** Delay before a server is asked once more; the delivery has its own time limit. */
const TIMEOUT_MS = 3000;
const TRIES = 2;

export type Resolve = (hostname: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void;

/** `servers` replaces those of the system. */
export function resolving(servers?: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  return (hostname, done) => {
    // Node does not resolve addresses, but this is not documented.
    const family = isIP(hostname);
    if (family !== 0) return done(null, [{ address: hostname, family }]);
    if (hostname === 'localhost') {
      return done(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '::1', family: 6 },
      ]);
    }
    const found: LookupAddress[] = [];
    let left = 2;
    const answered = (error: Error | null, addresses: readonly string[] | undefined, of: 4 | 6): void => {
      // A host of one family has no addresses of the other, which the resolver reports as an error.
      for (const address of addresses ?? []) found.push({ address, family: of });
      if (--left > 0) return;
      if (found.length > 0) done(null, found);
      else done(error ?? new Error(`${hostname} has no address`), []);
    };
    resolver.resolve4(hostname, (error, addresses) => answered(error, addresses, 4));
    resolver.resolve6(hostname, (error, addresses) => answered(error, addresses, 6));
  };
}
