/** Creates, deletes and changes subscriptions: any node does it for a client, by appending commands to the log. */
import { createHash } from 'node:crypto';
import { MillraceError } from '../../base/errors.ts';
import { SUBSCRIPTION_LINKS_MAX } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ShardGateway } from '../../ports.ts';
import type { ControlRights } from '../ports.ts';
import type { Outcome } from '../state/record.ts';
import { wakesItself } from '../state/requests.ts';
import { type LinkPosition, Subscription, type SubscriptionConfig } from '../state/subscription.ts';
import { type Signing, showSubscription } from '../state/show.ts';
import { Refusal, refuseUnless } from './api-refusal.ts';
import { CONTROL_PATH } from '../webhooks/delivering.ts';
import { type Keys, newKey } from '../webhooks/webhook-keys.ts';
import type { Known } from './known.ts';
import { listMatching } from './listing.ts';
import { locate } from './locate.ts';
import type { Tails } from './tails.ts';
import { type WebhookRules, webhookTarget } from '../webhooks/webhook-url.ts';

/** Concurrent lookups of streams. */
const LOOKUPS_AT_ONCE = 64;
/** A valid Host header: it becomes part of URLs that others call. */
const ORIGIN = /^https?:\/\/[A-Za-z0-9._:[\]-]+$/;

export interface MembershipOptions {
  readonly gateway: ShardGateway;
  readonly known: Known;
  readonly tails: Tails;
  readonly rules: WebhookRules;
  /** Scheme and authority under which receivers reach the cluster; undefined: those that the creating client used. */
  readonly publicUrl: string | undefined;
  readonly runtime: Pick<Runtime, 'nowMs'>;
}

export class Membership {
  readonly #options: MembershipOptions;

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  async jwks(): Promise<ReturnType<Keys['jwks']>> {
    const { known, runtime } = this.#options;
    if (known.keys() === undefined) await known.log.barrier();
    return known.keys()?.jwks(runtime.nowMs()) ?? { keys: [] };
  }

  async create(
    id: string,
    config: SubscriptionConfig,
    origin: string,
    rights?: ControlRights,
  ): Promise<{ created: boolean; shown: unknown }> {
    const { known, rules, runtime } = this.#options;
    if (config.url !== null) {
      const target = webhookTarget(config.url, rules);
      if (!target.ok) throw new Refusal('WEBHOOK_URL_REJECTED', target.reason);
    }
    const base = this.#base(origin);
    await known.log.barrier();
    const hash = createHash('sha256').update(JSON.stringify(config)).digest('hex');
    const { subscriptions } = known.machine;
    if (subscriptions.get(id)?.hash === hash) return { created: false, shown: await this.show(id, origin) };
    // One that is there is refused for that.
    const making = subscriptions.has(id) ? undefined : rights?.makesOneMore(id, subscriptions);
    if (typeof making === 'string') throw new Refusal('SUBSCRIPTIONS_LIMITED', making);
    let outcome: Outcome;
    try {
      await this.#ensureKey();
      const links = await this.#initialLinks(id, config, hash, base);
      outcome = await known.log.append({ op: 'create', id, at: runtime.nowMs(), config, hash, base, links });
    } finally {
      making?.made();
    }
    refuseUnless(outcome, 'OK', 'CREATED');
    return { created: outcome.code === 'CREATED', shown: await this.show(id, origin) };
  }

  /** Refused when there is none. */
  async find(id: string): Promise<Subscription> {
    return await this.#options.known.subscription(id);
  }

  async show(id: string, origin: string): Promise<unknown> {
    const sub = await this.#options.known.subscription(id);
    const createdAt = new Date(sub.createdAtMs).toISOString();
    return showSubscription(sub, this.#signing(origin), createdAt);
  }

  async delete(id: string): Promise<void> {
    const { known, runtime } = this.#options;
    if (!known.machine.subscriptions.has(id)) {
      await known.log.barrier();
      if (!known.machine.subscriptions.has(id)) return;
    }
    refuseUnless(await known.log.append({ op: 'delete', id, at: runtime.nowMs() }), 'OK', 'SUBSCRIPTION_NOT_FOUND');
  }

  async add(id: string, paths: readonly string[]): Promise<void> {
    const { known, runtime } = this.#options;
    const { config } = await known.subscription(id);
    const looped = wakesItself(config.wake_stream, paths);
    if (looped !== undefined) throw new Refusal('INVALID_REQUEST', looped);
    const links = await this.#positions(paths);
    refuseUnless(await known.log.append({ op: 'add', id, at: runtime.nowMs(), links }), 'OK');
  }

  async remove(id: string, path: string): Promise<void> {
    const { known, runtime } = this.#options;
    await known.subscription(id);
    refuseUnless(await known.log.append({ op: 'remove', id, at: runtime.nowMs(), path }), 'OK');
  }

  /** Existing streams at their tails, and explicit ones that may be created later at their beginning. */
  async #initialLinks(id: string, config: SubscriptionConfig, hash: string, base: string): Promise<LinkPosition[]> {
    const paths = new Set(config.streams);
    if (config.pattern !== null) {
      const candidate = new Subscription(id, config, hash, 0, base);
      const found = await listMatching(this.#options.gateway, config.pattern, SUBSCRIPTION_LINKS_MAX + 1);
      for (const path of found) if (candidate.matches(path)) paths.add(path);
    }
    if (paths.size > SUBSCRIPTION_LINKS_MAX) {
      throw new Refusal('LIMIT_EXCEEDED', `a subscription has at most ${SUBSCRIPTION_LINKS_MAX} streams`);
    }
    const explicit = new Set(config.streams);
    const positions = await this.#positions([...paths]);
    // Listed streams that are already gone are omitted.
    return positions.filter(([path, incarnation]) => incarnation !== 0 || explicit.has(path));
  }

  async #positions(paths: readonly string[]): Promise<LinkPosition[]> {
    const positions: LinkPosition[] = [];
    for (let from = 0; from < paths.length; from += LOOKUPS_AT_ONCE) {
      const some = paths.slice(from, from + LOOKUPS_AT_ONCE);
      positions.push(...(await Promise.all(some.map((path) => this.#position(path)))));
    }
    return positions;
  }

  async #position(path: string): Promise<LinkPosition> {
    const { incarnation, offset } = await locate(this.#options.gateway, path);
    return [path, incarnation, offset];
  }

  /** The first one in the log is the cluster's. */
  async #ensureKey(): Promise<void> {
    const { log } = this.#options.known;
    await log.ensure();
    if (this.#options.known.keys() === undefined) await log.append({ op: 'key', ...newKey(this.#options.known.own) });
  }

  #base(origin: string): string {
    const base = this.#options.publicUrl ?? origin;
    if (!ORIGIN.test(base)) throw new Refusal('INVALID_REQUEST', 'the Host header is not a host and port');
    return base;
  }

  #signing(origin: string): Signing {
    const { known, runtime } = this.#options;
    const kid = known.keys()?.kid(runtime.nowMs());
    if (kid === undefined) throw new MillraceError('CATCHING_UP');
    return { alg: 'ed25519', kid, jwks_url: `${this.#base(origin)}${CONTROL_PATH}/jwks.json` };
  }
}
