/**
 * A route is a row: methods, pattern, handler and traits. Each plane has one table (routes/table.ts); dispatch, what
 * Allow names, the answers to OPTIONS, the refusals of other methods and who needs a token derive from its rows.
 */
import type { Access } from '../access/admission.ts';
import type { RouteTraits } from './context.ts';
import { checkEncoding } from './headers.ts';
import { CONTROL_PREFIX, type Groups, KnownPaths, type PathPattern, newPath, parsePath } from './paths.ts';
import type { RequestContext } from './request.ts';
import { bucketUsed, scopeRefusal } from './scope-gate.ts';
import { refuseLimited } from './limited.ts';

export type Handler = (call: RequestContext) => void;

/** `*`: the handler tells methods apart. */
export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | '*';

export interface Route extends RouteTraits {
  readonly methods: readonly Method[];
  /** `{bucket}` and `{stream}` follow the rules for names; other variables come as they were sent. */
  readonly pattern: string;
  readonly handler: Handler;
  /** The handler refuses encoded bodies itself, so that they are counted as its operation. */
  readonly checksEncoding?: true;
  /** Writes here may be conditional. Elsewhere a condition is refused: a write that ignores it could undo another. */
  readonly takesConditions?: true;
  /** And so may be the tail that they expect. */
  readonly takesExpectedOffset?: true;
  /** Whatever its method: the headers of a write mean nothing here, nor does a body. */
  readonly writesNothing?: true;
  /** Allow does not name OPTIONS. */
  readonly omitsOptions?: true;
  /** The methods that Allow names, where the handler tells them apart. */
  readonly allow?: (url: string) => string;
}

/** The rows of one pattern. */
class Resource {
  readonly pattern: string;
  /** The router's own refusals are counted as the operation of all rows, if it is one. */
  readonly operation: Route['operation'];
  readonly #rows = new Map<string, Route>();
  readonly #allow: string;
  readonly #allowOf: Route['allow'];

  constructor(pattern: string, rows: readonly Route[]) {
    this.pattern = pattern;
    for (const row of rows) for (const method of row.methods) this.#rows.set(method.toLowerCase(), row);
    const operations = new Set(rows.map(({ operation }) => operation));
    const [operation = 'other'] = operations;
    this.operation = operations.size === 1 ? operation : 'other';
    const methods: string[] = rows.flatMap((row) => row.methods);
    if (!rows.some((row) => row.omitsOptions === true)) methods.push('OPTIONS');
    this.#allow = methods.join(', ');
    this.#allowOf = rows.find((row) => row.allow !== undefined)?.allow;
  }

  row(method: string): Route | undefined {
    return this.#rows.get(method) ?? this.#rows.get('*');
  }

  allow(url: string): string {
    return this.#allowOf === undefined ? this.#allow : this.#allowOf(url);
  }

  /** Calls the handler, or answers 405. */
  serve(call: RequestContext, row = this.row(call.method)): unknown {
    if (row === undefined) {
      call.operation = this.operation;
      const allow = this.allow(call.path.url);
      return call.respond((res) => call.responder.methodNotAllowed(res, allow));
    }
    return handle(call, row);
  }
}

function handle(call: RequestContext, row: Route): unknown {
  call.route = row;
  call.operation = row.operation;
  if (row.isAudited === true) call.audit();
  const { credentials } = call;
  if (credentials !== 'open' && credentials !== 'all') {
    const refusal = scopeRefusal(call, row);
    if (refusal !== undefined) return call.deny(refusal);
  }
  const limited = call.meters.enter(bucketUsed(call, row), call.startedMs);
  if (limited !== undefined) return refuseLimited(call, limited);
  const isWrite = row.writesNothing !== true && call.method !== 'get' && call.method !== 'head';
  if (row.takesConditions !== true && isConditional(call) && isWrite) {
    return call.refuse('INVALID_HEADER', 'If-Match and If-None-Match go with single writes of a stream, not with this');
  }
  if (row.takesExpectedOffset !== true && call.headers.expectedOffset !== undefined && isWrite) {
    return call.refuse('INVALID_HEADER', 'Stream-Expected-Offset goes with appends, not with this');
  }
  return row.handler(call);
}

function isConditional({ headers }: RequestContext): boolean {
  return headers.ifMatch !== undefined || headers.ifNoneMatch !== '';
}

/** A pattern with variables, segment by segment; undefined: a variable. */
class Segmented {
  readonly resource: Resource;
  readonly #segments: readonly (string | undefined)[];

  constructor(resource: Resource) {
    this.resource = resource;
    this.#segments = resource.pattern.split('/').map((segment) => (segment.startsWith('{') ? undefined : segment));
  }

  fits(sent: readonly string[]): boolean {
    return (
      sent.length === this.#segments.length &&
      this.#segments.every((segment, i) => segment === undefined || segment === sent[i])
    );
  }

  /** The segments that were sent for the variables. */
  variables(sent: readonly string[]): string[] {
    return sent.filter((_, i) => this.#segments[i] === undefined);
  }
}

/** The resources by pattern, in the order of their first rows. */
function resourcesOf(rows: readonly Route[]): Map<string, Resource> {
  const patterns = new Set(rows.map(({ pattern }) => pattern));
  const rowsOf = (pattern: string): Route[] => rows.filter((row) => row.pattern === pattern);
  return new Map([...patterns].map((pattern) => [pattern, new Resource(pattern, rowsOf(pattern))]));
}

export interface Router {
  /** Returns nothing, unless a handler was made async by mistake. */
  route(call: RequestContext, url: string): unknown;
  /** The methods that OPTIONS names for a path; '' when nothing is there, or the plane names no methods. */
  allow(url: string): string;
  /** The access that a path needs; 'token' when nothing is there. Looked up only before a refusal. */
  access(url: string, method: string): Access;
}

const STREAM: PathPattern = '/{bucket}/{stream}';
const LISTING: PathPattern = '/{bucket}/streams';
const SERVICE: PathPattern = '/__svc/*';
const CONTROL: PathPattern = '/v1/stream/__ds/*';

/** Streams and buckets by the rules for names (paths.ts), service routes by the whole path, others by segments. */
export class ClientRouter implements Router {
  readonly #resources: ReadonlyMap<string, Resource>;
  readonly #control: readonly Segmented[];
  /** The row of most requests, found without a look-up. */
  readonly #append: Route | undefined;
  readonly #path = newPath();
  readonly #paths: KnownPaths;

  constructor(rows: readonly Route[], groups: Groups) {
    this.#paths = new KnownPaths(groups);
    this.#resources = resourcesOf(rows);
    this.#append = this.#resources.get(STREAM)?.row('post');
    const control = [...this.#resources.values()].filter(({ pattern }) => pattern.startsWith(CONTROL_PREFIX));
    this.#control = control.filter(({ pattern }) => pattern.includes('{')).map((resource) => new Segmented(resource));
  }

  route(call: RequestContext, url: string): unknown {
    const { path } = call;
    this.#paths.parse(url, path);
    if (path.pattern === STREAM && call.method === 'post' && this.#append !== undefined) {
      return handle(call, this.#append);
    }
    const resource = this.#resourceOf(path.pattern, url);
    const row = resource?.row(call.method);
    const ignoresEncoding = row?.checksEncoding === true || row?.writesNothing === true;
    if (!ignoresEncoding && (call.method === 'put' || call.method === 'post')) {
      const refusal = checkEncoding(call.headers.contentEncoding);
      if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
    }
    if (path.pattern === 'invalid') return call.refuse('INVALID_NAME', path.detail);
    return resource === undefined ? call.refuse('ROUTE_NOT_FOUND') : resource.serve(call, row);
  }

  allow(url: string): string {
    parsePath(url, this.#path);
    return this.#resourceOf(this.#path.pattern, url)?.allow(url) ?? '';
  }

  access(url: string, method: string): Access {
    parsePath(url, this.#path);
    return this.#resourceOf(this.#path.pattern, url)?.row(method)?.access ?? 'token';
  }

  #resourceOf(pattern: string, url: string): Resource | undefined {
    if (pattern === SERVICE) return this.#resources.get(url);
    if (pattern !== CONTROL) return this.#resources.get(pattern);
    const sent = url.split('/');
    // No variable of a reserved route is empty.
    const named = sent.indexOf('', 1) < 0 ? this.#control.find((one) => one.fits(sent))?.resource : undefined;
    return this.#resources.get(url) ?? named ?? this.#resources.get(CONTROL);
  }
}

/** Patterns that begin alike and go on with a bucket. */
interface Named {
  readonly prefix: string;
  /** Refusals of names are counted as this operation. */
  readonly operation: Route['operation'];
  /** By what they go on with, which is a pattern of the client plane. */
  readonly resources: Map<string, Resource>;
}

/** Operators' routes: a whole path, names behind a prefix, or variables between segments. OPTIONS names no methods. */
export class AdminRouter implements Router {
  readonly #whole = new Map<string, Resource>();
  readonly #named: Named[] = [];
  readonly #segmented: Segmented[] = [];

  constructor(rows: readonly Route[]) {
    for (const resource of resourcesOf(rows).values()) {
      const { pattern } = resource;
      const at = pattern.indexOf('{bucket}');
      if (at >= 0) this.#addNamed(pattern.slice(0, at), `/${pattern.slice(at)}`, resource);
      else if (pattern.includes('{')) this.#segmented.push(new Segmented(resource));
      else this.#whole.set(pattern, resource);
    }
  }

  route(call: RequestContext, url: string): unknown {
    // Contexts are used again, and not every path is parsed: nothing of the request before may stay.
    Object.assign(call.path, newPath(), { url });
    const whole = this.#whole.get(url);
    if (whole !== undefined) return whole.serve(call);
    for (const named of this.#named) if (url.startsWith(named.prefix)) return this.#serveNamed(call, named);
    const sent = url.split('/');
    const found = this.#segmented.find((one) => one.fits(sent));
    if (found === undefined) return call.refuse('ROUTE_NOT_FOUND');
    call.path.parameters = found.variables(sent);
    return found.resource.serve(call);
  }

  allow(): string {
    return '';
  }

  /** Every route with variables needs the token. */
  access(url: string, method: string): Access {
    return this.#whole.get(url)?.row(method)?.access ?? 'token';
  }

  #addNamed(prefix: string, pattern: string, resource: Resource): void {
    const known = this.#named.find((one) => one.prefix === prefix);
    if (known !== undefined) known.resources.set(pattern, resource);
    else this.#named.push({ prefix, operation: resource.operation, resources: new Map([[pattern, resource]]) });
  }

  /** The rules for names are those of the client plane: what cannot be created needs no purge. */
  #serveNamed(call: RequestContext, { prefix, operation, resources }: Named): unknown {
    const { path } = call;
    parsePath(`/${path.url.slice(prefix.length)}`, path);
    const { family } = path;
    // This plane refuses in the form of the bucketed routes.
    path.family = 'bucketed';
    call.operation = operation;
    if (path.pattern === 'invalid') return call.refuse('INVALID_NAME', path.detail);
    const resource = family === 'bucketed' ? resourceNamed(resources, path.pattern) : undefined;
    if (resource === undefined) return call.refuse('ROUTE_NOT_FOUND');
    const row = resource.row(call.method);
    if (row?.bodyBytesMax !== undefined) {
      const refusal = checkEncoding(call.headers.contentEncoding);
      if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
    }
    return resource.serve(call, row);
  }
}

/** Where nothing is listed, `streams` is a stream like any other. */
function resourceNamed(resources: ReadonlyMap<string, Resource>, pattern: string): Resource | undefined {
  const found = resources.get(pattern);
  return found === undefined && pattern === LISTING ? resources.get(STREAM) : found;
}
