/**
 * A JSON stream that a process folds: it reads from where it has come to, and appends there, so that an append is done only by a
 * process that knows all records before it.
 */
import type { AppendOptions } from './appends.ts';
import { type MillraceStream, OffsetConflict } from './client.ts';
import { JSON_TYPE, isCode, refusal } from './resumable-log.ts';
import { WorkflowWorldError, textOf, valueOf } from './workflow-events.ts';

/** Others that append at the same place win at most so often in a row before a call is given up. */
const CONFLICTS_MAX = 100;
/** Tries of one append to a stream that others delete as often. */
const DELETIONS_MAX = 10;

export interface Fold<T> {
  /** All of them, or it throws, and is reset. */
  apply(records: readonly T[]): void;
  /** The stream is gone, and another one may get its name. */
  reset(): void;
  /** Name of the error when `apply` threw. */
  readonly unreadable: string;
}

/** A later version wrote them, or a stranger: what follows from the stream is not known. */
export class UnreadableRecords extends WorkflowWorldError {}

export class FoldedLog<T> {
  readonly #stream: MillraceStream;
  readonly #fold: Fold<T>;
  #offset = 0;
  #incarnation: string | undefined;
  /** Settles when the last of the calls is done, which run one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(stream: MillraceStream, fold: Fold<T>) {
    this.#stream = stream;
    this.#fold = fold;
  }

  /** Those of the stream that are folded, which is about what the state holds. */
  get bytes(): number {
    return this.#offset;
  }

  /** Resolves with a look at the state when all that is in the stream is folded. */
  async read<R>(look: () => R): Promise<R> {
    return await this.#exclusively(async () => {
      await this.#refresh();
      return look();
    });
  }

  /**
   * Appends what is decided from a state that has all records. A decision from a state that may be old counts if the append succeeds;
   * one that appends nothing, or throws, is repeated once all is read.
   */
  async transact<R>(choose: () => readonly T[], look: (appended: readonly T[]) => R): Promise<R> {
    return await this.#exclusively(async () => {
      let isFresh = false;
      for (let tries = 0; tries < CONFLICTS_MAX; tries++) {
        const records = tryTo(choose, isFresh) ?? [];
        if (records.length === 0 && isFresh) return look([]);
        if (records.length > 0 && (await this.#append(records))) return look(records);
        await this.#refresh();
        isFresh = true;
      }
      throw refusal('QUEUE_FULL', `others appended to "${this.#stream.name}" ${CONFLICTS_MAX} times meanwhile`);
    });
  }

  /** False: others came first, or the stream is gone. */
  async #append(records: readonly T[]): Promise<boolean> {
    if (this.#offset === 0) await makeJson(this.#stream);
    try {
      const text = `[${records.map(textOf).join(',')}]`;
      this.#offset = await this.#stream.append(text, { expectedOffset: this.#offset });
    } catch (error) {
      if (error instanceof OffsetConflict || isCode(error, 'STREAM_NOT_FOUND')) return false;
      throw error;
    }
    this.#fold.apply(records);
    return true;
  }

  async #refresh(): Promise<void> {
    const known = this.#incarnation;
    // Appends do not tell it, so what only those made may be of a stream that is gone.
    if (known === undefined) this.#forget();
    try {
      for await (const batch of this.#stream.follow({ offset: this.#offset, incarnation: known, live: false })) {
        this.#apply(batch.data);
        this.#offset = batch.offset;
        this.#incarnation = batch.incarnation;
      }
    } catch (error) {
      if (!isCode(error, 'STREAM_NOT_FOUND')) throw error;
      this.#forget();
      if (known !== undefined) await this.#refresh();
    }
  }

  #apply(data: Uint8Array): void {
    try {
      this.#fold.apply(valueOf<readonly T[]>(new TextDecoder().decode(data)));
    } catch (error) {
      // Some may be applied.
      this.#forget();
      const sentence = `"${this.#stream.name}" has records that this version does not know: ${String(error)}`;
      throw new UnreadableRecords(this.#fold.unreadable, sentence);
    }
  }

  #forget(): void {
    this.#offset = 0;
    this.#incarnation = undefined;
    this.#fold.reset();
  }

  async #exclusively<R>(work: () => Promise<R>): Promise<R> {
    const before = this.#last;
    const done = (async () => {
      await before;
      return await work();
    })();
    this.#last = done.catch(() => undefined);
    return await done;
  }
}

/** Appends records whose place does not matter to a stream, which it makes first. */
export class RecordWriter<T> {
  readonly #stream: MillraceStream;
  #made: Promise<void> | undefined;

  constructor(stream: MillraceStream) {
    this.#stream = stream;
  }

  async append(record: T, options: AppendOptions = {}): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await (this.#made ??= makeJson(this.#stream));
        await this.#stream.records<T>().append(record, options);
        return;
      } catch (error) {
        this.#made = undefined;
        // It was deleted, and is made once more.
        if (!isCode(error, 'STREAM_NOT_FOUND') || tries === DELETIONS_MAX) throw error;
      }
    }
  }
}

/** Makes the stream, unless it is there, also with other options. */
export async function makeJson(stream: MillraceStream): Promise<void> {
  try {
    await stream.create({ contentType: JSON_TYPE });
  } catch (error) {
    if (!isCode(error, 'CREATE_CONFLICT')) throw error;
  }
}

function tryTo<T>(choose: () => T, isFinal: boolean): T | undefined {
  try {
    return choose();
  } catch (error) {
    if (isFinal) throw error;
    return undefined;
  }
}
