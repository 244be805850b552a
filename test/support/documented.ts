// What the OpenAPI document says of an answer that a test has seen: nothing, or what is missing there.
import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type CatalogEntry, catalogOf } from '../../src/http/openapi/catalog.ts';
import type { Content } from '../../src/http/openapi/operation.ts';
import { SCHEMAS, type SchemaName } from '../../src/http/openapi/schemas.ts';
import { ADMIN_ROWS, CLIENT_ROWS } from '../../src/http/routes/table.ts';

export const CATALOG: readonly CatalogEntry[] = catalogOf({ client: CLIENT_ROWS, admin: ADMIN_ROWS });

/** What a test was answered stands in the OpenAPI document. `body` as text, where a test has read it. */
export function assertDocumented(method: string, url: string, { status, headers }: Response, body?: string): void {
  const { pathname, search } = new URL(url);
  const seen = { method, url: `${pathname}${search}`, status, headers };
  const fault = faultOf(seen, headers.keys()) ?? (body === undefined ? undefined : bodyFaultOf(seen, body));
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

const ajv = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, allowUnionTypes: true });
ajv.addVocabulary(['example']);
ajv.addFormat('date-time', (text: string) => !Number.isNaN(Date.parse(text)));
const VALIDATORS = new Map<SchemaName, ValidateFunction>();

/** The schemas that bodies of answers were checked with in this process. */
export const CHECKED: Set<SchemaName> = new Set();

/** Undefined: the body of a documented answer is what the document says. */
export function bodyFaultOf({ method, url, status, headers }: Seen, body: string): string | undefined {
  const entry = entryOf(method, url);
  const code = headers.get('millrace-error');
  const told =
    entry?.operation.answers.find((one) => one.status === status) ??
    entry?.refusals.find((one) => one.status === status && one.code === code);
  if (told === undefined || method === 'HEAD') return undefined;
  const fault = contentFaultOf(told.content, headers.get('content-type') ?? '', body);
  return fault === undefined ? undefined : `${method} ${url}: ${status} ${fault}: ${body.slice(0, 300)}`;
}

function contentFaultOf(content: Content | undefined, type: string, body: string): string | undefined {
  if (content === undefined) return body === '' ? undefined : 'has a body that is not documented';
  const media = type.split(';')[0]?.trim().toLowerCase() ?? '';
  const isJson = /[/+]json$/.test(media);
  if (body === '' && !isJson) return undefined;
  const name = content[media] ?? content[`${media.split('/')[0]}/*`] ?? content['*/*'];
  if (name === undefined) return `has the type ${media}, which is none of ${Object.keys(content).join(', ')}`;
  CHECKED.add(name);
  if (!isJson || name === 'Bytes') return undefined;
  let validate = VALIDATORS.get(name);
  if (validate === undefined) VALIDATORS.set(name, (validate = ajv.compile(SCHEMAS[name])));
  return validate(JSON.parse(body)) ? undefined : `is no ${name} (${ajv.errorsText(validate.errors)})`;
}
