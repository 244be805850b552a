// What the OpenAPI document says of an answer that a test has seen: nothing, or what is missing there.
import assert from 'node:assert/strict';
import { type CatalogEntry, catalogOf } from '../../src/http/openapi/catalog.ts';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';

export const CATALOG: readonly CatalogEntry[] = catalogOf({ client: CLIENT_ROWS, admin: ADMIN_ROWS });

/** What a test was answered stands in the OpenAPI document. */
export function assertDocumented(method: string, url: string, { status, headers }: Response): void {
  const { pathname, search } = new URL(url);
  const fault = faultOf({ method, url: `${pathname}${search}`, status, headers }, headers.keys());
  assert.equal(fault, undefined, `${fault}: see src/http/openapi`);
}

/** The variable of the flat routes and of streams of subscriptions takes several segments. */
function patternOf(path: string): RegExp {
  return new RegExp(
    `^${path
      .replaceAll('.', '\\.')
      .replaceAll('{path}', '.+')
      .replaceAll(/\{\w+\}/g, '[^/]+')}$`,
  );
}

/** A path with more letters of its own wins. */
const PATHS = [...new Set(CATALOG.map(({ path }) => path))]
  .map((path) => ({ path, pattern: patternOf(path), letters: path.replaceAll(/\{\w+\}/g, '').length }))
  .sort((a, b) => b.letters - a.letters);

export interface Seen {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly status: number;
  readonly headers: { get(name: string): string | null | undefined };
}

/** Names that the document has to mention; others are of HTTP itself. */
const TOLD =
  /^(stream-|producer-|x-svc-|x-request-id$|etag$|location$|retry-after$|content-(encoding|disposition|security-policy)$|www-authenticate$)/;
/** Of the HTTP library, before any of our code runs: headers too large, version not supported. */
const LIBRARY = new Set([431, 505]);
/** Of a path or method that this plane does not have. */
const NO_OPERATION = new Set(['ROUTE_NOT_FOUND', 'METHOD_NOT_ALLOWED']);
/** A method or path that is not documented is refused, wherever the request ends. */
const REFUSED = new Set([400, 401, 403, 404, 405, 415, 421, 503, 505]);

/** Undefined: everything about the answer is documented. */
export function faultOf({ method, url, status, headers }: Seen, names: Iterable<string>): string | undefined {
  const path = url.split('?')[0] ?? '';
  const found = PATHS.find(({ pattern }) => pattern.test(path));
  const entry = CATALOG.find((one) => one.path === found?.path && one.method === method);
  const what = `${method} ${url}: ${status}`;
  if (entry === undefined) return REFUSED.has(status) || method === 'OPTIONS' ? undefined : `${what} of no operation`;
  const { operation, refusals } = entry;
  const answer = operation.answers.find((one) => one.status === status);
  const code = headers.get('millrace-error');
  if ((LIBRARY.has(status) && !code) || NO_OPERATION.has(code ?? '')) return undefined;
  const refusal = refusals.find((one) => one.status === status && one.code === code);
  if (status === 500 && code === 'INTERNAL') return undefined;
  if (answer === undefined && refusal === undefined) return `${what} ${code ?? ''} is not documented`;
  const told = new Set((answer ?? refusal)?.headers?.map((name) => name.toLowerCase()));
  // The document adds it to everything that refuses.
  if (status >= 400) told.add('x-request-id');
  const untold = [...names].filter((name) => TOLD.test(name) && !told.has(name));
  return untold.length === 0 ? undefined : `${what}: the headers ${untold.join(', ')} are not documented`;
}
