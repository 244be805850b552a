/** The records of a JSON stream, as values with their ordinals. */
import type { AppendOptions } from './appends.ts';
import { StreamError, clientError } from './error.ts';
import { type EndSignal, type WaitOptions, endable, signalsOf } from './waiting.ts';
import type { WireAnswer, WireOptions } from './wire.ts';

export interface RecordFollowOptions extends WaitOptions {
  /** The ordinal of the first one; 0 when left out. `now`: only what comes. */
  readonly record?: number | 'now';
  /** That of a record before it: another stream, made under the name since, is refused with 404. */
  readonly incarnation?: string | undefined;
  /** So many before the tail, instead of `record`. */
  readonly tail?: number;
  /** Ends at the tail instead of waiting for more. */
  readonly live?: boolean;
}

export interface StreamRecord<T> {
  /** Counted from 0, without a gap; it never changes. */
  readonly record: number;
  readonly value: T;
  /** Tells the stream from others of its name, as in a `FollowedBatch`. */
  readonly incarnation: string | undefined;
}

export interface FollowedRange {
  readonly options: WireOptions;
  readonly live: boolean;
  /** Undefined: whichever has the name. */
  readonly incarnation: string | undefined;
}

export interface FollowedEvent extends WireAnswer {
  readonly incarnation: string | undefined;
}

export interface RecordSource {
  append(data: string, options: AppendOptions): Promise<number>;
  events(followed: FollowedRange, signals: readonly EndSignal[]): AsyncIterable<FollowedEvent>;
}

/** `stream.records<T>()` makes it. The type is what the program says: nothing checks values. */
export class RecordStream<T> {
  readonly #source: RecordSource;

  constructor(source: RecordSource) {
    this.#source = source;
  }

  /** Appends one record; resolves as `append` of the stream does. */
  async append(value: T, options: AppendOptions = {}): Promise<number> {
    const json: string | undefined = JSON.stringify(value);
    if (json === undefined) throw clientError('INVALID_ARGUMENT', 'the value is nothing that JSON has');
    // The node would take an array for several records, which toJSON() of any value may give.
    return await this.#source.append(json.startsWith('[') ? `[${json}]` : json, options);
  }

  /** As `follow` of the stream, by records. */
  follow(options: RecordFollowOptions = {}): AsyncGenerator<StreamRecord<T>, void> {
    const { record = 0, tail, live = true, incarnation, signal } = options;
    const position: WireOptions = tail === undefined ? { record } : { tail_records: tail };
    const followed = { options: { ...position, record_view: 'envelope' }, live, incarnation };
    return endable((end) => recordsIn<T>(this.#source.events(followed, [end, ...signalsOf(signal)])));
  }
}

async function* recordsIn<T>(events: AsyncIterable<FollowedEvent>): AsyncGenerator<StreamRecord<T>, void> {
  for await (const { body, incarnation } of events) {
    if (body.length === 0) continue;
    for (const { record, value } of recordsOf<T>(body)) yield { record, value, incarnation };
  }
}

function recordsOf<T>(body: Uint8Array): readonly Pick<StreamRecord<T>, 'record' | 'value'>[] {
  try {
    const records: readonly StreamRecord<T>[] = JSON.parse(new TextDecoder().decode(body));
    if (Array.isArray(records)) return records;
  } catch {
    // Told below.
  }
  throw new StreamError({ status: 0, code: 'BAD_ANSWER', sentence: 'the records of the node are no JSON array' });
}
