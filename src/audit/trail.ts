/** How often an event is written: the port through which HTTP, sessions and reloads leave lines. */
import type { Runtime } from '../base/runtime.ts';
import type { AuditEntry } from './entry.ts';
import { Repeats } from './repeats.ts';

/** The longest time for which something is counted and not yet told. */
const INTERVAL_MS = 60_000;
/** The same for what changed things. */
const CHANGES_MS = 1000;

/** Ten tell what a stranger is after. Together at most 6 GB a day on a plane, from hundreds of addresses at once. */
const DENIALS = { written: 10, keys: 256 };
/** The console's page asks the same every few seconds. */
const READS = { written: 1, keys: 256 };
/** More than a job makes that cleans up. A token that deletes in a loop takes 3 GB a day. */
const CHANGES = { written: 100, keys: 256 };

/** Each plane has its own: no number of strangers and tenants may hide what comes to the other one. */
class PlaneRepeats {
  readonly denials = new Repeats(DENIALS);
  readonly reads = new Repeats(READS);
  readonly changes = new Repeats(CHANGES);
  /** Requests that were refused, such as those about names that are not there. */
  readonly failures = new Repeats(DENIALS);
}

export interface AuditTrailOptions {
  readonly runtime: Pick<Runtime, 'setTimer'>;
  /** Never throws, and keeps no request waiting. */
  readonly write: (entry: AuditEntry) => void;
}

export class AuditTrail {
  readonly #options: AuditTrailOptions;
  readonly #client = new PlaneRepeats();
  /** Also of what nodes do by themselves. */
  readonly #admin = new PlaneRepeats();
  #cancel: (() => void) | undefined;
  #cancelChanges: (() => void) | undefined;
  /** Lines that were written. */
  lines = 0;

  constructor(options: AuditTrailOptions) {
    this.#options = options;
  }

  /** The node did it by itself, or was told so by its files. */
  told(entry: AuditEntry): void {
    this.lines++;
    this.#options.write(entry);
  }

  /**
   * A request that changes things, or tried to. Those that are counted had other addresses and names. `account`, here and
   * below: whose many tokens hide nothing of others, where it is not the sender's own name.
   */
  changed(entry: AuditEntry, account = entry.who): void {
    const { event, plane, who, what, status = 0, code } = entry;
    // A holder may come from many addresses.
    const key = [event, who, what, code];
    const place = plane === undefined ? {} : { plane };
    const like = { event, ...place, who, what, status, ...(code === undefined ? {} : { code }) };
    const { failures, changes } = this.#of(entry);
    if (status >= 400 && status < 500) return this.#repeatable(failures, key, entry, account, like);
    if (changes.take(JSON.stringify(key), like, account)) this.told(entry);
    this.#cancelChanges ??= this.#options.runtime.setTimer(CHANGES_MS, () => this.#tellChanges());
  }

  /** Counted by sender and reason: what was asked for is in the lines that are written. */
  denied(entry: AuditEntry, account = entry.who): void {
    const { who, from, code, reason } = entry;
    this.#repeatable(this.#of(entry).denials, [who, from, code, reason], entry, account);
  }

  /** Counted by sender and path. */
  read(entry: AuditEntry, account = entry.who): void {
    const { who, from, what, path, status } = entry;
    this.#repeatable(this.#of(entry).reads, [who, from, what, path, status], entry, account);
  }

  #of({ plane }: AuditEntry): PlaneRepeats {
    return plane === 'client' ? this.#client : this.#admin;
  }

  /** `like`: what a count says of those that it stands for. */
  #repeatable(repeats: Repeats, key: readonly unknown[], entry: AuditEntry, account: string, like = entry): void {
    if (repeats.take(JSON.stringify(key), like, account)) this.told(entry);
    this.#cancel ??= this.#options.runtime.setTimer(INTERVAL_MS, () => this.tell());
  }

  /** Writes how often what was counted came; also when the node stops. */
  tell(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#tellChanges();
    for (const { denials, reads, failures } of [this.#client, this.#admin])
      for (const repeats of [denials, reads, failures]) for (const entry of repeats.drain()) this.told(entry);
  }

  #tellChanges(): void {
    this.#cancelChanges?.();
    this.#cancelChanges = undefined;
    for (const { changes } of [this.#client, this.#admin]) for (const entry of changes.drain()) this.told(entry);
  }
}
