/**
 * Which webhook URLs a node may call (protocol 6.2, 12.8): https to public addresses. The resolved address is checked
 * again when the socket connects, because a name may be public when the subscription is created and private when it is
 * called.
 */
import { BlockList, type LookupFunction, isIP } from 'node:net';
import { type LookupAddress, Resolver } from 'node:dns';

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/**
 * Networks that IANA lists as not globally reachable. Two lists: in one, a rule for
 * IPv6 could also hold for mapped IPv4 addresses.
 */
const NOT_PUBLIC_V4 = new BlockList();
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  NOT_PUBLIC_V4.addSubnet(network, prefix, 'ipv4');
}
const NOT_PUBLIC_V6 = new BlockList();
for (const [network, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  // IPv4 addresses embedded in IPv6, including private ones.
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  NOT_PUBLIC_V6.addSubnet(network, prefix, 'ipv6');
}
/** Everything else is not a globally reachable unicast address. */
const GLOBAL_V6 = new BlockList();
GLOBAL_V6.addSubnet('2000::', 3, 'ipv6');

export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !NOT_PUBLIC_V4.check(address, 'ipv4');
  return family === 6 && GLOBAL_V6.check(address, 'ipv6') && !NOT_PUBLIC_V6.check(address, 'ipv6');
}

function isLoopbackAddress(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && LOOPBACK.check(address, family === 4 ? 'ipv4' : 'ipv6');
}

export type WebhookTarget =
  | {
      readonly ok: true;
      readonly url: URL;
      /** Whether the socket may connect there. */
      readonly mayConnect: (address: string) => boolean;
    }
  | { readonly ok: false; readonly reason: string };

export interface WebhookRules {
  /** Otherwise none is called. */
  readonly enabled: boolean;
  /** Receivers at localhost and 127.0.0.x, http too, for development. */
  readonly allowLocal: boolean;
}

const LOCAL_HINT =
  '; for receivers on localhost while you develop, the server needs subscriptions.local_webhooks = true';

export function webhookTarget(text: string, { enabled, allowLocal }: WebhookRules): WebhookTarget {
  const refused = (reason: string): WebhookTarget => ({ ok: false, reason: `webhook.url ${reason}` });
  if (!enabled) return refused('is not called by this server: subscriptions.webhooks is off');
  if (!URL.canParse(text)) return refused('must be an absolute URL');
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') return refused('must not hold credentials');
  const host = url.hostname.replace(/^\[|\]$/g, '').toLowerCase();
  const isSecure = url.protocol === 'https:';
  if (!isSecure && (url.protocol !== 'http:' || !allowLocal)) {
    return refused(`must use https${allowLocal ? '' : LOCAL_HINT}`);
  }
  if (allowLocal && (host === 'localhost' || (isIP(host) === 4 && isLoopbackAddress(host)))) {
    return { ok: true, url, mayConnect: isLoopbackAddress };
  }
  if (!isSecure) return refused('must use https; http is for localhost and 127.0.0.x alone');
  const isLocalName = /(^|\.)(localhost|local|internal|home\.arpa)\.?$/.test(host);
  if (isLocalName || (isIP(host) !== 0 && !isPublicAddress(host))) {
    const hint = allowLocal ? '' : LOCAL_HINT;
    return refused(`must not target a private, link-local or loopback host${hint}`);
  }
  return { ok: true, url, mayConnect: isPublicAddress };
}

/** Delay before a server is asked once more; the delivery has its own time limit. */
const TIMEOUT_MS = 3000;
const TRIES = 2;

export type Resolve = (hostname: string, done: (error: Error | null, addresses: LookupAddress[]) => void) => void;

/**
 * Resolves names without getaddrinfo, which blocks a thread of the pool in which LMDB commits: four names with
 * unresponsive servers would stop the whole node. Queries use a socket; /etc/hosts is ignored. `servers` replaces those
 * of the system.
 */
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

const systemNames = resolving();

/** For the socket: returns only addresses that may be connected to, so the checked one is used. Fails without any. */
export function guardedLookup(
  mayConnect: (address: string) => boolean,
  resolve: Resolve = systemNames,
): LookupFunction {
  return (hostname, { all }, callback) => {
    resolve(hostname, (error, addresses) => {
      if (error !== null) return callback(error, '', 0);
      const allowed = addresses.filter(({ address }) => mayConnect(address));
      const [first] = allowed;
      if (first === undefined) return callback(new Error(`${hostname} resolves to no public address`), '', 0);
      if (all === true) return callback(null, allowed);
      return callback(null, first.address, first.family);
    });
  };
}
