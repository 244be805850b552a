/**
 * Names to addresses for webhooks, not by getaddrinfo: that one holds a thread of the pool in which LMDB commits, so four names
 * whose servers do not answer would stop the whole node. These are questions on a socket; /etc/hosts is not looked at.
 */
import { type LookupAddress, Resolver } from 'node:dns';
import { isIP } from 'node:net';

/** A server that is asked once more after so long; the delivery ends earlier or later by itself. */
const TIMEOUT_MS = 3000;
const TRIES = 2;

export type Resolve = (hostname: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void;

/** `servers`: instead of those of the system. */
export function resolving(servers?: readonly string[]): Resolve {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  return (hostname, done) => {
    // Node asks for no name that is an address already, but who knows.
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
      // A host of one family has no addresses of the other, which is an error of its own.
      for (const address of addresses ?? []) found.push({ address, family: of });
      if (--left > 0) return;
      if (found.length > 0) done(null, found);
      else done(error ?? new Error(`${hostname} has no address`), []);
    };
    resolver.resolve4(hostname, (error, addresses) => answered(error, addresses, 4));
    resolver.resolve6(hostname, (error, addresses) => answered(error, addresses, 6));
  };
}
