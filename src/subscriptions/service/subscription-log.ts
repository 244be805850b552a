/**
 * The subscription log on this node: follows the internal stream and folds its records, appends commands and reports
 * their outcome. The first subscription creates the stream; until then nothing is read.
 *
 * A node recognizes its own records by a name (`by`), so the order of the append's answer and the record does not
 * matter.
 */
import { type ErrorCode, MillraceError } from '../../base/errors.ts';
import type { Runtime } from '../../base/runtime.ts';
import { toHex } from '../../base/hex.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import type { ShardGateway } from '../../ports.ts';
import type { Machine } from '../state/machine.ts';
import { type SubscriptionCommand, LOG, type LogRecord, type Outcome } from '../state/record.ts';
import { flatPath, type StreamName } from '../../protocol/flat-path.ts';
import { REPLY_UP_TO_DATE } from '../../protocol/reply.ts';
import { READ_FLAG_NO_TOUCH } from '../../protocol/queries/read.ts';
import { READ_OFFSET } from '../../protocol/read-fields.ts';
import { type ShardAnswer, type Callable, callStream } from '../../gateway/shard-client.ts';
import type { Logger } from '../../logging/logger.ts';
import type { Tails } from './tails.ts';
import { COMMANDS, QUERIES } from '../../protocol/operations.ts';

export const LOG_PATH = flatPath(LOG.bucket, LOG.stream);
const NONCE_BYTES = 16;
const JSON_TYPE = 'application/json';
/** Delay before a failed read or append is retried. */
const RETRY_MS = 200;
/** How long a client waits for an appended record to come back; after that its outcome is unknown. */
const OUTCOME_MS = 10_000;
/** No stream has this many records: the append is refused, after every write before it. */
const NEVER = Number.MAX_SAFE_INTEGER;

export interface LogOptions {
  readonly gateway: ShardGateway;
  readonly tails: Tails;
  readonly machine: Machine;
  readonly log: Logger;
  readonly runtime: Pick<Runtime, 'randomBytes' | 'setTimer'>;
  /** The fold restarts: known state is outdated until a barrier is passed. */
  readonly lost: () => void;
}

interface Waiting {
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: Error) => void;
}

export class SubscriptionLog {
  readonly #options: LogOptions;
  /** By the name of the record. */
  readonly #waiting = new Map<string, Waiting>();
  /** Waiting calls, each until this many records are folded. */
  #barriers: { readonly record: number; readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  readonly #nonce: string;
  #counter = 0;
  #incarnation = 0;
  /** End of what is folded: bytes and records of the stream. -1: not begun. */
  #offset = -1;
  #record = 0;
  #reading = false;
  #again = false;
  #closed = false;
  /** Folded records and bytes of the log after its last checkpoint. */
  records = 0;
  bytes = 0;

  constructor(options: LogOptions) {
    this.#options = options;
    this.#nonce = toHex(options.runtime.randomBytes(NONCE_BYTES));
  }

  /** Resolves when everything that was in the log at the start is folded. */
  async start(): Promise<void> {
    await this.#options.tails.want(LOG_PATH);
    this.moved();
  }

  get isThere(): boolean {
    return (this.#options.tails.of(LOG_PATH)?.incarnation ?? 0) !== 0;
  }

  /** The log's stream has moved, or may have. */
  moved(): void {
    this.#again = true;
    if (!this.#reading) void this.#read();
  }

  /** Creates the stream unless it exists. */
  async ensure(): Promise<void> {
    if (this.isThere) return;
    const answer = await this.#ask(COMMANDS.create, { ...LOG, contentType: JSON_TYPE });
    if (answer.code !== 'OK') throw new MillraceError(answer.code);
  }

  /** Appends a command; resolves with its outcome once this node has folded it. Rejects with a MillraceError. */
  async append(command: SubscriptionCommand): Promise<Outcome> {
    const [outcome] = await this.appendAll([command]);
    return outcome as Outcome;
  }

  /** In sequence, with nothing in between. */
  async appendAll(commands: readonly SubscriptionCommand[]): Promise<Outcome[]> {
    if (this.#closed) throw new MillraceError('STOPPING');
    const records = commands.map((command): LogRecord => ({ ...command, by: this.#name() }));
    const outcomes = records.map((record) => this.#outcome(record.by as string));
    const all = Promise.all(outcomes);
    // Rejections come through `all`, or through the throw below.
    all.catch(() => undefined);
    const answer = await this.#send(records, undefined);
    if (answer.code !== 'OK') {
      const error = new MillraceError(answer.code);
      for (const { by } of records) this.#take(by as string)?.reject(error);
      throw error;
    }
    const cancel = this.#options.runtime.setTimer(OUTCOME_MS, () => {
      for (const { by } of records) this.#take(by as string)?.reject(new MillraceError('OUTCOME_UNKNOWN'));
    });
    return await all.finally(cancel);
  }

  /** Appends only if nothing was added after the folded position; undefined: something was. */
  async appendHere(records: readonly LogRecord[]): Promise<ShardAnswer<unknown> | undefined> {
    const answer = await this.#send(records, this.#record);
    if (answer.code === 'RECORD_PRECONDITION_FAILED') return undefined;
    if (answer.code !== 'OK') throw new MillraceError(answer.code);
    return answer;
  }

  /**
   * When it resolves, everything acknowledged by any node before this call is folded. Rejects with a MillraceError when
   * that takes too long. It uses a conditional append that cannot succeed, which takes the path of every write and
   * leaves nothing behind.
   */
  async barrier(): Promise<void> {
    if (!this.isThere) {
      const head = await this.#ask(QUERIES.head, LOG);
      if (head.code === 'STREAM_NOT_FOUND') return;
      if (head.code !== 'OK') throw new MillraceError(head.code);
    }
    const answer = await this.#send([{ op: 'checkpoint-end' }], NEVER);
    if (answer.code !== 'RECORD_PRECONDITION_FAILED') throw new MillraceError(answer.code);
    if (this.#record >= answer.recordNext) return;
    await new Promise<void>((resolve, reject) => {
      const cancel = this.#options.runtime.setTimer(OUTCOME_MS, () => reject(new MillraceError('CATCHING_UP')));
      const ended = (): void => {
        cancel();
        resolve();
      };
      this.#barriers.push({ record: answer.recordNext, resolve: ended, reject });
      this.moved();
    });
  }

  get incarnation(): number {
    return this.#incarnation;
  }

  close(): void {
    this.#closed = true;
    for (const waiting of this.#waiting.values()) waiting.reject(new MillraceError('STOPPING'));
    this.#waiting.clear();
    for (const { reject } of this.#barriers) reject(new MillraceError('STOPPING'));
  }

  #name(): string {
    return `${this.#nonce}.${this.#counter++}`;
  }

  #outcome(by: string): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#waiting.set(by, { resolve, reject });
    });
  }

  #take(by: string): Waiting | undefined {
    const waiting = this.#waiting.get(by);
    this.#waiting.delete(by);
    return waiting;
  }

  #send(records: readonly LogRecord[], match: number | undefined): Promise<ShardAnswer<unknown>> {
    const payload = encodeUtf8(JSON.stringify(records));
    return this.#ask(COMMANDS.append, { ...LOG, contentType: JSON_TYPE, recordMatch: match ?? -1, payload });
  }

  #ask<P extends StreamName, R>(operation: Callable<P, R>, asked: P): Promise<ShardAnswer<R>> {
    return callStream(this.#options.gateway, operation, asked);
  }

  async #read(): Promise<void> {
    this.#reading = true;
    try {
      while (this.#again && !this.#closed) {
        this.#again = false;
        if (!this.isThere) continue;
        const code = this.#offset < 0 ? await this.#begin() : await this.#step();
        if (code === 'OK') continue;
        this.#options.log.debug({ code }, 'the log of subscriptions cannot be read now');
        this.#again = true;
        await new Promise((resolve) => {
          this.#options.runtime.setTimer(RETRY_MS, () => resolve(undefined));
        });
      }
    } finally {
      this.#reading = false;
    }
  }

  /** Finds where the log begins. */
  async #begin(): Promise<ErrorCode> {
    const head = await this.#ask(QUERIES.head, LOG);
    if (head.code !== 'OK') return head.code;
    this.#offset = head.startOffset;
    this.#record = head.recordFirst;
    this.#incarnation = head.result.incarnation;
    this.#again = true;
    return 'OK';
  }

  async #step(): Promise<ErrorCode> {
    const answer = await this.#ask(QUERIES.read, {
      ...LOG,
      ...{ mode: READ_OFFSET, value: this.#offset, readFlags: READ_FLAG_NO_TOUCH },
    });
    if (answer.code === 'STREAM_GONE') {
      // A later checkpoint replaced it before this node read it, and holds the complete state.
      return this.#options.machine.isEmpty ? await this.#begin() : this.#lost();
    }
    if (answer.code !== 'OK') return answer.code;
    const { text } = answer.result;
    const records = text === '' ? [] : (JSON.parse(text) as LogRecord[]);
    this.bytes += answer.nextOffset - this.#offset;
    this.#offset = answer.nextOffset;
    for (const record of records) this.#fold(record);
    if ((answer.flags & REPLY_UP_TO_DATE) === 0) this.#again = true;
    this.#passBarriers();
    return 'OK';
  }

  /** A node that was suspended during a whole checkpoint must fold again from the start. */
  #lost(): ErrorCode {
    this.#options.lost();
    this.#options.machine.clear();
    this.#offset = -1;
    this.#again = true;
    return 'OK';
  }

  #fold(record: LogRecord): void {
    this.#record++;
    this.records++;
    if (record.op === 'checkpoint') {
      this.records = 0;
      this.bytes = 0;
    }
    const outcome = this.#options.machine.apply(record);
    if (record.by !== undefined) this.#take(record.by)?.resolve(outcome);
  }

  #passBarriers(): void {
    if (this.#barriers.length === 0) return;
    const passed = this.#barriers.filter(({ record }) => record <= this.#record);
    this.#barriers = this.#barriers.filter(({ record }) => record > this.#record);
    for (const { resolve } of passed) resolve();
  }
}
