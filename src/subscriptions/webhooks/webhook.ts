/** One webhook request: a signed POST without redirects, and the meaning of its answer. */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { WEBHOOK_ANSWER_BYTES_MAX } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import { type WebhookRules, guardedLookup, webhookTarget } from './webhook-url.ts';

/** From the connection to the last byte of the answer. A slower receiver answers at once and calls back. */
const TIMEOUT_MS = 30_000;

export interface Delivery {
  readonly url: string;
  readonly rules: WebhookRules;
  readonly body: Uint8Array;
  readonly signature: string;
  readonly signal: AbortSignal;
  readonly runtime: Pick<Runtime, 'setTimer'>;
  /** For tests. */
  readonly timeoutMs?: number;
}

export type DeliveryResult =
  /** {"done": true}. */
  | { readonly result: 'done' }
  /** Any other 2xx: the receiver calls back. */
  | { readonly result: 'taken' }
  | { readonly result: 'failed'; readonly reason: string };

export function deliver(delivery: Delivery): Promise<DeliveryResult> {
  const target = webhookTarget(delivery.url, delivery.rules);
  // The rules may be stricter than when the subscription was created.
  if (!target.ok) return Promise.resolve({ result: 'failed', reason: target.reason });
  const { url, mayConnect } = target;
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0 && !mayConnect(host))
    return Promise.resolve({ result: 'failed', reason: 'not a public address' });
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve) => {
    const settle = (result: DeliveryResult): void => {
      cancel();
      resolve(result);
    };
    const fail = (reason: string): void => settle({ result: 'failed', reason });
    const request = send(
      url,
      {
        method: 'POST',
        // A separate socket: one that another request opened was checked for that request's host.
        agent: false,
        lookup: guardedLookup(mayConnect),
        signal: delivery.signal,
        headers: {
          'content-type': 'application/json',
          'content-length': delivery.body.length,
          'webhook-signature': delivery.signature,
          'user-agent': 'millrace',
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on('error', (error) => fail(error.message));
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes <= WEBHOOK_ANSWER_BYTES_MAX) chunks.push(chunk);
          else response.destroy(new Error(`the answer exceeds ${WEBHOOK_ANSWER_BYTES_MAX} bytes`));
        });
        response.on('end', () => {
          const status = response.statusCode ?? 0;
          if (status < 200 || status > 299) return fail(`status ${status}`);
          return settle({ result: saysDone(Buffer.concat(chunks)) ? 'done' : 'taken' });
        });
      },
    );
    request.on('error', (error) => fail(error.message));
    // Other ends of a connection raise no event, for example an answer that asks for another protocol.
    request.on('close', () => fail('the connection ended without an answer'));
    // A separate timer: AbortSignal.timeout is garbage collected when only another signal listens to it.
    const cancel = delivery.runtime.setTimer(delivery.timeoutMs ?? TIMEOUT_MS, () => {
      fail('no answer in time');
      request.destroy();
    });
    request.end(delivery.body);
  });
}

function saysDone(body: Buffer): boolean {
  try {
    const parsed = JSON.parse(body.toString('utf8')) as unknown;
    return typeof parsed === 'object' && parsed !== null && (parsed as { done?: unknown }).done === true;
  } catch {
    return false;
  }
}
