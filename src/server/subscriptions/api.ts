/** The routes of subscriptions: path and method -> what is done, and the JSON that answers it. */
import { ERRORS, MillraceError } from '../../base/errors.ts';
import { SUBSCRIPTION_NAME_BYTES_MAX } from '../../base/limits.ts';
import { decodeUtf8Strict } from '../../base/utf8.ts';
import type { ControlAnswer, ControlPort, ControlRequest } from '../../http/control.ts';
import { parseConfig, parsePath, parseStreams, parseWakeRequest, parseWorker } from '../../subscriptions/requests.ts';
import { decodePathSegment } from '../../wire/header-values.ts';
import { textBytes } from '../../wire/text.ts';
import { Refusal, refusalAnswer } from './api-refusal.ts';
import type { Membership } from './membership.ts';
import type { Workers } from './workers.ts';

const NOT_FOUND: ControlAnswer = refusalAnswer(new Refusal('NOT_FOUND', ERRORS.ROUTE_NOT_FOUND.text));
const NO_CONTENT: ControlAnswer = { status: 204 };
const SUBSCRIPTIONS = 'subscriptions';

export class SubscriptionApi implements ControlPort {
  readonly #membership: Membership;
  readonly #workers: Workers;

  constructor(membership: Membership, workers: Workers) {
    this.#membership = membership;
    this.#workers = workers;
  }

  async handle(request: ControlRequest): Promise<ControlAnswer> {
    try {
      return await this.#route(request);
    } catch (error) {
      if (error instanceof Refusal) return refusalAnswer(error);
      if (!(error instanceof MillraceError)) throw error;
      const { flat: status, retry, text } = ERRORS[error.code];
      return { status, retry, json: { error: { code: error.code, message: text } } };
    }
  }

  async #route(request: ControlRequest): Promise<ControlAnswer> {
    const { path } = request;
    if (path === 'jwks.json') return await this.#jwks(request);
    const [first, rawId, action, ...rest] = path.split('/');
    if (first !== SUBSCRIPTIONS || rawId === undefined) return NOT_FOUND;
    const id = decodePathSegment(rawId);
    if (id === undefined || !isId(id)) {
      throw new Refusal(
        'INVALID_REQUEST',
        `an id has 1 to ${SUBSCRIPTION_NAME_BYTES_MAX} bytes of UTF-8 and is not . or ..`,
      );
    }
    if (action === undefined) return await this.#subscription(request, id);
    if (action === 'streams' && rest.length > 0) return await this.#stream(request, id, rest.join('/'));
    if (rest.length > 0) return NOT_FOUND;
    switch (action) {
      case 'streams':
        return await this.#streams(request, id);
      case 'claim':
        return await this.#claim(request, id);
      case 'callback':
      case 'ack':
      case 'release':
        return await this.#wake(request, id, action);
      default:
        return NOT_FOUND;
    }
  }

  async #jwks(request: ControlRequest): Promise<ControlAnswer> {
    if (request.method !== 'get') return notAllowed('GET, HEAD, OPTIONS');
    const json = await this.#membership.jwks();
    const contentType = 'application/jwk-set+json';
    // There is no key before the first subscription; nobody shall remember that.
    return json.keys.length === 0
      ? { status: 200, json, contentType }
      : { status: 200, json, contentType, cache: 'public' };
  }

  async #subscription(request: ControlRequest, id: string): Promise<ControlAnswer> {
    const membership = this.#membership;
    switch (request.method) {
      case 'put': {
        const config = parseConfig(jsonOf(request));
        if (!config.ok) throw new Refusal('INVALID_REQUEST', config.reason);
        const { created, shown } = await membership.create(id, config.value, request.origin);
        return { status: created ? 201 : 200, json: shown };
      }
      case 'get':
        return { status: 200, json: await membership.show(id, request.origin) };
      case 'delete':
        await membership.delete(id);
        return NO_CONTENT;
      default:
        return notAllowed('GET, HEAD, PUT, DELETE, OPTIONS');
    }
  }

  async #streams(request: ControlRequest, id: string): Promise<ControlAnswer> {
    if (request.method !== 'post') return notAllowed('POST, OPTIONS');
    const streams = parseStreams(jsonOf(request));
    if (!streams.ok) throw new Refusal('INVALID_REQUEST', streams.reason);
    await this.#membership.add(id, streams.value);
    return NO_CONTENT;
  }

  async #stream(request: ControlRequest, id: string, rawPath: string): Promise<ControlAnswer> {
    if (request.method !== 'delete') return notAllowed('DELETE, OPTIONS');
    const path = parsePath(decodePathSegment(rawPath) ?? 0);
    if (!path.ok) throw new Refusal('INVALID_REQUEST', path.reason);
    await this.#membership.remove(id, path.value);
    return NO_CONTENT;
  }

  async #claim(request: ControlRequest, id: string): Promise<ControlAnswer> {
    if (request.method !== 'post') return notAllowed('POST, OPTIONS');
    const worker = parseWorker(jsonOf(request));
    if (!worker.ok) throw new Refusal('INVALID_REQUEST', worker.reason);
    return { status: 200, json: await this.#workers.claim(id, worker.value) };
  }

  async #wake(request: ControlRequest, id: string, action: 'callback' | 'ack' | 'release'): Promise<ControlAnswer> {
    if (request.method !== 'post') return notAllowed('POST, OPTIONS');
    const token = bearerOf(request);
    const wake = parseWakeRequest(jsonOf(request));
    if (!wake.ok) throw new Refusal('INVALID_REQUEST', wake.reason);
    if (action === 'release') {
      await this.#workers.release(id, token, wake.value);
      return NO_CONTENT;
    }
    const type = action === 'callback' ? 'webhook' : 'pull-wake';
    return { status: 200, json: { ok: true, next_wake: await this.#workers.ack(id, type, token, wake.value) } };
  }
}

/** Part of the URLs that receivers call, where some segments mean something else. */
function isId(id: string): boolean {
  return !['', '.', '..'].includes(id) && !id.includes('\0') && textBytes(id) <= SUBSCRIPTION_NAME_BYTES_MAX;
}

function notAllowed(allow: string): ControlAnswer {
  return { status: 405, allow };
}

function jsonOf({ body }: ControlRequest): unknown {
  const text = decodeUtf8Strict(body);
  try {
    if (text !== undefined) return JSON.parse(text) as unknown;
  } catch {
    // Said below.
  }
  throw new Refusal('INVALID_REQUEST', 'the body must be JSON in UTF-8');
}

function bearerOf({ authorization }: ControlRequest): string {
  const scheme = authorization.slice(0, 7).toLowerCase();
  if (scheme === 'bearer ') return authorization.slice(7).trim();
  throw new Refusal('TOKEN_INVALID', 'send the token of the wake: Authorization: Bearer TOKEN');
}
