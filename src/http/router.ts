/**
 * A route is a row: methods, pattern, handler, and what it is counted as. Each plane has one table; what Allow names, the answers to
 * OPTIONS and the refusals of other methods derive from its rows.
 */
import type { Operation } from './context.ts';
import { checkEncoding, writeHeaders } from './headers.ts';
import { type PathPattern, newPath, parsePath } from './paths.ts';
import type { RequestContext } from './request.ts';

export type Handler = (call: RequestContext) => void;

/** `*`: the handler tells methods apart. */
export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | '*';

export interface Route {
  readonly methods: readonly Method[];
  /** `{bucket}` and `{stream}` follow the rules for names; other variables come as they were sent. */
  readonly pattern: string;
  readonly operation: Operation;
  readonly handler: Handler;
  /** The handler refuses encoded bodies itself, so that they are counted as its operation. */
  readonly checksEncoding?: true;
  /** Allow does not name OPTIONS. */
  readonly omitsOptions?: true;
  /** What Allow names, where the handler tells methods apart. */
  readonly allow?: (url: string) => string;
}

/** The rows of one pattern. */
class Resource {
  readonly pattern: string;
  /** What the router's own refusals are counted as: the operation of all rows, if it is one. */
  readonly operation: Operation;
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
      return call.methodNotAllowed(this.allow(call.url));
    }
    call.operation = row.operation;
    return row.handler(call);
  }
}

/** By pattern, in the order of their first rows. */
function resourcesOf(rows: readonly Route[]): Map<string, Resource> {
  const patterns = new Set(rows.map(({ pattern }) => pattern));
  const rowsOf = (pattern: string): Route[] => rows.filter((row) => row.pattern === pattern);
  return new Map([...patterns].map((pattern) => [pattern, new Resource(pattern, rowsOf(pattern))]));
}

export interface Router {
  /** Nothing, unless a handler was made async by mistake. */
  route(call: RequestContext, url: string): unknown;
  /** What OPTIONS says of a path; '' when nothing is there, or the plane names no methods. */
  allow(url: string): string;
}

const STREAM: PathPattern = '/{bucket}/{stream}';
const SERVICE: PathPattern = '/__svc/*';

/** Streams and buckets by the rules for names (paths.ts), service routes by their whole path. */
export class ClientRouter implements Router {
  readonly #resources: ReadonlyMap<string, Resource>;
  /** The row of most requests, found without a look-up. */
  readonly #append: Route | undefined;
  readonly #path = newPath();

  constructor(rows: readonly Route[]) {
    this.#resources = resourcesOf(rows);
    this.#append = this.#resources.get(STREAM)?.row('post');
  }

  route(call: RequestContext, url: string): unknown {
    const path = this.#path;
    parsePath(url, path);
    call.family = path.family;
    call.bucket = path.bucket;
    call.stream = path.stream;
    if (path.pattern === STREAM && call.method === 'post' && this.#append !== undefined) {
      call.operation = this.#append.operation;
      return this.#append.handler(call);
    }
    call.url = url;
    call.offset = path.detail;
    const resource = this.#resources.get(path.pattern === SERVICE ? url : path.pattern);
    const row = resource?.row(call.method);
    if (row?.checksEncoding !== true && (call.method === 'put' || call.method === 'post')) {
      const refusal = checkEncoding(writeHeaders().contentEncoding);
      if (refusal !== undefined) return call.refuse(refusal.code, refusal.detail);
    }
    if (path.pattern === 'invalid') return call.refuse('INVALID_NAME', path.detail);
    return resource === undefined ? call.refuse('ROUTE_NOT_FOUND') : resource.serve(call, row);
  }

  allow(url: string): string {
    parsePath(url, this.#path);
    const { pattern } = this.#path;
    return this.#resources.get(pattern === SERVICE ? url : pattern)?.allow(url) ?? '';
  }
}

/** A pattern that ends with `{bucket}` or `{bucket}/{stream}`. */
interface Named {
  readonly prefix: string;
  readonly hasStream: boolean;
  readonly resource: Resource;
}

/** Segment by segment; undefined: a variable. */
interface Segmented {
  readonly segments: readonly (string | undefined)[];
  readonly resource: Resource;
}

/** Operators' routes: a whole path, names behind a prefix, or variables between segments. OPTIONS names no methods. */
export class AdminRouter implements Router {
  readonly #resources: ReadonlyMap<string, Resource>;
  readonly #named: Named[] = [];
  readonly #segmented: Segmented[] = [];
  readonly #path = newPath();

  constructor(rows: readonly Route[]) {
    this.#resources = resourcesOf(rows);
    for (const resource of this.#resources.values()) {
      const { pattern } = resource;
      const at = pattern.indexOf('{bucket}');
      if (at >= 0) {
        this.#named.push({ prefix: pattern.slice(0, at), hasStream: pattern.endsWith('/{stream}'), resource });
      } else if (pattern.includes('{')) {
        const segments = pattern.split('/').map((segment) => (segment.startsWith('{') ? undefined : segment));
        this.#segmented.push({ segments, resource });
      }
    }
  }

  route(call: RequestContext, url: string): unknown {
    call.url = url;
    const exact = this.#resources.get(call.url);
    if (exact !== undefined) return exact.serve(call);
    for (const named of this.#named) if (call.url.startsWith(named.prefix)) return this.#serveNamed(call, named);
    const sent = call.url.split('/');
    for (const { segments, resource } of this.#segmented) {
      if (segments.length !== sent.length) continue;
      if (!segments.every((segment, i) => segment === undefined || segment === sent[i])) continue;
      call.parameters = sent.filter((_, i) => segments[i] === undefined);
      return resource.serve(call);
    }
    return call.refuse('ROUTE_NOT_FOUND');
  }

  allow(): string {
    return '';
  }

  /** The rules for names are those of the client plane: what cannot be created needs no purge. */
  #serveNamed(call: RequestContext, { prefix, hasStream, resource }: Named): unknown {
    const path = this.#path;
    parsePath(`/${call.url.slice(prefix.length)}`, path);
    call.operation = resource.operation;
    if (path.pattern === 'invalid') return call.refuse('INVALID_NAME', path.detail);
    // There is nothing to list here, so `streams` is a stream like any other.
    const namesStream = path.pattern === '/{bucket}/{stream}' || path.pattern === '/{bucket}/streams';
    const fits = hasStream ? namesStream && path.family === 'bucketed' : path.pattern === '/{bucket}';
    if (!fits) return call.refuse('ROUTE_NOT_FOUND');
    call.bucket = path.bucket;
    call.stream = path.stream;
    return resource.serve(call);
  }
}
