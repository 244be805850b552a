/**
 * All subscriptions of the cluster, folded from their log. Deterministic and total: every node that has folded the same
 * records has the same state, and a command's outcome depends on its place in the log, whichever node appended it.
 */
import { SUBSCRIPTIONS_MAX, SUBSCRIPTION_LINKS_MAX, SUBSCRIPTION_STATE_BYTES_MAX } from '../../base/limits.ts';
import type { LogRecord, Outcome, SavedKey } from './record.ts';
import { SIGNING_KEYS_MAX, type SigningKey, publishedKeys } from './signing-keys.ts';
import { textBytes } from '../../base/text.ts';
import { type Link, type LinkPosition, Subscription, restore, save } from './subscription.ts';
import { wakeCommand } from './wake-commands.ts';

/** Receives changes while records are folded. */
export interface MachineListener {
  added(sub: Subscription): void;
  /** The subscription may have something to do now. */
  changed(sub: Subscription): void;
  removed(sub: Subscription): void;
  linked(sub: Subscription, path: string): void;
  unlinked(sub: Subscription, path: string): void;
}

const OK: Outcome = { code: 'OK' };
const IGNORED: Outcome = { code: 'IGNORED' };
const NOT_FOUND: Outcome = { code: 'SUBSCRIPTION_NOT_FOUND', message: 'there is no such subscription' };
/** Size of a subscription and of a link in a checkpoint, without their texts; a link also appears in its wake. */
const SUBSCRIPTION_BYTES = 512;
const LINK_BYTES = 80;

export class Machine {
  readonly subscriptions = new Map<string, Subscription>();
  /** The first one, with the secret of the tokens. */
  key: SavedKey | undefined = undefined;
  /** Later keys, in order. */
  rotated: readonly SigningKey[] = [];
  /** Approximate size of a checkpoint of all subscriptions. */
  bytes = 0;
  links = 0;
  /** Folded records without effect because their kind is unknown. */
  unknown = 0;
  readonly #listener: MachineListener;
  #folded = 0;
  /** Inside the checkpoint that the fold began with; later ones add nothing. */
  #loading = false;

  constructor(listener: MachineListener) {
    this.#listener = listener;
  }

  apply(record: LogRecord): Outcome {
    const isFirst = this.#folded++ === 0;
    switch (record.op) {
      case 'checkpoint':
        this.#loading = isFirst;
        return OK;
      case 'checkpoint-end':
        this.#loading = false;
        return OK;
      case 'state':
        if (this.#loading) this.#enter(restore(record.saved));
        return OK;
      case 'key':
        this.key ??= { kid: record.kid, x: record.x, d: record.d, secret: record.secret };
        return OK;
      case 'rotate':
        return this.#rotate(record);
      case 'create':
        return this.#create(record);
      default:
        return this.#about(record);
    }
  }

  #about(record: LogRecord & { readonly id: string }): Outcome {
    const sub = this.subscriptions.get(record.id);
    if (sub === undefined) return NOT_FOUND;
    switch (record.op) {
      case 'delete':
        return this.#delete(sub);
      case 'add':
        return this.#add(sub, record.links);
      case 'remove':
        return this.#remove(sub, record.path);
      case 'link':
        return this.#linkMatches(sub, record.links);
      case 'gone':
        return this.#gone(sub, record.path, record.incarnation);
      case 'rewind':
        return this.#rewind(sub, record.path, record.incarnation, record.offset);
      default: {
        const outcome = wakeCommand(sub, record);
        if (outcome === undefined) {
          this.unknown++;
          return IGNORED;
        }
        if (outcome.code === 'OK') this.#listener.changed(sub);
        return outcome;
      }
    }
  }

  /** Why the subscription cannot also have the stream; undefined: it can. */
  refusesLink(sub: Subscription, path: string): string | undefined {
    if (sub.links.size >= SUBSCRIPTION_LINKS_MAX) return `more than ${SUBSCRIPTION_LINKS_MAX} streams`;
    if (this.bytes + linkBytes(path) > SUBSCRIPTION_STATE_BYTES_MAX) return 'all subscriptions together are too large';
    return undefined;
  }

  get isEmpty(): boolean {
    return this.#folded === 0;
  }

  /** Forgets everything; the next record is the first one. */
  clear(): void {
    for (const sub of [...this.subscriptions.values()]) this.#delete(sub);
    this.key = undefined;
    this.rotated = [];
    this.#folded = 0;
    this.#loading = false;
  }

  /** The complete state, as records that a log may begin with. */
  checkpoint(): LogRecord[] {
    return [
      { op: 'checkpoint' },
      ...(this.key === undefined ? [] : [{ op: 'key' as const, ...this.key }]),
      ...this.rotated.map((key) => ({ op: 'rotate' as const, at: 0, ...key })),
      ...[...this.subscriptions.values()].map((sub) => ({ op: 'state' as const, saved: save(sub) })),
      { op: 'checkpoint-end' },
    ];
  }

  get signingKeys(): SigningKey[] {
    const { key, rotated } = this;
    return key === undefined ? [] : [{ kid: key.kid, x: key.x, d: key.d, from: 0, alone: false }, ...rotated];
  }

  #rotate({ at, kid, x, d, from, alone }: LogRecord & { readonly op: 'rotate' }): Outcome {
    const known = this.signingKeys;
    if (known.length === 0 || known.some((key) => key.kid === kid)) return IGNORED;
    // Keys that are no longer shown are dropped; the first one stays with its secret.
    const kept = publishedKeys(known, at).reverse();
    // In a checkpoint (at = 0) they are unchanged.
    if (at > 0 && kept.length >= SIGNING_KEYS_MAX) return full(`${SIGNING_KEYS_MAX} signing keys within a few minutes`);
    this.rotated = [...kept.filter((key) => key.kid !== this.key?.kid), { kid, x, d, from, alone }];
    return OK;
  }

  #create(record: LogRecord & { readonly op: 'create' }): Outcome {
    const existing = this.subscriptions.get(record.id);
    if (existing !== undefined) {
      if (existing.hash === record.hash) return OK;
      return {
        code: 'SUBSCRIPTION_ALREADY_EXISTS',
        message: 'the subscription exists with another configuration; delete it first, or use another id',
      };
    }
    const sub = new Subscription(record.id, record.config, record.hash, record.at, record.base);
    if (this.subscriptions.size >= SUBSCRIPTIONS_MAX) return full(`there are ${SUBSCRIPTIONS_MAX} subscriptions`);
    const explicit = new Set(record.config.streams);
    for (const [path, incarnation, acked] of record.links) {
      sub.links.set(path, { incarnation, acked, explicit: explicit.has(path) });
    }
    if (sub.links.size > SUBSCRIPTION_LINKS_MAX) return full(`more than ${SUBSCRIPTION_LINKS_MAX} streams`);
    if (this.bytes + sizeOf(sub) > SUBSCRIPTION_STATE_BYTES_MAX)
      return full('all subscriptions together are too large');
    this.#enter(sub);
    return { code: 'CREATED' };
  }

  #enter(sub: Subscription): void {
    this.subscriptions.set(sub.id, sub);
    this.bytes += sizeOf(sub);
    this.links += sub.links.size;
    this.#listener.added(sub);
    for (const path of sub.links.keys()) this.#listener.linked(sub, path);
    this.#listener.changed(sub);
  }

  #delete(sub: Subscription): Outcome {
    this.subscriptions.delete(sub.id);
    this.bytes -= sizeOf(sub);
    this.links -= sub.links.size;
    for (const path of sub.links.keys()) this.#listener.unlinked(sub, path);
    this.#listener.removed(sub);
    return OK;
  }

  #add(sub: Subscription, links: readonly LinkPosition[]): Outcome {
    const fresh = links.filter(([path]) => !sub.links.has(path));
    const bytes = fresh.reduce((sum, [path]) => sum + linkBytes(path), 0);
    if (sub.links.size + fresh.length > SUBSCRIPTION_LINKS_MAX)
      return full(`more than ${SUBSCRIPTION_LINKS_MAX} streams`);
    if (this.bytes + bytes > SUBSCRIPTION_STATE_BYTES_MAX) return full('all subscriptions together are too large');
    for (const [path, incarnation, acked] of links) {
      const link = sub.links.get(path);
      if (link === undefined) this.#link(sub, path, { incarnation, acked, explicit: true });
      else link.explicit = true;
    }
    this.#listener.changed(sub);
    return OK;
  }

  #linkMatches(sub: Subscription, links: readonly LinkPosition[]): Outcome {
    let any = false;
    for (const [path, incarnation, acked] of links) {
      if (sub.links.has(path) || !sub.matches(path)) continue;
      const reason = this.refusesLink(sub, path);
      if (reason !== undefined) {
        // Links that fitted before are kept.
        if (any) this.#listener.changed(sub);
        return full(reason);
      }
      this.#link(sub, path, { incarnation, acked, explicit: false });
      any = true;
    }
    if (any) this.#listener.changed(sub);
    return any ? OK : IGNORED;
  }

  #remove(sub: Subscription, path: string): Outcome {
    const link = sub.links.get(path);
    if (link === undefined) return OK;
    link.explicit = false;
    if (!sub.matches(path)) this.#unlink(sub, path);
    return OK;
  }

  #gone(sub: Subscription, path: string, incarnation: number): Outcome {
    const link = sub.links.get(path);
    if (link === undefined || link.incarnation > incarnation) return IGNORED;
    if (!link.explicit) {
      this.#unlink(sub, path);
      return OK;
    }
    // Another stream of this name is processed from its beginning.
    link.incarnation = 0;
    link.acked = 0;
    this.#listener.changed(sub);
    return OK;
  }

  #rewind(sub: Subscription, path: string, incarnation: number, offset: number): Outcome {
    const link = sub.links.get(path);
    if (link?.incarnation !== incarnation || link.acked <= offset) return IGNORED;
    link.acked = offset;
    this.#listener.changed(sub);
    return OK;
  }

  #link(sub: Subscription, path: string, link: Link): void {
    sub.links.set(path, link);
    this.bytes += linkBytes(path);
    this.links++;
    this.#listener.linked(sub, path);
  }

  #unlink(sub: Subscription, path: string): void {
    sub.links.delete(path);
    this.bytes -= linkBytes(path);
    this.links--;
    this.#listener.unlinked(sub, path);
  }
}

function full(what: string): Outcome {
  return { code: 'LIMIT_EXCEEDED', message: what };
}

function linkBytes(path: string): number {
  return LINK_BYTES + 2 * jsonBytes(path);
}

/** Size in a checkpoint, where a control character takes six bytes: the state's bound counts checkpoint bytes. */
function jsonBytes(text: string): number {
  return textBytes(JSON.stringify(text));
}

function sizeOf(sub: Subscription): number {
  const { pattern, url, wake_stream, description, streams } = sub.config;
  let size = SUBSCRIPTION_BYTES;
  for (const text of [sub.id, sub.hash, sub.base, pattern, url, wake_stream, description, ...streams]) {
    size += jsonBytes(text ?? '') + 1;
  }
  for (const path of sub.links.keys()) size += linkBytes(path);
  return size;
}
