/**
 * The messages of a queue, as they follow from its stream. Processes append what they want, and the order of the records decides: of those
 * that take a message the first one has it, until its lease ends. The moments are those that the records tell, so all come to the same.
 */
import { isObject } from './resumable-log.ts';

export interface QueuedMessage {
  readonly id: string;
  readonly queueName: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Not to be delivered before, in ms since 1970, as all moments here. */
  readonly dueMs: number;
  /** How often it was taken. */
  readonly attempt: number;
  readonly lease?: { readonly by: string; readonly untilMs: number } | undefined;
}

export type QueueRecord =
  | { readonly put: Omit<QueuedMessage, 'attempt' | 'lease'> }
  | { readonly take: string; readonly by: string; readonly atMs: number; readonly untilMs: number }
  /** Lengthens the lease. */
  | { readonly keep: string; readonly by: string; readonly untilMs: number }
  | { readonly later: string; readonly by: string; readonly dueMs: number; readonly attempt: number }
  | { readonly done: string; readonly by: string };

/** When a process may take it. */
function availableMs({ dueMs, lease }: QueuedMessage): number {
  return lease?.untilMs ?? dueMs;
}

export class QueuedMessages {
  readonly #messages: Map<string, QueuedMessage>;
  /** When they become free, the earliest last, so that no look has to pass all of them. Some changed meanwhile. */
  readonly #times: { readonly id: string; readonly ms: number }[];
  /** Those whose time has come, in this order. */
  readonly #due = new Set<string>();

  constructor(kept: readonly QueuedMessage[] = []) {
    this.#messages = new Map(kept.map((message) => [message.id, message]));
    const times = kept.map((message) => ({ id: message.id, ms: availableMs(message) }));
    this.#times = times.toReversed().toSorted((a, b) => b.ms - a.ms);
  }

  get(id: string): QueuedMessage | undefined {
    return this.#messages.get(id);
  }

  all(): QueuedMessage[] {
    return [...this.#messages.values()];
  }

  /** Those that are free at this time, the first ones first. */
  *due(atMs: number): Generator<QueuedMessage, void> {
    while (this.nextMs <= atMs) {
      const id = this.#times.pop()?.id ?? '';
      if (this.#messages.has(id)) this.#due.add(id);
    }
    for (const id of this.#due) {
      const message = this.#messages.get(id);
      // It may have changed, or the clock was set back.
      if (message !== undefined && availableMs(message) <= atMs) yield message;
    }
  }

  /** When a further one may become free. */
  get nextMs(): number {
    return this.#times.at(-1)?.ms ?? Number.POSITIVE_INFINITY;
  }

  /** A record of a process that does not have the message any more changes nothing. */
  apply(record: QueueRecord): void {
    if ('put' in record) {
      // The same message again, while it waits or is under way.
      if (!this.#messages.has(record.put.id)) this.#set({ ...record.put, attempt: 0, lease: undefined });
    } else if ('take' in record) {
      const message = this.#messages.get(record.take);
      if (message === undefined || record.atMs < availableMs(message)) return;
      const lease = { by: record.by, untilMs: record.untilMs };
      this.#set({ ...message, attempt: message.attempt + 1, lease });
    } else {
      const id = 'keep' in record ? record.keep : 'later' in record ? record.later : record.done;
      const message = this.#messages.get(id);
      if (message?.lease?.by !== record.by) return;
      if ('done' in record) {
        this.#messages.delete(id);
        this.#due.delete(id);
      } else if ('keep' in record) this.#set({ ...message, lease: { by: record.by, untilMs: record.untilMs } });
      else this.#set({ ...message, dueMs: record.dueMs, attempt: record.attempt, lease: undefined });
    }
  }

  #set(message: QueuedMessage): void {
    const [id, ms] = [message.id, availableMs(message)];
    this.#messages.set(id, message);
    this.#due.delete(id);
    let [low, high] = [0, this.#times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#times[middle]?.ms ?? 0) > ms) low = middle + 1;
      else high = middle;
    }
    this.#times.splice(low, 0, { id, ms });
  }
}

const FIELDS = {
  put: { id: 'string', queueName: 'string', body: 'string', dueMs: 'number' },
  take: { take: 'string', by: 'string', atMs: 'number', untilMs: 'number' },
  keep: { keep: 'string', by: 'string', untilMs: 'number' },
  later: { later: 'string', by: 'string', dueMs: 'number', attempt: 'number' },
  done: { done: 'string', by: 'string' },
};

/** A stranger may have written anything, which must not stop those that follow. */
export function isQueueRecord(value: unknown): value is QueueRecord {
  if (!isObject(value)) return false;
  const fields = Object.entries(FIELDS).find(([kind]) => kind in value)?.[1];
  const told: unknown = 'put' in value ? value.put : value;
  if (fields === undefined || !isObject(told)) return false;
  return Object.entries(fields).every(([key, type]) => typeof Reflect.get(told, key) === type);
}
