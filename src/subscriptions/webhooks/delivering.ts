/** How a wake reaches its receiver: a signed POST to the webhook, or an event in the wake stream. */
import { ERRORS } from '../../base/errors.ts';
import { WEBHOOK_SLOW_RECEIVERS_MAX } from '../../base/limits.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ShardGateway } from '../../ports.ts';
import { showIssued } from '../state/show.ts';
import type { Subscription, Wake } from '../state/subscription.ts';
import { splitFlatPath } from '../../protocol/flat-path.ts';
import { callStream } from '../../gateway/shard-client.ts';
import type { Keys } from './webhook-keys.ts';
import { type DeliveryResult, deliver } from './webhook.ts';
import type { WebhookRules } from './webhook-url.ts';
import { COMMANDS } from '../../protocol/operations.ts';

export type Sent = DeliveryResult;
export type Delivering = (sub: Subscription, signal: AbortSignal) => Promise<Sent>;

export interface DeliveringOptions {
  readonly gateway: ShardGateway;
  readonly keys: () => Keys | undefined;
  readonly rules: WebhookRules;
  readonly runtime: Pick<Runtime, 'nowMs' | 'setTimer'>;
}

/** Below the root of the streams, as in all URLs shown. */
export const CONTROL_PATH = '/v1/stream/__ds';

export function delivering(options: DeliveringOptions): Delivering {
  return async (sub, signal) => {
    const { wake } = sub;
    if (wake === undefined) return { result: 'failed', reason: 'the wake is over' };
    return sub.isWebhook ? await callWebhook(options, sub, wake, signal) : await writeEvent(options, sub, wake);
  };
}

async function callWebhook(
  { keys, rules, runtime }: DeliveringOptions,
  sub: Subscription,
  wake: Wake,
  signal: AbortSignal,
): Promise<Sent> {
  const key = keys();
  if (key === undefined) return { result: 'failed', reason: 'the cluster has no signing key' };
  const body = encodeUtf8(
    JSON.stringify({
      subscription_id: sub.id,
      wake_id: wake.id,
      generation: sub.generation,
      streams: showIssued(sub),
      callback_url: `${sub.base}${CONTROL_PATH}/subscriptions/${encodeURIComponent(sub.id)}/callback`,
      callback_token: key.token({ id: sub.id, generation: sub.generation, wakeId: wake.id }, runtime.nowMs()),
    }),
  );
  const signature = key.signature(body, runtime.nowMs());
  if (signature === undefined) {
    return { result: 'failed', reason: 'this node does not have the signing key (subscriptions.signing_key_file)' };
  }
  return await deliver({ url: sub.config.url ?? '', rules, body, signature, signal, runtime });
}

/** The wake stream belongs to the application: a refused event is retried like a webhook that does not answer. */
async function writeEvent({ gateway, runtime }: DeliveringOptions, sub: Subscription, wake: Wake): Promise<Sent> {
  const event = {
    type: 'wake',
    subscription_id: sub.id,
    stream: wake.tails[0]?.[0] ?? '',
    generation: sub.generation,
    ts: runtime.nowMs(),
  };
  const answer = await callStream(gateway, COMMANDS.append, {
    ...splitFlatPath(sub.config.wake_stream ?? ''),
    contentType: 'application/json',
    payload: encodeUtf8(JSON.stringify(event)),
  });
  if (answer.code === 'OK') return { result: 'taken' };
  return { result: 'failed', reason: `the wake stream: ${ERRORS[answer.code].text}` };
}

/** A slower receiver is called separately from the others next time. */
const SLOW_MS = 2000;

/** Receivers that failed or were slow last time, identified by what their subscriptions share. */
export class SlowReceivers {
  readonly #slow = new Set<string>();

  has(sub: Subscription): boolean {
    return this.#slow.has(receiverOf(sub));
  }

  note(sub: Subscription, isTaken: boolean, tookMs: number): void {
    const receiver = receiverOf(sub);
    if (isTaken && tookMs < SLOW_MS) {
      this.#slow.delete(receiver);
      return;
    }
    if (this.#slow.size >= WEBHOOK_SLOW_RECEIVERS_MAX) this.#slow.clear();
    this.#slow.add(receiver);
  }
}

/** The host, or the wake stream: subscriptions of one host fail together. */
function receiverOf({ config }: Subscription): string {
  if (config.url === null) return config.wake_stream ?? '';
  return URL.canParse(config.url) ? new URL(config.url).host : config.url;
}
