/**
 * The messages of a queue, as they follow from its stream. Processes append what they want, and the order of the records decides: of those
 * that take a message the first one has it, until its lease ends. The moments are those that the records tell, so all come to the same.
 */
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

export type Queued = Map<string, QueuedMessage>;

/** When a process may take it. */
export function availableMs({ dueMs, lease }: QueuedMessage): number {
  return lease?.untilMs ?? dueMs;
}

/** A record of a process that does not have the message any more changes nothing. */
export function applyQueued(messages: Queued, record: QueueRecord): void {
  if ('put' in record) {
    // The same message again, while it waits or is under way.
    if (!messages.has(record.put.id)) messages.set(record.put.id, { ...record.put, attempt: 0 });
  } else if ('take' in record) {
    const message = messages.get(record.take);
    if (message === undefined || record.atMs < availableMs(message)) return;
    const lease = { by: record.by, untilMs: record.untilMs };
    messages.set(message.id, { ...message, attempt: message.attempt + 1, lease });
  } else {
    const id = 'keep' in record ? record.keep : 'later' in record ? record.later : record.done;
    const message = messages.get(id);
    if (message?.lease?.by !== record.by) return;
    if ('done' in record) messages.delete(id);
    else if ('keep' in record) messages.set(id, { ...message, lease: { by: record.by, untilMs: record.untilMs } });
    else messages.set(id, { ...message, dueMs: record.dueMs, attempt: record.attempt, lease: undefined });
  }
}
