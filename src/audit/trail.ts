/** How often an event is written: the port through which HTTP, sessions and reloads leave lines. */
import type { Runtime } from '../base/runtime.ts';
import type { AuditEntry } from './entry.ts';
import { Repeats } from './repeats.ts';

/** The longest time for which something is counted and not yet told. */
const INTERVAL_MS = 60_000;

/** Ten tell what a stranger is after. Together at most 5 GB a day, from hundreds of addresses at once. */
const DENIALS = { written: 10, keys: 256 };
/** The console's page asks the same every few seconds. */
const READS = { written: 1, keys: 256 };

export interface AuditTrailOptions {
  readonly runtime: Pick<Runtime, 'setTimer'>;
  /** Never throws, and keeps no request waiting. */
  readonly write: (entry: AuditEntry) => void;
}

export class AuditTrail {
  readonly #options: AuditTrailOptions;
  readonly #denials = new Repeats(DENIALS);
  readonly #reads = new Repeats(READS);
  #cancel: (() => void) | undefined;
  /** Lines that were written. */
  lines = 0;

  constructor(options: AuditTrailOptions) {
    this.#options = options;
  }

  /** Something that changes things: each has its line. */
  changed(entry: AuditEntry): void {
    this.lines++;
    this.#options.write(entry);
  }

  /** Counted by sender and reason: what was asked for is in the lines that are written. */
  denied(entry: AuditEntry): void {
    const { plane, who, from, code, reason } = entry;
    this.#repeatable(this.#denials, [plane, who, from, code, reason], entry);
  }

  /** Counted by sender and path. */
  read(entry: AuditEntry): void {
    const { who, from, what, path, status } = entry;
    this.#repeatable(this.#reads, [who, from, what, path, status], entry);
  }

  #repeatable(repeats: Repeats, key: readonly unknown[], entry: AuditEntry): void {
    if (repeats.take(JSON.stringify(key), entry)) this.changed(entry);
    this.#cancel ??= this.#options.runtime.setTimer(INTERVAL_MS, () => this.tell());
  }

  /** Writes how often what was counted came; also when the node stops. */
  tell(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    for (const repeats of [this.#denials, this.#reads]) for (const entry of repeats.drain()) this.changed(entry);
  }
}
