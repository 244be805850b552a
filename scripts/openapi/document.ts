/**
 * The OpenAPI document, made from the table of routes: src/http/openapi.json, and what
 * each plane serves at /__svc/openapi.json (build.ts).
 */
import type { DocumentedPlane } from '../../src/http/api-document.ts';
import { type CatalogEntry, type PlaneRows, catalogOf } from './catalog.ts';
import { HEADERS, type HeaderName } from './headers.ts';
import { type Answer, type Content, TAGS } from './operation.ts';
import { PARAMETERS, PATH_VARIABLES, type ParameterName } from './parameters.ts';
import type { ResolvedRefusal } from './refusals.ts';
import { SCHEMAS } from './schemas.ts';
import { INFO, SECURITY_SCHEMES, SERVERS, WEBHOOKS } from './preamble.ts';

export type Json = Readonly<Record<string, unknown>>;

export interface DocumentOptions {
  readonly rows: PlaneRows;
  /** The version of Millrace. */
  readonly version: string;
  /** `client`: without what only the admin plane serves. */
  readonly plane: DocumentedPlane;
}

export function openApiDocument({ rows, version, plane }: DocumentOptions): Json {
  const entries = catalogOf(rows).filter(({ planes }) => plane === 'admin' || planes.includes('client'));
  const shared = new SharedResponses();
  const paths = pathsOf(entries, shared, plane);
  const tags = new Set(entries.map(({ operation }) => operation.tag));
  const document = {
    openapi: '3.1.0',
    info: { ...INFO, version },
    servers: plane === 'client' ? [{ url: '/' }] : Object.values(SERVERS),
    tags: Object.entries(TAGS)
      .filter(([name]) => tags.has(name as keyof typeof TAGS))
      .map(([name, description]) => ({ name, description })),
    paths,
    webhooks: WEBHOOKS,
  };
  return { ...document, components: componentsOf(document, shared.all(), plane) };
}

function pathsOf(entries: readonly CatalogEntry[], shared: SharedResponses, plane: DocumentedPlane): Json {
  const paths = new Map<string, Record<string, unknown>>();
  for (const entry of entries) {
    const { path, method, planes } = entry;
    const item = paths.get(path) ?? {
      ...(plane === 'admin' ? { servers: planes.map((one) => SERVERS[one]) } : {}),
      ...variablesOf(path),
    };
    paths.set(path, item);
    item[method.toLowerCase()] = operationOf(entry, shared, plane);
  }
  return Object.fromEntries(paths);
}

function variablesOf(path: string): Json {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');
  return names.length === 0 ? {} : { parameters: names.map((name) => refTo('parameters', `path.${name}`)) };
}

function operationOf(entry: CatalogEntry, shared: SharedResponses, plane: DocumentedPlane): Json {
  const { operation, refusals } = entry;
  const { id, tag, summary, text, parameters = [], body } = operation;
  const statuses = [...new Set(refusals.map(({ status }) => status))];
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(text === undefined ? {} : { description: text }),
    security: securityOf(entry, plane),
    ...(plane === 'client' || entry.row.role === undefined ? {} : { 'x-role': entry.row.role }),
    ...(parameters.length === 0 ? {} : { parameters: parameters.map((name) => refTo('parameters', nameOf(name))) }),
    ...(body === undefined || entry.method === 'HEAD'
      ? {}
      : {
          requestBody: { description: body.text, required: body.isRequired === true, content: contentOf(body.content) },
        }),
    responses: Object.fromEntries([
      ...operation.answers.map((answer) => [String(answer.status), answerOf(answer)] as const),
      ...statuses
        .filter((status) => !operation.answers.some((answer) => answer.status === status))
        .map((status) => [String(status), shared.refTo(refusals.filter((one) => one.status === status))] as const),
    ]),
  };
}

/** A plane without a token asks for none. */
function securityOf({ operation, row, planes }: CatalogEntry, plane: DocumentedPlane): readonly Json[] {
  if (operation.authorization === 'wake token') return [{ wakeToken: [] }];
  if (row.access !== undefined) return [];
  const shown = planes.filter((one) => plane === 'admin' || one === 'client');
  const inUrl = row.takesUrlToken === true && shown.includes('client') ? [{ urlToken: [] }] : [];
  return [{}, ...shown.map((one) => ({ [`${one}Token`]: [] })), ...inUrl];
}

function answerOf({ status, text, headers = [], content }: Answer): Json {
  return {
    description: text,
    ...headersOf(status < 400 ? headers : ['X-Request-Id', ...headers]),
    ...(content === undefined ? {} : { content: contentOf(content) }),
  };
}

function headersOf(names: readonly HeaderName[], more: Json = {}): Json {
  const headers = { ...more, ...Object.fromEntries(names.map((name) => [name, refTo('headers', name)])) };
  return Object.keys(headers).length === 0 ? {} : { headers };
}

function contentOf(content: Content): Json {
  return Object.fromEntries(
    Object.entries(content).map(([type, schema]) => [type, { schema: refTo('schemas', schema) }]),
  );
}

function refTo(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` };
}

/** Names of components have no blanks. */
function nameOf(parameter: ParameterName): string {
  return parameter.replaceAll(' ', '-');
}

/** Refusals of one status, which many operations have alike. */
class SharedResponses {
  readonly #names = new Map<string, string>();
  readonly #responses: Record<string, Json> = {};

  refTo(refusals: readonly ResolvedRefusal[]): Json {
    const response = refusalOf(refusals);
    const key = JSON.stringify(response);
    let name = this.#names.get(key);
    if (name === undefined) {
      name = this.#newName(refusals);
      this.#names.set(key, name);
      this.#responses[name] = response;
    }
    return refTo('responses', name);
  }

  all(): Json {
    return this.#responses;
  }

  #newName([first, ...more]: readonly ResolvedRefusal[]): string {
    const name = more.length === 0 ? (first?.code ?? '') : `status-${first?.status}`;
    for (let i = 1; ; i++) {
      const numbered = i === 1 && more.length === 0 ? name : `${name}-${i}`;
      if (this.#responses[numbered] === undefined) return numbered;
    }
  }
}

function refusalOf(refusals: readonly ResolvedRefusal[]): Json {
  const codes = refusals.map(({ code }) => code);
  const description = refusals.map(({ code, text }) => `- \`${code}\`: ${text}`).join('\n');
  const code = { description: 'Which refusal it is.', schema: { type: 'string', enum: codes }, example: codes[0] };
  const content = Object.assign({}, ...refusals.map((one) => one.content)) as Content;
  return {
    description,
    ...headersOf(['X-Request-Id', ...new Set(refusals.flatMap(({ headers }) => headers))], { 'Millrace-Error': code }),
    content: contentOf(content),
  };
}

/** Those that the document refers to. */
function componentsOf(document: Json, responses: Json, plane: DocumentedPlane): Json {
  const text = JSON.stringify([document, responses]);
  const used = (kind: string, all: Json): Json =>
    Object.fromEntries(Object.entries(all).filter(([name]) => text.includes(`"#/components/${kind}/${name}"`)));
  const parameters = {
    ...Object.fromEntries([...PATH_VARIABLES].map(([name, one]) => [`path.${name}`, one])),
    ...Object.fromEntries(Object.entries(PARAMETERS).map(([name, one]) => [name.replaceAll(' ', '-'), one])),
  };
  return {
    securitySchemes: Object.fromEntries(
      Object.entries(SECURITY_SCHEMES).filter(([name]) => plane === 'admin' || name !== 'adminToken'),
    ),
    parameters: used('parameters', parameters),
    headers: used('headers', HEADERS),
    responses,
    schemas: used('schemas', SCHEMAS),
  };
}
