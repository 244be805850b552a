/**
 * A request must bring two things before its plane looks at it: nothing that a web page
 * elsewhere could send, and the plane's bearer token.
 *
 * The rights of web pages are decided by headers alone, before a route or a body is looked at. A page cannot
 * set or leave out any of these headers: Host, Origin (on every request that changes something, and on all
 * that cross origins with CORS), Sec-Fetch-Site (browsers since 2023, where the address is https or
 * loopback), Referer (older ones, unless the page leaves it out).
 */
import { timingSafeEqual } from 'node:crypto';
import { isLoopback } from '../base/address.ts';
import type { RefusalReason } from '../base/errors.ts';
import type { CorsPolicy } from './cors.ts';
import type { FailedTokens } from './failed-tokens.ts';
import type { Grant } from './scopes.ts';
import type { Connected, ForwardedHeaders } from './senders.ts';
import { RememberedGrants, headerOf, type TokenBook, type TokenFault } from './token-book.ts';
import { type CredentialFault, type RefusedTokens, countedAs, faultRefusal } from './token-faults.ts';

/** The headers that say who sends a request; empty, or undefined, when they were not sent. */
interface SenderHeaders extends ForwardedHeaders {
  readonly host: string | undefined;
  readonly origin: string;
  /** Sec-Fetch-Site. */
  readonly site: string;
  readonly referer: string;
  readonly authorization: string;
}

type TokenHeaders = Pick<SenderHeaders, 'authorization' | keyof ForwardedHeaders>;

/** Each look at the URL is a call into native code: for probes, refusals, and reads where URLs may hold tokens. */
interface UrlSource {
  getUrl(): string;
  getQuery(): string | undefined;
}

/** The users of a route: senders with the plane's token; all; all, under any name of the host, as load balancers do. */
export type Access = 'token' | 'open' | 'probe';

/** Where a plane listens, and its further names; without ports and brackets. */
export interface PlaneHosts {
  readonly listen: string;
  readonly names: readonly string[];
}

/** The table of routes, as far as it says who may use a path (http/router.ts). */
export interface RouteAccess {
  access(url: string, method: string): Access;
}

/** `authorized`: the request carries a bearer token of the plane, which a foreign page cannot know. */
export type Sender = 'authorized' | 'unknown';

export interface AdmissionPolicy {
  refuses(headers: SenderHeaders, target: UrlSource, method: string, sender: Sender): RefusalReason | undefined;
}

/** Safe methods change nothing, and a page of another origin cannot read what they answer. */
function isSafe(method: string): boolean {
  return method === 'get' || method === 'head' || method === 'options';
}

/** Load balancers ask these under any name; they tell nothing but that the process is there. */
function isProbe(routes: RouteAccess, target: UrlSource): boolean {
  return routes.access(target.getUrl(), 'get') === 'probe';
}

const SHOWN_CHARS_MAX = 80;

const ONLY_OWN_PAGE = 'the admin plane takes requests of its own page only';

/**
 * Operators use tools and this plane's own page: every cross-site request is refused, with a token too. A change is
 * taken from a browser only when it says that it comes from the same origin.
 */
export class AdminPolicy implements AdmissionPolicy {
  readonly #hosts: KnownHosts;
  readonly #routes: RouteAccess;

  constructor(hosts: PlaneHosts, routes: RouteAccess) {
    this.#hosts = new KnownHosts(hosts);
    this.#routes = routes;
  }

  refuses(
    { host = '', origin, site, referer }: SenderHeaders,
    target: UrlSource,
    method: string,
    sender: Sender,
  ): RefusalReason | undefined {
    if (origin !== '' && !isOriginOf(origin, host)) return foreign(origin, ONLY_OWN_PAGE);
    if (site !== '' && site !== 'same-origin' && !(site === 'none' && isSafe(method))) {
      return foreign(site, ONLY_OWN_PAGE);
    }
    if (!isSafe(method) && origin === '' && site === '' && referer !== '' && !isBelow(referer, host)) {
      return foreign(referer, ONLY_OWN_PAGE);
    }
    if (sender === 'authorized' || this.#hosts.has(host) || isProbe(this.#routes, target)) return undefined;
    return misdirected(host, 'server.admin_hosts');
  }
}

export interface ClientPolicyOptions {
  readonly hosts: PlaneHosts;
  readonly cors: CorsPolicy;
  /** The plane asks for a token. */
  readonly hasToken: boolean;
  readonly routes: RouteAccess;
}

/** Pages of the origins that CORS lets read may also write; pages of others may not. */
export class ClientPolicy implements AdmissionPolicy {
  readonly #hosts: KnownHosts;
  readonly #cors: CorsPolicy;
  readonly #routes: RouteAccess;
  /** Only clients of this host, or of the names that are listed, are served. */
  readonly #isStrict: boolean;
  /** A name that is not known may be that of a page. */
  readonly #trustsHost: boolean;

  constructor({ hosts, cors, hasToken, routes }: ClientPolicyOptions) {
    this.#hosts = new KnownHosts(hosts);
    this.#cors = cors;
    this.#routes = routes;
    this.#isStrict = !hasToken && (isLoopback(hosts.listen) || hosts.names.length > 0);
    this.#trustsHost = hasToken;
  }

  refuses({ host = '', origin, site }: SenderHeaders, target: UrlSource, method: string): RefusalReason | undefined {
    if (this.#cors.allowsAny) return undefined;
    if (this.#isStrict && !this.#hosts.has(host) && !isProbe(this.#routes, target)) {
      return misdirected(host, 'server.hosts');
    }
    if (isSafe(method)) return undefined;
    if (origin === '') {
      return site === '' || site === 'same-origin' ? undefined : foreign(site, 'see http.cors_origins');
    }
    if (this.#cors.allows(origin)) return undefined;
    if (isOriginOf(origin, host) && (this.#trustsHost || this.#hosts.has(host))) return undefined;
    return foreign(origin, 'see http.cors_origins');
  }
}

/** Whether the page came from where it sends its request; TLS may end in front of this node, so schemes say nothing. */
function isOriginOf(origin: string, host: string): boolean {
  const authority = /^https?:\/\/([^/]+)$/.exec(origin)?.[1];
  return authority !== undefined && authority.toLowerCase() === host.toLowerCase();
}

function isBelow(url: string, host: string): boolean {
  const authority = /^https?:\/\/([^/?#]+)/.exec(url)?.[1];
  return authority !== undefined && authority.toLowerCase() === host.toLowerCase();
}

function foreign(from: string, hint: string): RefusalReason {
  return { code: 'ORIGIN_NOT_ALLOWED', detail: `${shown(from)}; ${hint}` };
}

function misdirected(host: string, key: string): RefusalReason {
  return { code: 'HOST_NOT_ALLOWED', detail: `${shown(host)}; if it is a name of this node, add it to ${key}` };
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARS_MAX));
}

const SCHEME = 'bearer ';

function isBearer(authorization: string): boolean {
  return authorization.slice(0, SCHEME.length).toLowerCase() === SCHEME;
}

function bearerOf(authorization: string): string {
  return authorization.slice(SCHEME.length).trim();
}

/** Does the Authorization header carry the token? The time taken depends only on the length of what was sent. */
export function isAuthorized(authorization: string, token: string): boolean {
  if (token === '') return true;
  if (!isBearer(authorization)) return false;
  const sent = Buffer.from(bearerOf(authorization), 'utf8');
  const right = Buffer.from(token, 'utf8');
  // Both have the same length, so that a comparison takes place in either case.
  return sent.length === right.length ? timingSafeEqual(sent, right) : !timingSafeEqual(right, right);
}

/**
 * The rights with which a request comes: of a plane that asks for no token, those of the plane's token, which are all,
 * those of a token with scopes or a role, or none.
 */
export type Credentials = 'open' | 'all' | Grant | CredentialFault;

function isKnown(credentials: Credentials): credentials is 'all' | Grant {
  return credentials === 'all' || typeof credentials === 'object';
}

export interface AdmissionOptions {
  readonly policy: AdmissionPolicy;
  /** Empty: none is asked for, unless there is a book. */
  readonly token: string;
  /** Tokens with scopes or roles; undefined: the plane has none. */
  readonly book?: TokenBook | undefined;
  readonly routes: RouteAccess;
  readonly refused?: RefusedTokens;
  /** Undefined: any number of wrong tokens is verified. */
  readonly failed?: FailedTokens;
}

export class RequestAdmission {
  readonly #options: AdmissionOptions;
  readonly #grants: RememberedGrants | undefined;
  /** The grants of tokens in URLs; undefined: none is taken from there. */
  readonly #linked: RememberedGrants | undefined;
  #token: string;

  constructor(options: AdmissionOptions) {
    const { book, token } = options;
    this.#options = options;
    this.#token = token;
    this.#grants = book === undefined ? undefined : new RememberedGrants(book);
    const linked = book?.urlGrantOf;
    this.#linked = linked && new RememberedGrants({ grantOf: linked, holds: (grant) => book.holds(grant) });
  }

  /**
   * Returns whether the token is another one now. A plane does not begin or cease to ask for a token: what else follows
   * from that is decided at the start.
   */
  changeToken(token: string): boolean {
    const isAnother = this.#token !== '' && token !== '' && token !== this.#token;
    if (isAnother) this.#token = token;
    return isAnother;
  }

  /** The book gives other grants now. */
  changeGrants(): void {
    this.#grants?.change();
    this.#linked?.change();
  }

  /** Does the request carry a token of the plane, if there is one? */
  knows(headers: TokenHeaders): boolean {
    const credentials = this.#headerCredentials(headers);
    return credentials === 'open' || isKnown(credentials);
  }

  /**
   * The rights of the sender. Whether the request needs any, refuses() says. A URL is looked at for reads, and for what
   * has no token elsewhere.
   */
  credentialsOf(
    headers: TokenHeaders,
    target: Pick<UrlSource, 'getQuery'>,
    method: string,
    peer?: Connected,
  ): Credentials {
    const credentials = this.#headerCredentials(headers, peer);
    if (this.#linked === undefined || (!isRead(method) && credentials !== 'missing')) return credentials;
    const [token, ...more] = tokensInQuery(target.getQuery());
    if (token === undefined) return credentials;
    if (credentials !== 'missing' || more.length > 0) return 'several';
    if (!isRead(method)) return 'misplaced';
    return this.#verified(this.#linked, token, headers, peer);
  }

  #headerCredentials(headers: TokenHeaders, peer?: Connected): Credentials {
    const { authorization } = headers;
    const token = this.#token;
    const grants = this.#grants;
    if (grants === undefined) {
      if (token === '') return 'open';
      if (isAuthorized(authorization, token)) return 'all';
      return isBearer(authorization) ? 'unknown' : 'missing';
    }
    const known = grants.remembered(authorization);
    if (known !== undefined) return known;
    if (!isBearer(authorization)) return 'missing';
    if (token !== '' && isAuthorized(authorization, token)) return 'all';
    return this.#verified(grants, bearerOf(authorization), headers, peer);
  }

  #verified(grants: RememberedGrants, token: string, headers: TokenHeaders, peer: Connected | undefined): Credentials {
    // The header may spell it otherwise.
    const known = grants.remembered(headerOf(token));
    if (known !== undefined) return known;
    const verify = (): Grant | TokenFault => grants.grantOf(token);
    const { failed } = this.#options;
    return failed === undefined || peer === undefined ? verify() : failed.bounded(token, { peer, headers }, verify);
  }

  /** `credentials`: those of the same request. */
  refuses(
    headers: SenderHeaders,
    target: UrlSource,
    method: string,
    credentials: Credentials,
  ): RefusalReason | undefined {
    const { policy, routes } = this.#options;
    const refusal = policy.refuses(headers, target, method, isKnown(credentials) ? 'authorized' : 'unknown');
    if (refusal !== undefined) return refusal;
    // Browsers send no token with a preflight.
    if (isKnown(credentials) || credentials === 'open' || method === 'options') return undefined;
    if (routes.access(target.getUrl(), method) !== 'token') return undefined;
    return this.refusalOf(credentials);
  }

  /** Counts it, too. */
  refusalOf(fault: CredentialFault): RefusalReason {
    const { refused } = this.#options;
    if (refused !== undefined) refused[countedAs(fault)]++;
    return faultRefusal(fault);
  }
}

function isRead(method: string): boolean {
  return method === 'get' || method === 'head';
}

const IN_QUERY = 'access_token=';

/** The values of `access_token` (RFC 6750), as they were sent: no character of a token needs to be encoded. */
function tokensInQuery(query = ''): string[] {
  if (!query.includes(IN_QUERY)) return [];
  const pairs = query.split('&').filter((pair) => pair.startsWith(IN_QUERY));
  return pairs.map((pair) => pair.slice(IN_QUERY.length));
}

/** Addresses cannot be rebound. The Host header puts those of version 6 in brackets. */
const IP_LITERAL = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:.]*:[0-9a-f:.]*)$/;
const WILDCARDS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/**
 * Under which names a plane answers. A web page can give its own name the address of this node (DNS rebinding), and is
 * of the same origin then: only the Host header, which holds the page's name, tells it from a client.
 */
class KnownHosts {
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
    const known = isLoopback(host) || this.#names.has(host) || (this.#isWildcard && IP_LITERAL.test(host));
    if (known) this.#last = header;
    return known;
  }
}

/** The host that a Host header names, in small letters; empty when it names none. */
function hostOf(header: string): string {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]]+))(?::\d{0,5})?$/.exec(header);
  return (match?.[1] ?? match?.[2] ?? '').toLowerCase().replace(/\.$/, '');
}
