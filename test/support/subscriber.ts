// Subscription requests of tests.
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { WakeBody, WakeStream } from './webhook-receiver.ts';

const WAIT_MS = 60_000;
const POLL_MS = 20;
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
  readonly json: unknown;
}

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
    const response = await fetch(`${this.base()}/v1/stream/${path}`, {
      method,
      headers: { ...JSON_TYPE, ...this.headers, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    let json: unknown = text;
    try {
      json = JSON.parse(text);
    } catch {
      // A sentence.
    }
    return { status: response.status, json };
  }

  async expect(status: number, method: string, path: string, body?: unknown, headers = {}): Promise<unknown> {
    const replied = await this.call(method, path, body, headers);
    assert.equal(replied.status, status, `${method} ${path}: ${replied.status} ${JSON.stringify(replied.json)}`);
    return replied.json;
  }

  /** Creates a JSON stream with one event. */
  async create(path: string, ...events: readonly unknown[]): Promise<void> {
    await this.expect(201, 'PUT', path, events);
  }

  async append(path: string, event: unknown = { event: 1 }): Promise<void> {
    await this.expect(204, 'POST', path, event);
  }

  async subscribe(id: string, config: object, status = 201): Promise<Shown> {
    return (await this.expect(status, 'PUT', `__ds/subscriptions/${id}`, config)) as Shown;
  }

  async shown(id: string): Promise<Shown> {
    return (await this.expect(200, 'GET', `__ds/subscriptions/${id}`)) as Shown;
  }

  async acked(id: string, path: string): Promise<number | undefined> {
    const offset = (await this.shown(id)).streams.find((stream) => stream.path === path)?.acked_offset;
    return offset === undefined ? undefined : Number(offset);
  }

  /** Through the URL of the wake, or the same path at another node. */
  async callBack(wake: WakeBody, rest: object, status = 200): Promise<unknown> {
    const path = `__ds/subscriptions/${wake.subscription_id}/callback`;
    const body = { wake_id: wake.wake_id, generation: wake.generation, ...rest };
    return await this.expect(status, 'POST', path, body, { authorization: `Bearer ${wake.callback_token}` });
  }

  async claim(id: string, worker: string): Promise<Claimed> {
    return (await this.expect(200, 'POST', `__ds/subscriptions/${id}/claim`, { worker })) as Claimed;
  }

  async ack(id: string, claimed: Claimed, rest: object, status = 200): Promise<unknown> {
    const body = { wake_id: claimed.wake_id, generation: claimed.generation, ...rest };
    const headers = { authorization: `Bearer ${claimed.token}` };
    return await this.expect(status, 'POST', `__ds/subscriptions/${id}/ack`, body, headers);
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
}

/** Acks of everything that a wake says. */
export function allOf({ streams }: { readonly streams: readonly WakeStream[] }): object[] {
  return streams.map((stream) => ({ stream: stream.path, offset: stream.tail_offset }));
}

/** There is no event across processes: it is asked for again and again. */
export async function eventually(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + WAIT_MS;
  while (!(await holds())) {
    assert(performance.now() < deadlineMs, `not within ${WAIT_MS} ms: ${what}`);
    await delay(POLL_MS);
  }
}
