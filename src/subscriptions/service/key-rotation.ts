/** Adds signing keys: when an operator asks for one, and when a node has its own from a file. */
import type { Runtime } from '../../base/runtime.ts';
import type { KeyRotation, WebhookKeys } from '../ports.ts';
import { PUBLISH_MS } from '../state/signing-keys.ts';
import { type KeyPair, newKey, newKeyPair } from '../webhooks/webhook-keys.ts';
import type { Known } from './known.ts';

export class Rotation implements WebhookKeys {
  readonly #known: Known;
  readonly #runtime: Pick<Runtime, 'nowMs'>;
  #replacing = false;

  constructor(known: Known, runtime: Pick<Runtime, 'nowMs'>) {
    this.#known = known;
    this.#runtime = runtime;
  }

  async show(): Promise<unknown> {
    await this.#known.log.barrier();
    return this.#shown();
  }

  async rotate(how: KeyRotation): Promise<unknown> {
    const { own, log, machine } = this.#known;
    if (own !== undefined) {
      return 'the key comes from subscriptions.signing_key_file: change that file on all nodes, and restart them one by one';
    }
    await log.ensure();
    await log.barrier();
    if (machine.key === undefined) await log.append({ op: 'key', ...newKey() });
    const at = this.#runtime.nowMs();
    const { code, message } = await this.#append(newKeyPair(), at, how);
    return code === 'OK' ? this.#shown() : (message ?? code);
  }

  /** Subscriptions without a key come from a backup, which holds none: the cluster draws a new one. */
  async replaceLost(): Promise<void> {
    const { machine, log, own } = this.#known;
    if (this.#replacing || machine.key !== undefined || machine.subscriptions.size === 0) return;
    this.#replacing = true;
    try {
      await log.barrier();
      if (machine.key === undefined) await log.append({ op: 'key', ...newKey(own) });
    } finally {
      this.#replacing = false;
    }
  }

  /** The private half of the node's own key stays in its file. */
  async publishOwn(): Promise<void> {
    const { own, machine } = this.#known;
    if (own === undefined || machine.key === undefined) return;
    if (machine.signingKeys.some(({ kid }) => kid === own.kid)) return;
    const at = this.#runtime.nowMs();
    await this.#append({ ...own, d: '' }, at, 'add');
  }

  #append({ kid, x, d }: KeyPair, at: number, how: KeyRotation): ReturnType<Known['log']['append']> {
    const alone = how === 'replace-all';
    const from = alone ? at : at + PUBLISH_MS;
    return this.#known.log.append({ op: 'rotate', at, kid, x, d, from, alone });
  }

  #shown(): unknown {
    return this.#known.keys()?.show(this.#runtime.nowMs()) ?? { kid: null, keys: [] };
  }
}
