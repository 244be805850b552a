/** Actions of receivers and workers on a wake: claim, acknowledge, release. */
import { MillraceError } from '../../base/errors.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ShardGateway } from '../../ports.ts';
import { hasPending } from '../state/decide.ts';
import type { LinkPosition, Subscription, SubscriptionConfig } from '../state/subscription.ts';
import type { WakeRequest } from '../state/requests.ts';
import { showPresent } from '../state/show.ts';
import { parseUint53 } from '../../protocol/header-values.ts';
import { Refusal, refuseUnless } from './api-refusal.ts';
import { newWakeId } from './driver.ts';
import type { Keys, TokenClaims } from '../webhooks/webhook-keys.ts';
import type { Known } from './known.ts';
import { reaches } from './locate.ts';
import type { Tails } from './tails.ts';

/** As long as a read waits for its group. */
const KNOWN_MS = 5000;

const NO_STREAM = 'there is no such stream now: end this wake without it';

export interface WorkersOptions {
  readonly gateway: ShardGateway;
  readonly known: Known;
  readonly tails: Tails;
  readonly runtime: Runtime;
}

export class Workers {
  readonly #options: WorkersOptions;

  constructor(options: WorkersOptions) {
    this.#options = options;
  }

  async claim(id: string, worker: string): Promise<unknown> {
    const { known, tails, runtime } = this.#options;
    let sub = await known.subscription(id);
    requireType(sub, 'pull-wake');
    await inTime(runtime, tails.known(sub.links.keys()));
    if (this.#claimRefusal(sub) !== undefined) {
      // This node may be behind: a worker comes because of an event, or because it just wrote one itself.
      await known.log.barrier();
      await tails.settled();
      sub = await known.subscription(id);
      const refusal = this.#claimRefusal(sub);
      if (refusal !== undefined) throw refusal;
    }
    const { links } = sub;
    const positions = [...links.keys()].map((path): LinkPosition => {
      const tail = tails.of(path);
      return [path, tail?.incarnation ?? 0, tail?.offset ?? 0];
    });
    const pending = positions.filter(([path, , offset]) => offset > (links.get(path)?.acked ?? 0));
    const at = runtime.nowMs();
    const outcome = await known.log.append({ op: 'claim', id, at, worker, wake: newWakeId(runtime), tails: pending });
    const claimed = await known.subscription(id);
    if (outcome.code === 'ALREADY_CLAIMED') throw alreadyClaimed(claimed);
    refuseUnless(outcome, 'OK');
    // Changes between the record and this moment belong to another worker.
    const { wake, generation, config } = claimed;
    if (wake === undefined || claimed.holder !== worker) throw new Refusal('FENCED', 'the lease is over already');
    return {
      wake_id: wake.id,
      generation,
      token: this.#keys().token({ id, generation, wakeId: wake.id }, runtime.nowMs()),
      streams: showPresent(claimed, (path) => tails.of(path)),
      lease_ttl_ms: config.lease_ttl_ms,
    };
  }

  /** Whether another wake follows. */
  async ack(id: string, type: SubscriptionConfig['type'], token: string, request: WakeRequest): Promise<boolean> {
    const { known, tails, runtime } = this.#options;
    const sub = await this.#authorized(id, type, token, request);
    // A node that is behind does not know the wake, and what it was about, yet.
    if (request.acks.length > 0 && sub.wake?.id !== request.wakeId) await known.log.barrier();
    const acks = await Promise.all(request.acks.map(([path, offset]) => this.#position(sub, path, offset)));
    const { wakeId: wake, generation, done } = request;
    refuseUnless(await known.log.append({ op: 'ack', id, at: runtime.nowMs(), wake, generation, acks, done }), 'OK');
    return done && hasPending(sub, (path) => tails.of(path));
  }

  async release(id: string, token: string, request: WakeRequest): Promise<void> {
    const { known, runtime } = this.#options;
    await this.#authorized(id, 'pull-wake', token, request);
    const { wakeId: wake, generation } = request;
    refuseUnless(await known.log.append({ op: 'release', id, at: runtime.nowMs(), wake, generation }), 'OK');
  }

  /** Whether the token is this subscription's; false: this node cannot tell yet. Throws the refusal. */
  recognizes(id: string, token: string): boolean {
    const keys = this.#options.known.keys();
    if (keys === undefined) return false;
    this.#claims(keys, id, token);
    return true;
  }

  /** As recognizes(), asking the cluster if necessary. These routes are open to everyone, so this comes first. */
  async authenticate(id: string, token: string): Promise<TokenClaims> {
    const { known } = this.#options;
    if (known.keys() === undefined) await known.log.barrier();
    return this.#claims(this.#keys(), id, token);
  }

  #claims(keys: Keys, id: string, token: string): TokenClaims {
    const check = keys.check(token, id, this.#options.runtime.nowMs());
    if (check.ok) return check.claims;
    throw new Refusal(check.code, check.code === 'TOKEN_EXPIRED' ? 'the token is too old' : 'the token is not valid');
  }

  async #authorized(
    id: string,
    type: SubscriptionConfig['type'],
    token: string,
    request: WakeRequest,
  ): Promise<Subscription> {
    const { generation, wakeId } = await this.authenticate(id, token);
    const sub = await this.#options.known.subscription(id);
    requireType(sub, type);
    if (generation !== request.generation || wakeId !== request.wakeId) {
      throw new Refusal('FENCED', 'the token belongs to another wake');
    }
    return sub;
  }

  /** An acknowledged offset is one that the stream has reached which the wake was about: not a later one of its name. */
  async #position(sub: Subscription, path: string, text: string): Promise<LinkPosition> {
    const position = await this.#reached(sub, path, text);
    const woken = sub.wake?.tails.find(([one]) => one === path);
    if (woken === undefined || woken[1] === position[1]) return position;
    throw new Refusal(
      'INVALID_OFFSET',
      `${path} was deleted and recreated: end this wake, the next one is about the new stream`,
    );
  }

  async #reached(sub: Subscription, path: string, text: string): Promise<LinkPosition> {
    const offset = parseUint53(text);
    if (!offset.ok) throw new Refusal('INVALID_OFFSET', `${path}: ${offset.reason}`);
    // A node that is behind does not know the link yet.
    if (!sub.links.has(path)) await this.#options.known.log.barrier();
    const link = sub.links.get(path);
    if (link === undefined) throw new Refusal('INVALID_OFFSET', `${path} is no stream of the subscription`);
    const tail = this.#options.tails.of(path);
    const isSame = tail !== undefined && (link.incarnation === 0 || link.incarnation === tail.incarnation);
    if (isSame && tail.incarnation !== 0 && offset.value <= tail.offset) {
      return [path, tail.incarnation, offset.value];
    }
    const { incarnation, code } = await reaches(this.#options.gateway, path, offset.value);
    if (incarnation === 0) {
      const reason = code === 'OFFSET_OUT_OF_RANGE' ? 'the offset lies beyond the tail' : NO_STREAM;
      throw new Refusal('INVALID_OFFSET', `${path}: ${reason}`);
    }
    return [path, incarnation, offset.value];
  }

  #claimRefusal(sub: Subscription): Refusal | undefined {
    if (sub.holder !== undefined) return alreadyClaimed(sub);
    if (sub.wake !== undefined || hasPending(sub, (path) => this.#options.tails.of(path))) return undefined;
    return new Refusal('NO_PENDING_WORK', 'the subscription has no pending events');
  }

  #keys(): Keys {
    const keys = this.#options.known.keys();
    if (keys === undefined) throw new Refusal('TOKEN_INVALID', 'the cluster has no key');
    return keys;
  }
}

/** A group that catches up, or is being imported, may take long. */
async function inTime(runtime: Pick<Runtime, 'setTimer'>, known: Promise<void>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const cancel = runtime.setTimer(KNOWN_MS, () => reject(new MillraceError('CATCHING_UP')));
    known.then(resolve, reject).finally(cancel);
  });
}

function alreadyClaimed(sub: Subscription): Refusal {
  const more = { current_holder: sub.holder ?? '', generation: sub.generation };
  return new Refusal('ALREADY_CLAIMED', 'another worker holds the lease', more);
}

function requireType(sub: Subscription, type: SubscriptionConfig['type']): void {
  if (sub.config.type !== type) throw new Refusal('INVALID_REQUEST', `the subscription is not of type ${type}`);
}
