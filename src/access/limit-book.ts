/**
 * The meters of this node, by token and by bucket. Only those that have a limit are metered, so a node without limits
 * keeps nothing but who has live readers, and asks no clock. Names come from outside: a bounded number is kept, and those that use
 * nothing go first. Each node counts what it serves itself.
 */
import { type UseLimits, type NodeLimits, NO_LIMITS } from '../base/use-limits.ts';
import { Meter, type Used } from './meter.ts';
import { type ReaderPlaces, ReaderShares } from './reader-shares.ts';
import type { Scope } from '../base/scopes.ts';
import { type Grant, decideBucket } from './scopes.ts';

/** Meters of tokens, and as many of buckets: a few hundred bytes each, and the name. Of more some begin afresh. */
const METERS_MAX = 10_000;
/** So many are forgotten at once: a look at all of them takes a fraction of a millisecond. */
const ROOM = METERS_MAX / 16;
/** Shares of subscriptions for which is remembered what they have. */
const SHARES_MAX = 64;
/** Tokens in the metrics, and as many buckets. */
const SHOWN_MAX = 16;
/** A bucket's name has at most so many characters in a sentence. */
const SHOWN_CHARS_MAX = 80;

export interface LimitSettings {
  readonly node: NodeLimits;
  /** Tokens of the file with limits of their own, by id. */
  readonly tokens: readonly (readonly [id: string, allowance: UseLimits])[];
}

export class LimitBook {
  /** When the newest request came. */
  clockMs = 0;
  readonly tokens = new Meters('token', () => this.clockMs);
  readonly buckets = new Meters('bucket', () => this.clockMs);
  readonly readers = new ReaderShares();
  /** By the text of the scopes: tokens of one parent come with copies. The one that was used last is the last one. */
  readonly #shares = new Map<string, WeakMap<object, boolean>>();

  constructor(settings: LimitSettings = { node: NO_LIMITS, tokens: [] }) {
    this.replace(settings);
  }

  /** Other limits from the next request on. */
  replace({ node, tokens }: LimitSettings): void {
    this.tokens.replace(node.token, tokens);
    this.buckets.replace(node.bucket, node.buckets);
  }

  /** `grant`: only its own, and those of buckets that it may list as a whole. */
  metrics(grant?: Grant): Readonly<Record<string, unknown>> {
    const isItself = grant && ((name: string) => name === accountOf(grant) && isOwnAccount(grant));
    const isWhole = grant && ((name: string) => decideBucket(grant, 'list', name) === 'allowed');
    return {
      limit_refusals: this.tokens.refused(isItself) + this.buckets.refused(isWhole),
      limited: [...this.tokens.busiest(isItself), ...this.buckets.busiest(isWhole)],
    };
  }

  /** Undefined: it has no limits. */
  ofToken(grant: Grant): Meter | undefined {
    return this.tokens.of(accountOf(grant), grant.limits, grant.expiresAtMs);
  }

  /** Where a live reader of a token without a limit of them takes its place. */
  shareOf(grant: Grant): ReaderPlaces {
    return this.readers.of(accountOf(grant));
  }

  /** For what was decided about configurations of subscriptions, which never change, by these scopes and no others. */
  decidedBy(scopes: readonly Scope[]): WeakMap<object, boolean> {
    const text = JSON.stringify(scopes);
    const share = this.#shares.get(text) ?? new WeakMap<object, boolean>();
    this.#shares.delete(text);
    for (const oldest of this.#shares.keys()) {
      if (this.#shares.size < SHARES_MAX) break;
      this.#shares.delete(oldest);
    }
    this.#shares.set(text, share);
    return share;
  }

  /** Undefined: it has no limits. Empty: the request names none. */
  ofBucket(name: string): Meter | undefined {
    return name === '' ? undefined : this.buckets.of(name);
  }
}

/** A token that was made from another one counts as that, else making them would lift the limit. */
function accountOf({ id, account = id }: Grant): string {
  return account;
}

/**
 * Whether no other token's use is counted with it, except that of tokens made from it: the account of an issuer's token
 * is its id behind a prefix, and one that was made from another has the account of that.
 */
function isOwnAccount({ id, account = id }: Grant): boolean {
  return account === id || account.endsWith(`:${id}`);
}

interface Named {
  readonly meter: Meter;
  /** The claim of the token that expires last, so that two tokens of one holder do not undo each other's limits. */
  claimed: UseLimits | undefined;
  untilMs: number;
}

/** One line of the metrics. */
export interface MeteredUse extends Used {
  readonly kind: 'token' | 'bucket';
  readonly name: string;
}

class Meters {
  readonly #kind: 'token' | 'bucket';
  readonly #meters = new Map<string, Named>();
  #all: UseLimits = {};
  #own: ReadonlyMap<string, UseLimits> = new Map();
  /** Neither all nor single ones have limits here. */
  #isFree = true;
  readonly #clockMs: () => number;
  /** So many make it worth while to look for some that can be forgotten. */
  #manyMeters = METERS_MAX;
  /** Refusals by meters that are not kept any more. */
  #forgotten = 0;

  constructor(kind: 'token' | 'bucket', clockMs: () => number) {
    this.#kind = kind;
    this.#clockMs = clockMs;
  }

  /** Refusals of all that there are and were; with `isShown` of those that there are. */
  refused(isShown?: (name: string) => boolean): number {
    let sum = isShown === undefined ? this.#forgotten : 0;
    for (const [name, { meter }] of this.#meters) if (isShown?.(name) ?? true) sum += meter.used.refused;
    return sum;
  }

  /** Those that were refused most, and of them those that asked most: as many as a page shows. */
  busiest(isShown: (name: string) => boolean = () => true): MeteredUse[] {
    const top: MeteredUse[] = [];
    for (const [name, { meter }] of this.#meters) {
      if (!isShown(name)) continue;
      const use = { kind: this.#kind, name, ...meter.used };
      const last = top[SHOWN_MAX - 1];
      if (last !== undefined && isBusier(last, use)) continue;
      const place = top.findIndex((other) => isBusier(use, other));
      top.splice(place < 0 ? top.length : place, 0, use);
      top.length = Math.min(top.length, SHOWN_MAX);
    }
    return top;
  }

  get size(): number {
    return this.#meters.size;
  }

  /** `all`: of each one; `own`: of single ones, in place of those. */
  replace(all: UseLimits, own: readonly (readonly [name: string, allowance: UseLimits])[]): void {
    this.#all = all;
    this.#own = new Map(own.map(([name, allowance]) => [name, { ...all, ...allowance }]));
    this.#isFree = isEmpty(all) && own.length === 0;
    for (const [name, { meter, claimed }] of this.#meters) meter.allow(this.#allowanceOf(name, claimed));
  }

  /** `claimed`: limits that the token itself says, which expires then. */
  of(name: string, claimed?: UseLimits, untilMs = 0): Meter | undefined {
    if (this.#isFree && claimed === undefined) return undefined;
    const known = this.#meters.get(name);
    if (known === undefined) return this.#make(name, claimed, untilMs);
    if (claimed !== known.claimed && untilMs > known.untilMs) {
      Object.assign(known, { claimed, untilMs });
      known.meter.allow(this.#allowanceOf(name, claimed));
    }
    return known.meter;
  }

  #allowanceOf(name: string, claimed: UseLimits | undefined): UseLimits {
    return this.#own.get(name) ?? { ...this.#all, ...claimed };
  }

  #make(name: string, claimed: UseLimits | undefined, untilMs: number): Meter | undefined {
    const allowance = this.#allowanceOf(name, claimed);
    if (isEmpty(allowance)) return undefined;
    if (this.#meters.size >= this.#manyMeters) this.#makeRoom();
    const shown = name.length > SHOWN_CHARS_MAX ? `${name.slice(0, SHOWN_CHARS_MAX)}...` : name;
    const meter = new Meter(`the ${this.#kind} ${JSON.stringify(shown)}`, allowance);
    // A name that is a part of a URL would keep all of it.
    this.#meters.set(Buffer.from(name, 'utf16le').toString('utf16le'), { meter, claimed, untilMs });
    return meter;
  }

  /**
   * Those that use nothing now go first, or naming ten thousand others would free one that is at its limit. Single ones
   * with limits of their own stay, and so do those with live readers, of which there is a bounded number.
   */
  #makeRoom(): void {
    const clockMs = this.#clockMs();
    const others = [...this.#meters].filter(([name, { meter }]) => meter.used.readers === 0 && !this.#own.has(name));
    const idle = others.filter(([, { meter }]) => meter.isIdle(clockMs));
    for (const [name, { meter }] of [...idle, ...others].slice(0, ROOM)) {
      if (this.#meters.delete(name)) this.#forgotten += meter.used.refused;
    }
    this.#manyMeters = Math.max(METERS_MAX, this.#meters.size + ROOM);
  }
}

function isBusier(one: Used, other: Used): boolean {
  return one.refused > other.refused || (one.refused === other.refused && one.requests > other.requests);
}

function isEmpty(allowance: UseLimits): boolean {
  return Object.keys(allowance).length === 0;
}
