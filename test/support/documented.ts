// Compares an answer that a test has seen with the OpenAPI document: nothing, or what is missing there.
import assert from 'node:assert/strict';
import { type CatalogEntry, catalogOf } from '../../scripts/openapi/catalog.ts';
import { openApiDocument } from '../../scripts/openapi/document.ts';
import type { SchemaName } from '../../scripts/openapi/schemas.ts';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';
import { type Document, DocumentSchemas, type Exchange } from './documented-body.ts';

const ROWS = { client: CLIENT_ROWS, admin: ADMIN_ROWS };
export const CATALOG: readonly CatalogEntry[] = catalogOf(ROWS);
/** As both planes together serve it. */
export const DOCUMENT = JSON.parse(
  JSON.stringify(openApiDocument({ rows: ROWS, version: '1.2.3', plane: 'admin' })),
) as Document;
const SCHEMAS = new DocumentSchemas(DOCUMENT);
/** The schemas that bodies of answers were checked with in this process. */
export const CHECKED: ReadonlySet<string> = SCHEMAS.checked;

interface Given {
  readonly status: number;
  readonly headers: { get(name: string): string | null | undefined; keys(): Iterable<string> };
}

/** Asserts that a test's request, as far as it tells, and its answer stand in the OpenAPI document. */
export function assertDocumented(
  method: string,
  url: string,
  { status, headers }: Given,
  body: string,
  sent?: Exchange['sent'],
): void {
  const { pathname, search } = new URL(url, 'http://localhost');
  const seen = { method, url: `${pathname}${search}`, status, headers, body, sent };
  const fault = faultOf(seen, headers.keys()) ?? bodyFaultOf(seen);
  assert.equal(fault, undefined, `${fault}: see scripts/openapi`);
}

/** Asserts the body that a webhook is sent. */
export function assertSchema(name: SchemaName, body: string): void {
  assert.equal(SCHEMAS.faultOf(name, body), undefined);
}

export function sentOf(
  headers: Readonly<Record<string, string>> = {},
  body: string | Uint8Array | undefined = '',
): Exchange['sent'] {
  const [, type] = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type') ?? [];
  return { type, body: typeof body === 'string' ? body : new TextDecoder().decode(body) };
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

export interface Seen extends Omit<Exchange, 'path' | 'body'> {
  /** Path and query. */
  readonly url: string;
}

/** Names that the document has to mention; others are of HTTP itself. */
const TOLD =
  /^(stream-|producer-|x-svc-|x-request-id$|etag$|location$|retry-after$|content-(encoding|disposition|security-policy)$|www-authenticate$)/;
/** Statuses of the HTTP library, before any of our code runs: headers too large, version not supported. */
const LIBRARY = new Set([431, 505]);
/** Refusals of a path or method that this plane does not have. */
const NO_OPERATION = new Set(['ROUTE_NOT_FOUND', 'METHOD_NOT_ALLOWED']);
/** A method or path that is not documented is refused, wherever the request ends. */
const REFUSED = new Set([400, 401, 403, 404, 405, 415, 421, 503, 505]);

function entryOf(method: string, url: string): CatalogEntry | undefined {
  const path = url.split('?')[0] ?? '';
  const found = PATHS.find(({ pattern }) => pattern.test(path));
  return CATALOG.find((one) => one.path === found?.path && one.method === method);
}

/** Undefined: everything about the answer is documented. */
export function faultOf({ method, url, status, headers }: Seen, names: Iterable<string>): string | undefined {
  const entry = entryOf(method, url);
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

/**
 * Undefined: media type, body and headers of a documented answer, and the body of a
 * request that was taken, are what the document says.
 */
export function bodyFaultOf(seen: Seen & Pick<Exchange, 'body'>): string | undefined {
  const { method, url, status } = seen;
  const entry = entryOf(method, url);
  const code = seen.headers.get('millrace-error');
  const told =
    entry?.operation.answers.find((one) => one.status === status) ??
    entry?.refusals.find((one) => one.status === status && one.code === code);
  // faultOf says so, or allows it.
  if (entry === undefined || told === undefined) return undefined;
  const faults = SCHEMAS.faultsOf({ ...seen, path: entry.path });
  return faults.length === 0 ? undefined : `${method} ${url}: ${status}: ${faults.join('; ')}`;
}
