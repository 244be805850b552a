// Subscription requests of tests.
import assert from 'node:assert/strict';
import { assertDocumented, sentOf } from './documented.ts';
import { patiently } from './patient.ts';
import type { WakeBody, WakeStream } from './webhook-receiver.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

export interface Shown {
  readonly status: string;
  readonly streams: readonly { readonly path: string; readonly link_type: string; readonly acked_offset: string }[];
  readonly webhook: { readonly url: string; readonly signing: { readonly kid: string; readonly jwks_url: string } };
}

export interface Claimed {
  readonly wake_id: string;
  readonly generation: number;
  readonly token: string;
  readonly streams: readonly WakeStream[];
}

export interface Replied {
  readonly status: number;
  readonly headers: Headers;
  readonly json: unknown;
}

interface Acknowledgement {
  readonly acks?: readonly object[];
  readonly done?: boolean;
}

interface Expected {
  readonly status: number;
  /** After an attempt that may have taken effect. */
  readonly whenRepeated: number;
}

const FENCED = 409;

/** The same requests to any node: `base` is where it is now. */
export class Subscriber {
  readonly base: () => string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(base: () => string, headers: Readonly<Record<string, string>> = {}) {
    this.base = base;
    this.headers = headers;
  }

  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Replied> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const url = `${this.base()}/v1/stream/${path}`;
    const response = await fetch(url, { method, headers: { ...JSON_TYPE, ...this.headers, ...headers }, ...sent });
    const text = await response.text();
    assertDocumented(method, url, response, text, sentOf(JSON_TYPE, sent.body));
    let json: unknown = text;
    try {
      json = JSON.parse(text);
    } catch {
      // A sentence.
    }
    return { status: response.status, headers: response.headers, json };
  }

  /** The answer of a node that has a leader for it. */
  async expect(status: number, method: string, path: string, body?: unknown, headers = {}): Promise<unknown> {
    return (await this.#settled({ status, whenRepeated: status }, method, path, body, headers)).json;
  }

  /** Creates a JSON stream with one event. */
  async create(path: string, ...events: readonly unknown[]): Promise<void> {
    await this.#settled({ status: 201, whenRepeated: 200 }, 'PUT', path, events);
  }

  /** A write of unknown outcome is repeated, and may be one event more. */
  async append(path: string, event: unknown = { event: 1 }): Promise<void> {
    await this.expect(204, 'POST', path, event);
  }

  async subscribe(id: string, config: object, status = 201): Promise<Shown> {
    const path = `__ds/subscriptions/${id}`;
    const whenRepeated = status === 201 ? 200 : status;
    return (await this.#settled({ status, whenRepeated }, 'PUT', path, config)).json as Shown;
  }

  async shown(id: string): Promise<Shown> {
    return (await this.expect(200, 'GET', `__ds/subscriptions/${id}`)) as Shown;
  }

  async acked(id: string, path: string): Promise<number | undefined> {
    const offset = (await this.shown(id)).streams.find((stream) => stream.path === path)?.acked_offset;
    return offset === undefined ? undefined : Number(offset);
  }

  async tailOf(path: string): Promise<number> {
    const { headers } = await this.#settled({ status: 200, whenRepeated: 200 }, 'HEAD', path);
    return Number(headers.get('stream-next-offset'));
  }

  /** Through the URL of the wake, or the same path at another node. */
  async callBack(wake: WakeBody, rest: Acknowledgement, status = 200): Promise<unknown> {
    const path = `__ds/subscriptions/${wake.subscription_id}/callback`;
    const body = { wake_id: wake.wake_id, generation: wake.generation, ...rest };
    return await this.#acknowledge(status, path, body, wake.callback_token);
  }

  async claim(id: string, worker: string): Promise<Claimed> {
    return (await this.expect(200, 'POST', `__ds/subscriptions/${id}/claim`, { worker })) as Claimed;
  }

  async ack(id: string, claimed: Claimed, rest: Acknowledgement, status = 200): Promise<unknown> {
    const body = { wake_id: claimed.wake_id, generation: claimed.generation, ...rest };
    return await this.#acknowledge(status, `__ds/subscriptions/${id}/ack`, body, claimed.token);
  }

  /** Events of a wake stream for one subscription. */
  async wakeEvents(stream: string, id: string): Promise<readonly { generation: number; stream: string }[]> {
    const events = (await this.expect(200, 'GET', stream)) as {
      subscription_id: string;
      generation: number;
      stream: string;
    }[];
    return events.filter((event) => event.subscription_id === id);
  }

  /** The end of a wake that was taken without an answer is taken no second time. */
  async #acknowledge(status: number, path: string, body: Acknowledgement, token: string): Promise<unknown> {
    const expected = { status, whenRepeated: body.done === true ? FENCED : status };
    return (await this.#settled(expected, 'POST', path, body, { authorization: `Bearer ${token}` })).json;
  }

  async #settled(
    { status, whenRepeated }: Expected,
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Replied> {
    const what = `${method} ${path}`;
    const { answer, mayHaveActed } = await patiently(what, () => this.call(method, path, body, headers));
    const isExpected = answer.status === status || (mayHaveActed && answer.status === whenRepeated);
    assert(isExpected, `${what}: ${answer.status} ${JSON.stringify(answer.json)} instead of ${status}`);
    return answer;
  }
}

/** Acks of everything that a wake says. */
export function allOf({ streams }: { readonly streams: readonly WakeStream[] }): object[] {
  return streams.map((stream) => ({ stream: stream.path, offset: stream.tail_offset }));
}
