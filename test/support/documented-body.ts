// Holds an answer, and a request that was taken, against the schemas of the OpenAPI document: media type,
// body and headers. The document leaves objects open, so that later versions may add members; here an
// answer has no member that the document does not mention.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';

interface Reference {
  readonly $ref: string;
}
type Schema = Readonly<Record<string, unknown>>;
type Content = Readonly<Record<string, { readonly schema: Reference }>>;
interface Header {
  readonly schema: Schema;
}
interface Told {
  readonly headers?: Readonly<Record<string, Header | Reference>>;
  readonly content?: Content;
}
interface Operation {
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, Told | Reference>>;
}
export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

interface Headers {
  get(name: string): string | null | undefined;
}
export interface Exchange {
  readonly method: string;
  /** As the document has it. */
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  /** Undefined: the test does not tell. */
  readonly sent?: { readonly type: string | undefined; readonly body: string } | undefined;
}

export class DocumentSchemas {
  /** Names of those that bodies of answers were checked with. */
  readonly checked: Set<string> = new Set();
  readonly #document: Document;
  readonly #ajv = new Ajv2020({ strict: true, strictTypes: false, allowUnionTypes: true });
  readonly #compiled = new Map<string, ValidateFunction>();

  constructor(document: Document) {
    this.#document = document;
    ajvFormats.default(this.#ajv);
    this.#ajv.addKeyword('example');
  }

  /** Everything that is not as the document says. */
  faultsOf(exchange: Exchange): string[] {
    const { method, path, status } = exchange;
    const operation = this.#document.paths[path]?.[method.toLowerCase()];
    const told = operation?.responses[String(status)];
    if (operation === undefined || told === undefined) return [`the status ${status} is not in the document`];
    const answer = this.#lookUp<Told>(told);
    return [
      ...this.#faultsOfHeaders(answer, exchange),
      ...(method === 'HEAD' ? [] : this.#faultsOfBody(answer, exchange)),
      ...(status >= 200 && status < 300 ? this.#faultsOfRequest(operation, exchange) : []),
    ];
  }

  /** Faults of a body that goes to others. */
  faultOf(schema: string, body: string): string | undefined {
    const content = { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } };
    return this.#faultOfContent(content, 'application/json', body, 'closed');
  }

  #faultsOfHeaders({ headers = {} }: Told, exchange: Exchange): string[] {
    return Object.entries(headers).flatMap(([name, header]) => {
      const value = exchange.headers.get(name);
      if (value === null || value === undefined) return [];
      const { schema } = this.#lookUp<Header>(header);
      const isNumber = schema['type'] === 'integer' && /^-?[0-9]+$/.test(value);
      const fault = this.#validate(JSON.stringify(schema), schema, isNumber ? Number(value) : value);
      return fault === undefined ? [] : [`the header ${name}: ${value} ${fault}`];
    });
  }

  #faultsOfBody({ content }: Told, { headers, body }: Exchange): string[] {
    if (content === undefined) return body === '' ? [] : [`a body that is not in the document: ${excerpt(body)}`];
    const fault = this.#faultOfContent(content, headers.get('content-type'), body, 'closed');
    return fault === undefined ? [] : [`the answer ${fault}`];
  }

  /** Requests that are taken are in the document. */
  #faultsOfRequest({ requestBody }: Operation, { sent }: Exchange): string[] {
    if (sent === undefined || (sent.body === '' && requestBody?.required !== true)) return [];
    if (requestBody === undefined) return [];
    // The type that is meant, when none is given.
    const type = sent.type ?? Object.keys(requestBody.content)[0];
    const fault = this.#faultOfContent(requestBody.content, type, sent.body, 'open');
    return fault === undefined ? [] : [`the request was taken, but it ${fault}`];
  }

  #faultOfContent(
    content: Content,
    type: string | null | undefined,
    body: string,
    objects: 'open' | 'closed',
  ): string | undefined {
    const essence = type?.split(';')[0]?.trim().toLowerCase();
    const named = content[essence ?? ''];
    const media = named ?? content['*/*'];
    if (media === undefined) return `has the type ${type}, and the document ${Object.keys(content).join(', ')}`;
    const schema = this.#lookUp<Schema>(media.schema);
    if (objects === 'closed') this.checked.add(media.schema.$ref.replace(/.*\//, ''));
    // Values of any type: bytes, or frames of values of that type.
    const value = valueOf(named === undefined ? '' : (essence ?? ''), body);
    if (value === undefined) return `is no JSON: ${excerpt(body)}`;
    const wanted = objects === 'closed' ? closed(schema) : schema;
    const fault = this.#validate(`${media.schema.$ref} ${objects}`, wanted, value.value);
    return fault === undefined ? undefined : `${fault} (${media.schema.$ref}): ${excerpt(body)}`;
  }

  #validate(key: string, schema: Schema, value: unknown): string | undefined {
    const validate = this.#compiled.get(key) ?? this.#ajv.compile(schema);
    this.#compiled.set(key, validate);
    return validate(value) ? undefined : this.#ajv.errorsText(validate.errors, { dataVar: 'body' });
  }

  /** Follows one reference into the components. */
  #lookUp<T extends object>(one: T | Reference): T {
    if (!('$ref' in one)) return one;
    const [, , kind = '', name = ''] = one.$ref.split('/');
    const found = this.#document.components[kind]?.[name];
    if (found === undefined) throw new Error(`${one.$ref} leads nowhere`);
    return found as T;
  }
}

function valueOf(type: string, body: string): { readonly value: unknown } | undefined {
  if (!/^application\/(.+\+)?json$/.test(type)) return { value: body };
  try {
    return { value: JSON.parse(body) };
  } catch {
    return undefined;
  }
}

function excerpt(body: string): string {
  return body.length > 300 ? `${body.slice(0, 300)}...` : body;
}

/** Objects whose members the schema lists have no others. */
function closed(schema: Schema): Schema {
  const close = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(close);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, close(one)]));
    const isOpen = 'properties' in members && !('additionalProperties' in members);
    return isOpen ? { ...members, additionalProperties: false } : members;
  };
  return close(schema) as Schema;
}
