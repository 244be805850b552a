/** Which receivers failed or took long the last time that they were called, by what their subscriptions have in common. */
import { WEBHOOK_SLOW_RECEIVERS_MAX } from '../../base/limits.ts';
import type { Subscription } from '../state/subscription.ts';

const SLOW_MS = 2000;

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

/** The host, or the wake stream: subscriptions of one host live and die together. */
function receiverOf({ config }: Subscription): string {
  if (config.url === null) return config.wake_stream ?? '';
  return URL.canParse(config.url) ? new URL(config.url).host : config.url;
}
