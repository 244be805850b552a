/**
 * What web pages may do, decided by headers alone, before a route or a body is looked at. A page cannot set or leave out any of
 * these headers: Host, Origin (on every request that changes something, and on all that cross origins with CORS), Sec-Fetch-Site
 * (browsers since 2023, where the address is https or loopback), Referer (older ones, unless the page leaves it out).
 */
import type { ErrorCode } from '../base/errors.ts';
import type { CorsPolicy } from './cors.ts';
import { KnownHosts, type PlaneHosts, isLoopbackHost } from './known-hosts.ts';
import type { WriteHeaders } from './headers.ts';
import type { UwsRequest } from './uws.ts';

export interface GateRefusal {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** What the walk over the headers found. */
export interface Knock extends Pick<WriteHeaders, 'host' | 'origin' | 'site' | 'referer'> {}

/** Each look at the URL is a call into native code, which only the probes and refusals need. */
export type Target = Pick<UwsRequest, 'getUrl'>;

export interface Gate {
  /** `authorized`: the request carries the plane's bearer token, which a page of somebody else cannot know. */
  refuses(knock: Knock, target: Target, method: string, authorized: boolean): GateRefusal | undefined;
}

/** They change nothing; what they answer a page of another origin cannot read. */
function isSafe(method: string): boolean {
  return method === 'get' || method === 'head' || method === 'options';
}
/** Asked by load balancers, under any name; they tell nothing but that the process is there. */
export const PROBES: ReadonlySet<string> = new Set(['/__svc/health', '/__svc/ready']);
const SHOWN_CHARS_MAX = 80;

/**
 * Operators come with tools, not with pages: whatever crosses sites is refused, with a token too. A change is taken from a browser
 * only when it says that it comes from the same origin.
 */
export class AdminGate implements Gate {
  readonly #hosts: KnownHosts;

  constructor(hosts: PlaneHosts) {
    this.#hosts = new KnownHosts(hosts);
  }

  refuses(
    { host = '', origin, site, referer }: Knock,
    target: Target,
    method: string,
    authorized: boolean,
  ): GateRefusal | undefined {
    if (origin !== '' && !isOriginOf(origin, host)) return foreign(origin, 'the admin plane serves no web pages');
    if (site !== '' && site !== 'same-origin' && !(site === 'none' && isSafe(method))) {
      return foreign(site, 'the admin plane serves no web pages');
    }
    if (!isSafe(method) && origin === '' && site === '' && referer !== '' && !isBelow(referer, host)) {
      return foreign(referer, 'the admin plane serves no web pages');
    }
    if (authorized || this.#hosts.has(host) || PROBES.has(target.getUrl())) return undefined;
    return misdirected(host, 'server.admin_hosts');
  }
}

export interface ClientGateOptions {
  readonly hosts: PlaneHosts;
  readonly cors: CorsPolicy;
  /** The plane asks for a token. */
  readonly hasToken: boolean;
}

/** Pages of the origins that CORS lets read may also write; pages of others may not. */
export class ClientGate implements Gate {
  readonly #hosts: KnownHosts;
  readonly #cors: CorsPolicy;
  /** Only clients of this host, or of the names that are listed, have any business here. */
  readonly #isStrict: boolean;
  /** A name that is not known may be that of a page. */
  readonly #trustsHost: boolean;

  constructor({ hosts, cors, hasToken }: ClientGateOptions) {
    this.#hosts = new KnownHosts(hosts);
    this.#cors = cors;
    this.#isStrict = !hasToken && (isLoopbackHost(hosts.listen) || hosts.names.length > 0);
    this.#trustsHost = hasToken;
  }

  refuses({ host = '', origin, site }: Knock, target: Target, method: string): GateRefusal | undefined {
    if (this.#cors.allowsAny) return undefined;
    if (this.#isStrict && !this.#hosts.has(host) && !PROBES.has(target.getUrl()))
      return misdirected(host, 'server.hosts');
    if (isSafe(method)) return undefined;
    if (origin === '') {
      return site === '' || site === 'same-origin' ? undefined : foreign(site, 'see http.cors_origins');
    }
    if (this.#cors.allows(origin)) return undefined;
    if (isOriginOf(origin, host) && (this.#trustsHost || this.#hosts.has(host))) return undefined;
    return foreign(origin, 'see http.cors_origins');
  }
}

/** Whether the page came from where it sends its request; TLS may end in front of this node, so the scheme says nothing. */
function isOriginOf(origin: string, host: string): boolean {
  const authority = /^https?:\/\/([^/]+)$/.exec(origin)?.[1];
  return authority !== undefined && authority.toLowerCase() === host.toLowerCase();
}

function isBelow(url: string, host: string): boolean {
  const authority = /^https?:\/\/([^/?#]+)/.exec(url)?.[1];
  return authority !== undefined && authority.toLowerCase() === host.toLowerCase();
}

function foreign(from: string, hint: string): GateRefusal {
  return { code: 'ORIGIN_NOT_ALLOWED', detail: `${shown(from)}; ${hint}` };
}

function misdirected(host: string, key: string): GateRefusal {
  return { code: 'HOST_NOT_ALLOWED', detail: `${shown(host)}; if it is a name of this node, add it to ${key}` };
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARS_MAX));
}
