/** One log line per subject and window, so that a client that hammers a port fills neither log nor memory. */

import type { Log } from '../shard/ports.ts';

/** Subjects remembered; beyond it the oldest is forgotten and may be logged again early. */
const SUBJECTS_MAX = 256;

interface Mention {
  readonly atMs: number;
  suppressed: number;
}

export class LogLimiter {
  readonly #log: Log;
  readonly #clockMs: () => number;
  readonly #windowMs: number;
  readonly #mentions = new Map<string, Mention>();

  constructor(log: Log, clockMs: () => number, windowMs: number) {
    this.#log = log;
    this.#clockMs = clockMs;
    this.#windowMs = windowMs;
  }

  /** Logs unless `subject` was logged within the window; then reports how many lines were suppressed. */
  warn(subject: string, message: string, fields: Record<string, unknown>): void {
    const atMs = this.#clockMs();
    const last = this.#mentions.get(subject);
    if (last !== undefined && atMs - last.atMs < this.#windowMs) {
      last.suppressed++;
      return;
    }
    this.#mentions.delete(subject);
    if (this.#mentions.size >= SUBJECTS_MAX) {
      const [oldest] = this.#mentions.keys();
      this.#mentions.delete(oldest as string);
    }
    this.#mentions.set(subject, { atMs, suppressed: 0 });
    const suppressed = last?.suppressed ?? 0;
    this.#log('warn', message, suppressed === 0 ? fields : { ...fields, suppressed });
  }

  /** For events that happen once per good connection. */
  info(message: string, fields: Record<string, unknown>): void {
    this.#log('info', message, fields);
  }
}
