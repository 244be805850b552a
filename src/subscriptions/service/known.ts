/** The subscriptions as folded on this node, with a way to ensure that they are up to date. */
import type { Machine } from '../state/machine.ts';
import type { Subscription } from '../state/subscription.ts';
import { type KeyPair, Keys } from '../webhooks/webhook-keys.ts';
import type { SubscriptionLog } from './subscription-log.ts';
import { Refusal } from './api-refusal.ts';

export class Known {
  readonly machine: Machine;
  readonly log: SubscriptionLog;
  /** This node's signing key from a file. */
  readonly own: KeyPair | undefined;
  #keys: Keys | undefined;
  /** Names of the keys in #keys. */
  #kids = '';

  constructor(machine: Machine, log: SubscriptionLog, own?: KeyPair) {
    this.machine = machine;
    this.log = log;
    this.own = own;
  }

  /** The subscription; catches up before it reports that there is none. */
  async subscription(id: string): Promise<Subscription> {
    const known = this.machine.subscriptions.get(id);
    if (known !== undefined) return known;
    await this.log.barrier();
    const sub = this.machine.subscriptions.get(id);
    if (sub === undefined) throw new Refusal('SUBSCRIPTION_NOT_FOUND', 'there is no such subscription');
    return sub;
  }

  /** Undefined before the first subscription. */
  keys(): Keys | undefined {
    const saved = this.machine.key;
    if (saved === undefined) return undefined;
    const keys = this.machine.signingKeys;
    const kids = keys.map(({ kid }) => kid).join(' ');
    if (this.#keys === undefined || this.#kids !== kids) this.#keys = new Keys(saved.secret, keys, this.own);
    this.#kids = kids;
    return this.#keys;
  }
}
