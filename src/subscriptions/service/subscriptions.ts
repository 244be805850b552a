/**
 * Subscriptions on this node: the fold of their log, the routes, and, on the node that leads the log's group, the
 * driver. All nodes fold, so the next leader continues from the log.
 */
import type { ControlPort, Inspection, WebhookKeys } from '../ports.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ShardGateway } from '../../ports.ts';
import type { StreamTail } from '../state/decide.ts';
import { Machine } from '../state/machine.ts';
import type { Subscription } from '../state/subscription.ts';
import type { Logger } from '../../logging/logger.ts';
import { SubscriptionApi } from './api.ts';
import { checkpointDue, writeCheckpoint } from './checkpoint.ts';
import { type Delivering, delivering } from '../webhooks/delivering.ts';
import { Directory } from './stream-directory.ts';
import { Driver } from './driver.ts';
import { Inspector } from './inspection.ts';
import { keyPairOf } from '../webhooks/webhook-keys.ts';
import { Known } from './known.ts';
import { Linker } from './linker.ts';
import { LOG } from '../state/record.ts';
import { LOG_PATH, SubscriptionLog } from './subscription-log.ts';
import { Membership } from './subscription-membership.ts';
import { Rotation } from './key-rotation.ts';
import { Tails } from './tails.ts';
import type { WebhookRules } from '../webhooks/webhook-url.ts';
import { Workers } from './workers.ts';

/** Interval of checks for leadership and for a due checkpoint. */
const TICK_MS = 500;
/** Interval of a full check for changes that no event reported (there should be none). */
const RECONCILE_MS = 300_000;

export interface SubscriptionsOptions {
  readonly gateway: ShardGateway;
  /** Whether this node leads the group, to its knowledge; a moment's delay is acceptable. */
  readonly leads: (group: number) => boolean;
  readonly rules: WebhookRules;
  readonly publicUrl: string | undefined;
  /** PEM of an Ed25519 private key; undefined: the cluster makes one. */
  readonly signingKey?: string | undefined;
  readonly log: Logger;
  readonly runtime: Runtime;
  /** In place of webhooks and wake streams; for tests. */
  readonly send?: Delivering;
  /** Log size that triggers a checkpoint; for tests. */
  readonly checkpointBytes?: number;
}

export class Subscriptions {
  readonly api: ControlPort;
  readonly webhookKeys: WebhookKeys;
  readonly inspection: Inspection;
  readonly #options: SubscriptionsOptions;
  readonly #group: number;
  readonly #tails: Tails;
  readonly #machine: Machine;
  readonly #directory: Directory;
  readonly #log: SubscriptionLog;
  readonly #known: Known;
  readonly #driver: Driver;
  readonly #linker: Linker;
  readonly #rotation: Rotation;
  #cancelTick: (() => void) | undefined;
  #reconciledMs = 0;
  #checkpointing = false;
  #starting = false;
  #stopped = false;
  #checkpoints = 0;

  constructor(options: SubscriptionsOptions) {
    const { gateway, rules, publicUrl, log, runtime } = options;
    this.#options = options;
    this.#group = gateway.groupOf(LOG.bucket, LOG.stream);
    this.#tails = new Tails(gateway, runtime, {
      moved: (path, tail, removed) => this.#moved(path, tail, removed),
      found: (path, tail) => this.#found(path, tail),
      missed: () => this.#reconcileAll(),
    });
    const tails = this.#tails;
    const directory = new Directory(tails);
    const machine = new Machine(directory);
    this.#directory = directory;
    this.#machine = machine;
    this.#log = new SubscriptionLog({ gateway, tails, machine, log, runtime, lost: () => this.#driver.stop() });
    const own = options.signingKey === undefined ? undefined : keyPairOf(options.signingKey);
    this.#known = new Known(machine, this.#log, own);
    const known = this.#known;
    this.#driver = new Driver({
      tails,
      isCurrent: (sub) => machine.subscriptions.get(sub.id) === sub,
      append: (command) => this.#log.append(command),
      send: options.send ?? delivering({ gateway, keys: () => known.keys(), rules, runtime }),
      log,
      runtime,
    });
    this.#linker = new Linker({
      gateway,
      machine,
      directory,
      tails,
      append: (commands) => this.#log.appendAll(commands),
      isDriving: () => this.#driver.driving,
      runtime,
      log,
    });
    directory.follower = {
      touch: (sub) => this.#driver.touch(sub),
      reconcile: (sub) => this.#linker.reconcile(sub),
      removed: (sub) => this.#driver.removed(sub),
    };
    this.api = new SubscriptionApi(
      new Membership({ gateway, known, tails, rules, publicUrl, runtime }),
      new Workers({ gateway, known, tails, runtime }),
    );
    this.inspection = new Inspector({ machine, driver: this.#driver, tailOf: (path) => tails.of(path) });
    this.#rotation = new Rotation(known, runtime);
    this.webhookKeys = this.#rotation;
  }

  start(): void {
    void this.#log.start();
    this.#tick();
  }

  /** Ends deliveries; another node, or the next start, continues. */
  stop(): void {
    this.#stopped = true;
    this.#cancelTick?.();
    this.#driver.stop();
  }

  /** Called before the shards end. */
  close(): void {
    this.stop();
    this.#tails.close();
    this.#log.close();
  }

  metrics(): Record<string, unknown> {
    const { subscriptions, links, bytes } = this.#machine;
    const all = [...subscriptions.values()];
    const count = (test: (sub: Subscription) => boolean): number => all.filter(test).length;
    const { wakes, delivered, failed, expired } = this.#driver.counters;
    return {
      subscriptions: {
        driving: this.#driver.driving,
        total: all.length,
        webhook: count((sub) => sub.isWebhook),
        streams: links,
        state_bytes: bytes,
        wakes_under_way: count((sub) => sub.wake !== undefined),
        claimed: count((sub) => sub.holder !== undefined),
        failing: count((sub) => sub.failures > 0),
        deliveries_under_way: this.#driver.inFlight,
        deliveries_queued: this.#driver.queued,
        wakes,
        delivered,
        delivery_failures: failed,
        leases_expired: expired,
        links_refused: this.#linker.refused,
        log_records: this.#log.records,
        log_bytes: this.#log.bytes,
        checkpoints: this.#checkpoints,
        unknown_records: this.#machine.unknown,
      },
    };
  }

  #moved(path: string, tail: StreamTail, removed: boolean): void {
    if (path === LOG_PATH) return this.#log.moved();
    this.#linker.moved(path, tail, removed);
    return this.#touchPath(path);
  }

  #found(path: string, tail: StreamTail): void {
    if (path === LOG_PATH) return this.#log.moved();
    this.#linker.found(path, tail);
    return this.#touchPath(path);
  }

  /** Those with a running wake check for more when it is over. */
  #touchPath(path: string): void {
    if (!this.#driver.driving) return;
    for (const sub of this.#directory.of(path) ?? []) if (sub.wake === undefined) this.#driver.touch(sub);
  }

  #tick(): void {
    this.#cancelTick = this.#options.runtime.setTimer(TICK_MS, () => this.#tick());
    const leads = this.#options.leads(this.#group);
    if (!leads) {
      if (this.#driver.driving) this.#driver.stop();
      return;
    }
    if (!this.#driver.driving) {
      void this.#drive();
      return;
    }
    void this.#rotation.replaceLost().catch((error: unknown) => {
      this.#options.log.debug({ err: error }, 'no key could be drawn; it is tried again');
    });
    if (this.#options.runtime.monotonicMs() - this.#reconciledMs > RECONCILE_MS) this.#reconcileAll();
    if (!this.#checkpointing && checkpointDue(this.#known, this.#options.checkpointBytes)) void this.#checkpoint();
  }

  /** Not before everything is folded: the log is full of past wakes. */
  async #drive(): Promise<void> {
    if (this.#starting) return;
    this.#starting = true;
    try {
      await this.#log.barrier();
      await this.#rotation.publishOwn();
      if (!this.#options.leads(this.#group) || this.#stopped) return;
      this.#driver.start(this.#machine.subscriptions.values());
      this.#reconcileAll();
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the log of subscriptions is behind; it is tried again');
    } finally {
      this.#starting = false;
    }
  }

  #reconcileAll(): void {
    this.#reconciledMs = this.#options.runtime.monotonicMs();
    for (const sub of this.#machine.subscriptions.values()) this.#linker.reconcile(sub);
  }

  async #checkpoint(): Promise<void> {
    this.#checkpointing = true;
    try {
      if (await writeCheckpoint(this.#options.gateway, this.#known)) this.#checkpoints++;
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the log of subscriptions could not be checkpointed; it is tried again');
    } finally {
      this.#checkpointing = false;
    }
  }
}
