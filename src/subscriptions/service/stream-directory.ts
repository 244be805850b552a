/** Maps streams to subscriptions, and requests from the shards what they follow. */
import type { MachineListener } from '../state/machine.ts';
import type { Subscription } from '../state/subscription.ts';
import type { Tails } from './tails.ts';

/** Reacts to changes. */
export interface Follower {
  touch(sub: Subscription): void;
  /** Its pattern may match streams that are not linked yet. */
  reconcile(sub: Subscription): void;
  removed(sub: Subscription): void;
}

/** No segment is empty. */
const ANY = '';

export class Directory implements MachineListener {
  follower: Follower | undefined = undefined;
  readonly #tails: Tails;
  readonly #byPath = new Map<string, Set<Subscription>>();
  /** By the first segment of the pattern; ANY when that is a wildcard. Every event is matched against them. */
  readonly #patterned = new Map<string, Set<Subscription>>();

  constructor(tails: Tails) {
    this.#tails = tails;
  }

  of(path: string): ReadonlySet<Subscription> | undefined {
    return this.#byPath.get(path);
  }

  /** Those with a pattern that matches the path and no link to it. */
  *matching(path: string): Generator<Subscription> {
    const slash = path.indexOf('/');
    const first = slash < 0 ? path : path.slice(0, slash);
    for (const subs of [this.#patterned.get(first), this.#patterned.get(ANY)]) {
      for (const sub of subs ?? []) if (!sub.links.has(path) && sub.matches(path)) yield sub;
    }
  }

  added(sub: Subscription): void {
    if (sub.config.pattern === null) return;
    const first = firstOf(sub);
    const subs = this.#patterned.get(first);
    if (subs === undefined) this.#patterned.set(first, new Set([sub]));
    else subs.add(sub);
    // Streams created between the listing and this moment are found by another listing.
    void this.#tails.wantPattern(sub.config.pattern).then(() => this.follower?.reconcile(sub));
  }

  removed(sub: Subscription): void {
    this.#forgetPattern(sub);
    this.follower?.removed(sub);
  }

  #forgetPattern(sub: Subscription): void {
    const first = firstOf(sub);
    const subs = this.#patterned.get(first);
    if (subs?.delete(sub) !== true || sub.config.pattern === null) return;
    if (subs.size === 0) this.#patterned.delete(first);
    this.#tails.releasePattern(sub.config.pattern);
  }

  changed(sub: Subscription): void {
    this.follower?.touch(sub);
  }

  linked(sub: Subscription, path: string): void {
    const subs = this.#byPath.get(path);
    if (subs === undefined) this.#byPath.set(path, new Set([sub]));
    else subs.add(sub);
    void this.#tails.want(path);
  }

  unlinked(sub: Subscription, path: string): void {
    const subs = this.#byPath.get(path);
    subs?.delete(sub);
    if (subs?.size === 0) this.#byPath.delete(path);
    this.#tails.release(path);
  }
}

function firstOf(sub: Subscription): string {
  return sub.glob?.literalFront[0] ?? ANY;
}
