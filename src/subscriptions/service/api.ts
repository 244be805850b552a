/** The routes of subscriptions: path and method to action, and the JSON answer. */
import { ERRORS, MillraceError } from '../../base/errors.ts';
import { SUBSCRIPTION_NAME_BYTES_MAX } from '../../base/limits.ts';
import type { ControlAnswer, ControlHead, ControlPort, ControlTask } from '../ports.ts';
import { isSeen, mayCreate, mayFollow, seen } from './rights.ts';
import { type BodyKind, type BodyOf, parseBody, parsePath } from '../state/requests.ts';
import { decodeUrlPart } from '../../protocol/header-values.ts';
import { textBytes } from '../../base/text.ts';
import { Refusal, refusalAnswer } from './api-refusal.ts';
import { hasTokenShape } from '../webhooks/webhook-keys.ts';
import type { Membership } from './subscription-membership.ts';
import type { Workers } from './workers.ts';

const NOT_FOUND: ControlAnswer = refusalAnswer(new Refusal('NOT_FOUND', ERRORS.ROUTE_NOT_FOUND.text));
const NO_CONTENT: ControlAnswer = { status: 204 };
const SUBSCRIPTIONS = 'subscriptions';

type Opened = ControlAnswer | ControlTask;

export class SubscriptionApi implements ControlPort {
  readonly #membership: Membership;
  readonly #workers: Workers;

  constructor(membership: Membership, workers: Workers) {
    this.#membership = membership;
    this.#workers = workers;
  }

  refusal(error: unknown): ControlAnswer | undefined {
    if (error instanceof Refusal) return refusalAnswer(error);
    if (!(error instanceof MillraceError)) return undefined;
    const { flat: status, retry, text } = ERRORS[error.code];
    return { status, retry, json: { error: { code: error.code, message: text } } };
  }

  open(head: ControlHead): Opened {
    const { path } = head;
    if (path === 'jwks.json') return this.#jwks(head);
    const [first, rawId, action, ...rest] = path.split('/');
    if (first !== SUBSCRIPTIONS || rawId === undefined) return NOT_FOUND;
    const id = decodeUrlPart(rawId);
    if (id === undefined || !isId(id)) {
      throw new Refusal(
        'INVALID_REQUEST',
        `an id has 1 to ${SUBSCRIPTION_NAME_BYTES_MAX} bytes of UTF-8 and is not . or ..`,
      );
    }
    if (action === undefined) return this.#subscription(head, id);
    if (action === 'streams' && rest.length > 0) return this.#stream(head, id, rest.join('/'));
    if (rest.length > 0) return NOT_FOUND;
    switch (action) {
      case 'streams':
        return this.#streams(head, id);
      case 'claim':
        return this.#claim(head, id);
      case 'callback':
      case 'ack':
      case 'release':
        return this.#wake(head, id, action);
      default:
        return NOT_FOUND;
    }
  }

  #jwks({ method }: ControlHead): Opened {
    if (method !== 'get') return notAllowed('GET, HEAD, OPTIONS');
    return {
      run: async () => {
        const json = await this.#membership.jwks();
        const contentType = 'application/jwk-set+json';
        // There is no key before the first subscription, so the answer must not be cached.
        return json.keys.length === 0
          ? { status: 200, json, contentType }
          : { status: 200, json, contentType, cache: 'public' };
      },
    };
  }

  #subscription({ method, origin, rights }: ControlHead, id: string): Opened {
    const membership = this.#membership;
    switch (method) {
      case 'put':
        return this.#withBody('config', async (config) => {
          mayCreate(rights, config);
          const { created, shown } = await membership.create(id, config, origin, rights);
          if (rights !== undefined && !(await isSeen(membership, rights, id))) {
            // Another client has made it, and it follows more than the sender may.
            const text = 'a subscription of this id exists with another configuration';
            throw new Refusal('SUBSCRIPTION_ALREADY_EXISTS', text);
          }
          return { status: created ? 201 : 200, json: shown };
        });
      case 'get':
        return {
          run: async () => ({
            status: 200,
            json: await seen(membership, rights, id, () => membership.show(id, origin)),
          }),
        };
      case 'delete':
        return {
          run: async () => {
            if (rights === undefined || (await isSeen(membership, rights, id))) await membership.delete(id);
            return NO_CONTENT;
          },
        };
      default:
        return notAllowed('GET, HEAD, PUT, DELETE, OPTIONS');
    }
  }

  #streams({ method, rights }: ControlHead, id: string): Opened {
    if (method !== 'post') return notAllowed('POST, OPTIONS');
    return this.#withBody('streams', async (streams) => {
      mayFollow(rights, null, streams);
      await seen(this.#membership, rights, id, () => this.#membership.add(id, streams));
      return NO_CONTENT;
    });
  }

  #stream({ method, rights }: ControlHead, id: string, rawPath: string): Opened {
    if (method !== 'delete') return notAllowed('DELETE, OPTIONS');
    const path = parsePath(decodeUrlPart(rawPath) ?? 0);
    if (!path.ok) throw new Refusal('INVALID_REQUEST', path.reason);
    return {
      run: async () => {
        await seen(this.#membership, rights, id, () => this.#membership.remove(id, path.value));
        return NO_CONTENT;
      },
    };
  }

  #claim({ method, rights }: ControlHead, id: string): Opened {
    if (method !== 'post') return notAllowed('POST, OPTIONS');
    return this.#withBody('worker', async (worker) => {
      return { status: 200, json: await seen(this.#membership, rights, id, () => this.#workers.claim(id, worker)) };
    });
  }

  /** Its token is checked before the body, and again when this node could not tell, before the body is parsed. */
  #wake(head: ControlHead, id: string, action: 'callback' | 'ack' | 'release'): Opened {
    if (head.method !== 'post') return notAllowed('POST, OPTIONS');
    const token = bearerOf(head);
    const isKnown = this.#workers.recognizes(id, token);
    const task = this.#withBody('wake', async (wake) => {
      if (action === 'release') {
        await this.#workers.release(id, token, wake);
        return NO_CONTENT;
      }
      const type = action === 'callback' ? 'webhook' : 'pull-wake';
      return { status: 200, json: { ok: true, next_wake: await this.#workers.ack(id, type, token, wake) } };
    });
    if (isKnown) return task;
    return {
      fromStranger: true,
      run: async (body) => {
        await this.#workers.authenticate(id, token);
        return await task.run(body);
      },
    };
  }

  #withBody<Kind extends BodyKind>(kind: Kind, act: (parsed: BodyOf[Kind]) => Promise<ControlAnswer>): ControlTask {
    return {
      run: async (body) => {
        const parsed = parseBody(kind, body);
        if (!parsed.ok) throw new Refusal('INVALID_REQUEST', parsed.reason);
        return await act(parsed.value);
      },
    };
  }
}

/** It is part of URLs that receivers call, where some segments have another meaning. */
function isId(id: string): boolean {
  return !['', '.', '..'].includes(id) && !id.includes('\0') && textBytes(id) <= SUBSCRIPTION_NAME_BYTES_MAX;
}

function notAllowed(allow: string): ControlAnswer {
  return { status: 405, allow };
}

function bearerOf({ authorization }: ControlHead): string {
  const scheme = authorization.slice(0, 7).toLowerCase();
  const token = authorization.slice(7).trim();
  if (scheme === 'bearer ' && hasTokenShape(token)) return token;
  throw new Refusal('TOKEN_INVALID', 'send the token of the wake: Authorization: Bearer TOKEN');
}
