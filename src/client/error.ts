/**
 * A refusal, as a program sees it: the status and code of the node's HTTP API, and its sentence. Programs
 * match the code. Refusals that a repeat may cure never get this far.
 */

/** A node does not choose how long a client waits. */
const RETRY_MS_MAX = 60_000;

export interface ErrorFacts {
  /** 0: the client itself refuses. */
  readonly status: number;
  readonly code: string;
  readonly sentence: string;
  readonly fields?: ReadonlyMap<string, string>;
}

/** Codes of this library, beside those of the node. */
export type ClientCode =
  | 'CLIENT_CLOSED'
  | 'QUEUE_FULL'
  | 'BAD_ANSWER'
  | 'INVALID_ARGUMENT'
  | 'PRODUCER_ENDED'
  | 'PRODUCER_FAILED';

export class StreamError extends Error {
  override readonly name = 'StreamError';
  readonly status: number;
  readonly code: string;
  /** The other fields of the answer, by the names of HTTP headers. */
  readonly fields: ReadonlyMap<string, string>;

  constructor({ status, code, sentence, fields = new Map() }: ErrorFacts) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.fields = fields;
  }

  /** The tail of the stream, or its floor when what lies below is gone. */
  get offset(): number | undefined {
    return wholeNumber(this.fields.get('stream-next-offset'));
  }

  /** `PRODUCER_EPOCH_STALE`: the epoch of the process that took over. */
  get producerEpoch(): number | undefined {
    return wholeNumber(this.fields.get('producer-epoch'));
  }

  /** `PRODUCER_SEQ_CONFLICT`: the sequence that comes next. */
  get producerSeq(): number | undefined {
    return wholeNumber(this.fields.get('producer-expected-seq'));
  }

  /** How long to wait before the same is asked again; undefined: the answer would be the same. */
  get retryAfterMs(): number | undefined {
    const seconds = wholeNumber(this.fields.get('retry-after'));
    return seconds === undefined ? undefined : Math.min(seconds * 1000, RETRY_MS_MAX);
  }
}

/** An append that expected another tail, or the end of such an append or of one that was aborted. Nothing of it was done. */
export class OffsetConflict extends StreamError {
  /** The tail that the stream had; behind an append that was aborted unsent, the tail that that one expected. */
  readonly nextOffset: number;

  constructor(facts: ErrorFacts, nextOffset: number) {
    super(facts);
    this.nextOffset = nextOffset;
  }
}

/** A node's refusal, as the class that its code has. */
export function refusalOf(facts: ErrorFacts): StreamError {
  const offset = wholeNumber(facts.fields?.get('stream-next-offset'));
  const isConflict = facts.code === 'EXPECTED_OFFSET_CONFLICT' && offset !== undefined;
  return isConflict ? new OffsetConflict(facts, offset) : new StreamError(facts);
}

/** The connection ended before an answer came: what was asked may have been done. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

export function clientError(code: ClientCode, sentence: string): StreamError {
  return new StreamError({ status: 0, code, sentence });
}

/** Undefined for everything that is no count or offset. */
export function wholeNumber(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,20}$/.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}
