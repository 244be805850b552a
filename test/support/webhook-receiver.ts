// A webhook receiver on loopback: keeps the requests, answers as the test says, and lets it wait for the next one.
import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { type ServerOptions, createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { assertSchema } from './documented.ts';
import { patiently } from './patient.ts';
import { within } from './server.ts';
import { PATIENCE_MS } from './until.ts';

export interface WakeStream {
  readonly path: string;
  readonly link_type: string;
  readonly acked_offset: string;
  readonly tail_offset: string;
  readonly has_pending: boolean;
}

export interface WakeBody {
  readonly subscription_id: string;
  readonly wake_id: string;
  readonly generation: number;
  readonly streams: readonly WakeStream[];
  readonly callback_url: string;
  readonly callback_token: string;
}

export interface Received {
  readonly body: WakeBody;
  readonly raw: string;
  readonly signature: string;
  readonly path: string;
  readonly atMs: number;
}

/** The answer: a status, or a body with 200; undefined: nothing, the connection stays open. */
export type Answering = (received: Received) => number | object | undefined;

export class WebhookReceiver {
  readonly received: Received[] = [];
  answer: Answering;
  #server: Server;
  readonly #scheme: string;
  #next = 0;
  readonly #waiters: (() => void)[] = [];

  private constructor(answer: Answering, tls: ServerOptions | undefined) {
    this.answer = answer;
    this.#scheme = tls === undefined ? 'http' : 'https';
    const take = (request: IncomingMessage, response: ServerResponse): void => void this.#take(request, response);
    this.#server = tls === undefined ? createServer(take) : createSecureServer(tls, take);
  }

  static async start(answer: Answering = () => 200, tls?: ServerOptions): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver(answer, tls);
    await new Promise<void>((resolve) => {
      receiver.#server.listen(0, '127.0.0.1', resolve);
    });
    return receiver;
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }

  /** The oldest that no earlier call returned. */
  async next(): Promise<Received> {
    const index = this.#next++;
    const came = new Promise<void>((resolve) => {
      const look = (): void => {
        if (this.received.length > index) resolve();
        else this.#waiters.push(look);
      };
      look();
    });
    await within(came, PATIENCE_MS, `webhook request ${index + 1}`);
    const received = this.received[index] as Received;
    assertSchema('Wake', received.raw);
    return received;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const raw = Buffer.concat(chunks).toString('utf8');
    const received: Received = {
      raw,
      body: JSON.parse(raw === '' ? '{}' : raw) as WakeBody,
      signature: String(request.headers['webhook-signature']),
      path: request.url ?? '',
      atMs: performance.now(),
    };
    const answer = this.answer(received);
    this.received.push(received);
    for (const look of this.#waiters.splice(0)) look();
    if (answer === undefined) return;
    if (typeof answer !== 'number') response.end(JSON.stringify(answer));
    else response.writeHead(answer, answer === 302 ? { location: '/elsewhere' } : {}).end();
  }
}

/** As receivers are told to verify it: the key set, the raw body, the time. */
export async function assertSigned(received: Received, jwksUrl: string): Promise<void> {
  const { answer } = await patiently(jwksUrl, () => fetch(jwksUrl));
  const { keys } = (await answer.json()) as { keys: readonly Readonly<Record<string, string>>[] };
  const [, seconds, kid, signature] = /^t=(\d+),kid=([^,]+),ed25519=([\w-]+)$/.exec(received.signature) ?? [];
  const jwk = keys.find((key) => key['kid'] === kid);
  assert(jwk !== undefined && signature !== undefined, `a key ${kid} for ${received.signature}`);
  const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
  assert(verify(null, Buffer.from(`${seconds}.${received.raw}`), key, Buffer.from(signature, 'base64url')));
}
