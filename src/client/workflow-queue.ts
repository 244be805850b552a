/**
 * The queue of a World: one stream of records, which each process that delivers follows. A message is taken for a lease that its taker
 * lengthens while the handler runs; of one that died it ends, and another process takes the message. So delivery is at least once.
 */
import type { MillraceClient, MillraceStream } from './client.ts';
import { JSON_TYPE, isCode, isObject, refusal } from './resumable-log.ts';
import { sleep } from './waiting.ts';
import { textOf, ulidOf, valueOf } from './workflow-events.ts';
import { RecordWriter, makeJson } from './workflow-log.ts';
import { type QueueRecord, type QueuedMessage, QueuedMessages, isQueueRecord } from './workflow-queue-fold.ts';

/** Records that a process reads when it begins are at most about so many, beside what the snapshot has. */
const RECORDS_PER_SNAPSHOT = 2000;
/** A handler that fails is asked again after 1 s, which doubles up to 15 min: the DevKit's 48 attempts last 9 h. */
const RETRY_MS = 1000;
const RETRY_MS_MAX = 900_000;
/** One that cannot be reached is, as when a program starts; that is no attempt. */
const UNREACHED_MS = 1000;
/** After the queue could not be followed. */
const RESTART_MS = 1000;
/** Longer timers would fire at once. */
const TIMER_MS_MAX = 60_000;

export interface WorkflowQueueOptions {
  readonly client: MillraceClient;
  readonly bucket: string;
  readonly baseUrl: string | (() => string);
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  readonly deliveries: number;
  readonly leaseMs: number;
}

export interface WorkflowQueuePutOptions {
  /** A message of a key that waits, or is under way, is not put again. */
  readonly idempotencyKey?: string | undefined;
  readonly headers?: Record<string, string> | undefined;
  readonly delaySeconds?: number | undefined;
}

export type WorkflowQueueHandler = (
  message: unknown,
  meta: { attempt: number; queueName: string; messageId: string },
) => Promise<void | { timeoutSeconds: number }>;

export class WorkflowQueue {
  readonly #options: WorkflowQueueOptions;
  readonly #stream: MillraceStream;
  readonly #writer: RecordWriter<QueueRecord>;
  readonly #closing = new AbortController();
  readonly #id = ulidOf(new Date());
  #running: Promise<void> | undefined;
  #messages = new QueuedMessages();
  /** By message whose record that takes it has to come back: what gives it back. */
  readonly #taking = new Map<string, Extract<QueueRecord, { later: string }>>();
  readonly #delivering = new Map<string, Promise<void>>();
  #taken = 0;
  #recordsSinceSnapshot = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: WorkflowQueueOptions) {
    this.#options = options;
    this.#stream = options.client.stream(options.bucket, 'queue', { contentType: JSON_TYPE });
    this.#writer = new RecordWriter(this.#stream);
  }

  /** Resolves with its ID when the message is durable. */
  async put(queueName: string, message: unknown, options: WorkflowQueuePutOptions = {}): Promise<string> {
    const { idempotencyKey, headers = {}, delaySeconds = 0 } = options;
    const id = `msg_${idempotencyKey ?? ulidOf(new Date())}`;
    const dueMs = Date.now() + Math.max(delaySeconds, 0) * 1000;
    await this.#writer.append({ put: { id, queueName, body: textOf(message), headers, dueMs } });
    return id;
  }

  /** Begins to deliver. */
  start(): void {
    this.#running ??= this.#run(this.#closing.signal);
  }

  /** Takes no further messages, and resolves when those under way are delivered. */
  async close(): Promise<void> {
    this.#end();
    await this.#running;
    await this.#giveBack();
    await Promise.all(this.#delivering.values());
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#follow(signal);
      } catch (error) {
        if (isCode(error, 'CLIENT_CLOSED')) break;
      }
      // Where this process was away for long, what it would read next is in the snapshot. The stream may be closed.
      await sleep(RESTART_MS, [signal]).catch(() => undefined);
    }
    this.#end();
  }

  #end(): void {
    this.#closing.abort(refusal('CLIENT_CLOSED', 'the World is closed'));
    clearTimeout(this.#timer);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    await makeJson(this.#stream);
    const { snapshot, offset: start } = await this.#stream.bootstrap({ signal });
    // Their records may lie before the snapshot.
    void this.#giveBack();
    this.#messages = new QueuedMessages(snapshot === undefined ? [] : valueOf(new TextDecoder().decode(snapshot.data)));
    this.#recordsSinceSnapshot = 0;
    this.#takeWhatIsDue();
    for await (const { data, offset } of this.#stream.follow({ offset: start, signal })) {
      const records: readonly unknown[] = JSON.parse(new TextDecoder().decode(data));
      for (const record of records) if (isQueueRecord(record)) this.#apply(record);
      this.#takeWhatIsDue();
      this.#recordsSinceSnapshot += records.length;
      if (this.#recordsSinceSnapshot >= RECORDS_PER_SNAPSHOT) {
        this.#recordsSinceSnapshot = 0;
        void this.#publish(offset).catch(() => undefined);
      }
    }
  }

  #apply(record: QueueRecord): void {
    this.#messages.apply(record);
    if (!('take' in record) || this.#taking.get(record.take)?.by !== record.by) return;
    this.#taking.delete(record.take);
    const message = this.#messages.get(record.take);
    if (message?.lease?.by !== record.by) return;
    const delivery = this.#deliver(message, record.by).finally(() => {
      this.#delivering.delete(record.by);
      this.#takeWhatIsDue();
    });
    this.#delivering.set(record.by, delivery);
  }

  #takeWhatIsDue(): void {
    clearTimeout(this.#timer);
    if (this.#closing.signal.aborted) return;
    const atMs = Date.now();
    for (const message of this.#messages.due(atMs)) {
      if (this.#taking.size + this.#delivering.size >= this.#options.deliveries) break;
      if (!this.#taking.has(message.id)) this.#take(message, atMs);
    }
    this.#lookIn(this.#messages.nextMs - atMs);
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#closing.signal.aborted && ms < Number.POSITIVE_INFINITY)
      this.#timer = setTimeout(() => this.#takeWhatIsDue(), Math.min(ms, TIMER_MS_MAX));
  }

  #take({ id, dueMs, attempt }: QueuedMessage, atMs: number): void {
    const by = `${this.#id}-${this.#taken++}`;
    this.#taking.set(id, { later: id, by, dueMs, attempt });
    this.#writer.append({ take: id, by, atMs, untilMs: atMs + this.#options.leaseMs }).catch(() => {
      if (this.#taking.get(id)?.by === by) this.#taking.delete(id);
      this.#lookIn(RESTART_MS);
    });
  }

  /** Messages that were taken, and are not delivered here: no process has to wait for the ends of their leases. */
  async #giveBack(): Promise<void> {
    const records = [...this.#taking.values()];
    this.#taking.clear();
    const signal = AbortSignal.timeout(this.#options.leaseMs);
    await Promise.allSettled(records.map(async (record) => await this.#writer.append(record, { signal })));
  }

  async #deliver(message: QueuedMessage, by: string): Promise<void> {
    const { id, attempt } = message;
    const { leaseMs } = this.#options;
    const keeping = setInterval(() => {
      this.#writer.append({ keep: id, by, untilMs: Date.now() + leaseMs }).catch((error: unknown) => {
        if (isCode(error, 'CLIENT_CLOSED')) clearInterval(keeping);
      });
    }, leaseMs / 3);
    try {
      const { delayMs, counts } = await this.#send(message);
      const dueMs = Date.now() + (delayMs ?? 0);
      await this.#settle(
        delayMs === undefined ? { done: id, by } : { later: id, by, dueMs, attempt: counts ? attempt : attempt - 1 },
      );
    } finally {
      clearInterval(keeping);
    }
  }

  /** Appends what became of a delivery, however often it is refused, for the lease is kept meanwhile. */
  async #settle(record: QueueRecord): Promise<void> {
    for (;;) {
      try {
        return await this.#writer.append(record);
      } catch (error) {
        if (this.#closing.signal.aborted || isCode(error, 'CLIENT_CLOSED')) return undefined;
        await sleep(RESTART_MS, [this.#closing.signal]).catch(() => undefined);
      }
    }
  }

  /** After which time to deliver it again; undefined: it is done. */
  async #send(message: QueuedMessage): Promise<{ delayMs?: number; counts: boolean }> {
    const { id, queueName, body, headers, attempt } = message;
    const { baseUrl, fetch } = this.#options;
    const kind = queueName.includes('_wkf_step_') ? 'step' : 'flow';
    const failed = { delayMs: Math.min(RETRY_MS * 2 ** (attempt - 1), RETRY_MS_MAX), counts: true };
    try {
      const url = `${typeof baseUrl === 'string' ? baseUrl : baseUrl()}/.well-known/workflow/v1/${kind}`;
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': JSON_TYPE,
          'x-vqs-queue-name': queueName,
          'x-vqs-message-id': id,
          'x-vqs-message-attempt': String(attempt),
        },
        body,
      });
      const text = await response.text();
      if (!response.ok) return failed;
      const seconds = secondsOf(text);
      return seconds === undefined ? { counts: true } : { delayMs: seconds * 1000, counts: true };
    } catch (error) {
      return isUnreached(error) ? { delayMs: UNREACHED_MS, counts: false } : failed;
    }
  }

  /** So that processes that begin need not read all that ever was queued. One of those that try does it. */
  async #publish(offset: number): Promise<void> {
    const text = textOf(this.#messages.all());
    if ((await this.#stream.head()).retainedOffset >= offset) return;
    await this.#stream.publishSnapshot({ offset }, text, { contentType: JSON_TYPE });
    await this.#stream.retain({ offset });
  }
}

/** The World's own deliveries call it. */
export function queueHandler(prefix: string, handler: WorkflowQueueHandler): (request: Request) => Promise<Response> {
  return async (request) => {
    const queueName = request.headers.get('x-vqs-queue-name') ?? '';
    const messageId = request.headers.get('x-vqs-message-id') ?? '';
    const attempt = Number(request.headers.get('x-vqs-message-attempt') ?? 0);
    if (!queueName.startsWith(prefix) || messageId === '' || !(attempt >= 1))
      return Response.json({ error: `this is no message of a queue "${prefix}..."` }, { status: 400 });
    try {
      const result = await handler(valueOf(await request.text()), { attempt, queueName, messageId });
      return Response.json(
        result?.timeoutSeconds === undefined ? { ok: true } : { timeoutSeconds: result.timeoutSeconds },
      );
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 500 });
    }
  };
}

/** Nothing was sent. After any other failure the handler may be at work, in its attempt. */
function isUnreached(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return isObject(cause) && 'code' in cause && /^(ECONNREFUSED|ENOTFOUND)$/.test(String(cause.code));
}

/** Undefined: the message is done. */
function secondsOf(text: string): number | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    if (!isObject(answer) || !('timeoutSeconds' in answer)) return undefined;
    const { timeoutSeconds } = answer;
    return typeof timeoutSeconds === 'number' && timeoutSeconds >= 0 ? timeoutSeconds : undefined;
  } catch {
    return undefined;
  }
}
