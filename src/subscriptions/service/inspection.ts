/** Subscriptions for operators: what each waits for, and a delivery that is tried again at once. */
import type { InspectedPage, InspectedSubscription, Inspection } from '../ports.ts';
import { compareText } from '../../base/text.ts';
import { type TailOf, hasPending } from '../state/decide.ts';
import type { Machine } from '../state/machine.ts';
import type { Subscription } from '../state/subscription.ts';
import type { Driver } from './driver.ts';

export interface InspectorOptions {
  readonly machine: Pick<Machine, 'subscriptions'>;
  readonly driver: Pick<Driver, 'driving' | 'hurry' | 'lastError'>;
  readonly tailOf: TailOf;
}

export class Inspector implements Inspection {
  readonly #options: InspectorOptions;

  constructor(options: InspectorOptions) {
    this.#options = options;
  }

  list(after: string, limit: number): InspectedPage {
    const { machine, driver } = this.#options;
    const behind = [...machine.subscriptions.values()].filter(({ id }) => after === '' || compareText(id, after) > 0);
    const sorted = behind.sort((a, b) => compareText(a.id, b.id));
    const page = sorted.slice(0, limit);
    return {
      driving: driver.driving,
      subscriptions: page.map((sub) => this.#show(sub)),
      next_cursor: sorted.length > limit ? (page.at(-1)?.id ?? null) : null,
    };
  }

  deliver(id: string): ReturnType<Inspection['deliver']> {
    const { machine, driver } = this.#options;
    const sub = machine.subscriptions.get(id);
    if (sub === undefined) return 'not-found';
    if (!driver.driving) return 'not-driving';
    if (sub.nextAttemptAtMs < 0) return 'not-waiting';
    driver.hurry(sub);
    return 'trying';
  }

  #show(sub: Subscription): InspectedSubscription {
    const { config, wake } = sub;
    return {
      id: sub.id,
      type: config.type,
      target: config.url ?? config.wake_stream,
      pattern: config.pattern,
      streams: sub.links.size,
      has_pending: hasPending(sub, this.#options.tailOf),
      generation: sub.generation,
      wake_under_way: wake !== undefined,
      delivered: wake?.delivered === true,
      holder: sub.holder ?? null,
      lease_until_ms: sub.leaseUntilMs < 0 ? null : sub.leaseUntilMs,
      failures: sub.failures,
      next_attempt_at_ms: sub.nextAttemptAtMs < 0 ? null : sub.nextAttemptAtMs,
      last_error: this.#options.driver.lastError(sub) ?? null,
    };
  }
}
