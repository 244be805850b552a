/**
 * The producer of one stream: what waits, what is sent, what is acknowledged and what is sent again. Pure: it is told
 * what became of each batch, and says what to send next.
 *
 * A batch keeps its epoch and sequence until a node acknowledges it or refuses it for good, so a repeat takes effect
 * once. After a refusal the epoch rises: a late copy of the refused batch, or of one behind it, is stale from then on.
 */
import { OffsetConflict, type StreamError, clientError } from './error.ts';

/** Batches without an answer. Nodes know a producer's last five sequences, so a repeat of one gets its own offset. */
const SENT_MAX = 5;
/** Appends of one batch, as many as a node takes. */
const APPENDS_MAX = 512;
/** Bytes of a batch of several: nodes let frames of up to 32 KiB be under way together. */
const BATCH_BYTES_MAX = 31 * 1024;
/** Bytes that an append adds to the frame of its batch. */
const HEAD_BYTES = 5;

const ID_BYTES = 12;

const CONFLICT = 'EXPECTED_OFFSET_CONFLICT';

/** Refusals of a body, or of what it expects, which do not concern those behind it, unless they expect its end. */
const OF_ITSELF: ReadonlySet<string> = new Set([
  ...['INVALID_JSON', 'EMPTY_JSON_ARRAY', 'EMPTY_BODY', 'BODY_TOO_LARGE', 'TOO_MANY_RECORDS', CONFLICT],
]);

/** A batch before this one has not come in. */
const OUT_OF_TURN: ReadonlySet<string> = new Set(['PRODUCER_SEQ_CONFLICT', 'PRODUCER_EPOCH_START']);

export interface QueuedAppend {
  readonly bytes: Uint8Array;
  readonly closes: boolean;
  /** The tail that it is for. */
  readonly expectedOffset?: number | undefined;
  /** A stable producer reserved it; others count batches. */
  readonly seq?: number | undefined;
  /** It is durable, and the stream's next offset is behind it. */
  done(offset: number): void;
  failed(error: StreamError): void;
}

export interface SentBatch {
  readonly epoch: number;
  readonly seq: number;
  readonly appends: readonly QueuedAppend[];
  readonly size: number;
}

/** The identity of a program that repeats its appends after a restart: append by append, each has its sequence. */
export interface StableProducer {
  /** Visible ASCII, at most 1,024 characters; two programs must not share one. */
  readonly id: string;
  /** 0 when left out. The first append of a higher one fences those that write with a lower one; its sequences begin with 0. */
  readonly epoch?: number;
  /** The sequence of the first append, 0 when left out: how many appends of this epoch came before. */
  readonly seq?: number;
}

export interface SendingBounds {
  /** Batches under way. */
  readonly batches: number;
  /** A larger batch takes another way, which keeps no order: it goes alone. */
  readonly bytes: number;
}

export class ProducerQueue {
  readonly id: string;
  /** Offsets count the bytes of bodies; those of JSON streams do not. True until the type is known. */
  hasByteOffsets = true;
  /** A batch is an append, so that another process gives it the same sequence. */
  readonly #isStable: boolean;
  #epoch: number;
  #seq: number;
  #queue: QueuedAppend[] = [];
  /** Batches that are not acknowledged, in their order. */
  #sent: SentBatch[] = [];
  /** Batches that were sent and will be answered, or lost, on the present connection, each with the one that was before it. */
  readonly #out = new Map<SentBatch, SentBatch | undefined>();
  /** Appends that go without others, because one of their batch was refused. */
  readonly #alone = new Set<QueuedAppend>();
  #isHolding = false;
  #pauseMs = 0;
  /** It takes nothing any more. */
  #ended: StreamError | undefined;

  /** Without a stable one its identity ends with the process, as it is random. */
  constructor(stable: StableProducer | undefined) {
    this.id = stable?.id ?? randomId();
    this.#isStable = stable !== undefined;
    this.#epoch = stable?.epoch ?? 0;
    this.#seq = stable?.seq ?? 0;
  }

  get isIdle(): boolean {
    return this.#queue.length === 0 && this.#sent.length === 0;
  }

  /** Batches under way. */
  get out(): number {
    return this.#out.size;
  }

  /**
   * The sequence of the append that the program makes now. A program that repeats its input gives it to the same append,
   * whichever left before they were sent: one that is missing at the node has those behind it refused.
   */
  reserve(): number | undefined {
    return this.#isStable ? this.#seq++ : undefined;
  }

  push(append: QueuedAppend): void {
    if (this.#ended === undefined) this.#queue.push(append);
    else append.failed(this.#ended);
  }

  /**
   * The program does not wait any longer. True: it was not sent, and will not be. Another writer may append as many bytes, so
   * those that expect its end do not go either. Those of a stable producer find its gap in the sequence.
   */
  cancel(append: QueuedAppend): boolean {
    const index = this.#queue.indexOf(append);
    if (index < 0) return false;
    this.#queue.splice(index, 1);
    this.#alone.delete(append);
    const { expectedOffset } = append;
    if (expectedOffset === undefined || this.#isStable) return true;
    const lost = new Set(this.#expecting(append, this.#queue.slice(index)));
    const sentence = 'the append whose end this one expects was aborted before it was sent';
    if (lost.size > 0) this.#drop(lost, new OffsetConflict({ status: 0, code: CONFLICT, sentence }, expectedOffset));
    return true;
  }

  /** The batch to send now; undefined: something has to happen before. */
  next({ batches, bytes }: SendingBounds): SentBatch | undefined {
    if (this.#isHolding) return undefined;
    let index = this.#sent.findIndex((batch) => !this.#out.has(batch));
    if (index < 0) {
      if (this.#queue.length === 0 || this.#sent.length >= SENT_MAX) return undefined;
      index = this.#sent.push(this.#form()) - 1;
    }
    const batch = this.#sent[index];
    const before = this.#sent[index - 1];
    if (batch === undefined || this.#out.size >= batches) return undefined;
    if (before !== undefined && (batch.size > bytes || before.size > bytes)) return undefined;
    // The higher epoch would fence those of the lower one that have to be repeated.
    if (before !== undefined && before.epoch < batch.epoch) return undefined;
    this.#out.set(batch, before);
    return batch;
  }

  acknowledged(batch: SentBatch, next: number | undefined): void {
    this.#out.delete(batch);
    const index = this.#sent.indexOf(batch);
    if (index < 0) return;
    if (next === undefined) return this.#fail(index, clientError('BAD_ANSWER', 'the node acknowledged no offset'));
    this.#sent.splice(index, 1);
    let offset = next;
    for (const append of batch.appends.toReversed()) {
      append.done(offset);
      if (this.hasByteOffsets) offset -= append.bytes.length;
    }
  }

  /** Nothing of the batch was done, or that is not known and a repeat tells. */
  refused(batch: SentBatch, error: StreamError): void {
    const before = this.#out.get(batch);
    this.#out.delete(batch);
    const index = this.#sent.indexOf(batch);
    if (index < 0) return;
    this.#isHolding = true;
    if (error.retryAfterMs !== undefined) this.#pauseMs = Math.max(this.#pauseMs, error.retryAfterMs);
    // A batch that overtook the one before it is refused behind it, when that one may be acknowledged already.
    else if (before === undefined || !OUT_OF_TURN.has(error.code)) this.#fail(index, error);
  }

  /** The connection ended before an answer came. */
  lost(batch: SentBatch, pauseMs = 0): void {
    this.#out.delete(batch);
    this.#isHolding = true;
    this.#pauseMs = Math.max(this.#pauseMs, pauseMs);
  }

  /** Nothing is under way: what is not acknowledged is sent again. Returns how long to wait before. */
  resume(): number {
    const pauseMs = this.#pauseMs;
    this.#pauseMs = 0;
    this.#isHolding = false;
    return pauseMs;
  }

  /** Everything that waits or is under way. */
  failAll(error: StreamError): void {
    const appends = [...this.#sent.splice(0).flatMap((batch) => batch.appends), ...this.#queue.splice(0)];
    this.#alone.clear();
    // Which of them have taken effect, and so which sequence comes next, only the program can find out.
    if (this.#isStable) this.#ended = error;
    this.#renew();
    for (const append of appends) append.failed(error);
  }

  /** A node compares the tail with what the first of a batch expects, so others that expect one continue from there. */
  #form(): SentBatch {
    const queue = this.#queue;
    let count = 0;
    let size = 0;
    let end = Number.NaN;
    const expects = queue[0]?.expectedOffset !== undefined;
    for (const append of queue) {
      const isSingle = this.#isStable || append.closes || this.#alone.has(append);
      const bytes = append.bytes.length + HEAD_BYTES;
      const isFull = count === APPENDS_MAX || size + bytes > BATCH_BYTES_MAX;
      const isNext = append.expectedOffset === (expects ? end : undefined);
      if (count > 0 && (isSingle || isFull || !isNext)) break;
      end = this.#endOf(append);
      count++;
      size += bytes;
      this.#alone.delete(append);
      if (isSingle) break;
    }
    const appends = queue.splice(0, count);
    return { epoch: this.#epoch, seq: appends[0]?.seq ?? this.#seq++, appends, size };
  }

  /** Refused for good, with everything behind it unless that is not concerned. */
  #fail(index: number, error: StreamError): void {
    if (this.#isStable && error.code === CONFLICT) {
      for (const append of this.#sent.splice(index, 1)[0]?.appends ?? []) append.failed(error);
      // Were the others conflicts too, a program would read and append again without end.
      const sentence =
        'this producer has ended; open the stream again, with the sequence of the append that conflicted';
      return this.#failFrom(index, clientError('PRODUCER_ENDED', sentence));
    }
    if (this.#isStable || !OF_ITSELF.has(error.code)) {
      if (error.code === 'PRODUCER_EPOCH_STALE') this.#ended = error;
      return this.#failFrom(index, error);
    }
    const [refused, ...behind] = this.#sent.splice(index);
    if (refused === undefined) return;
    this.#renew();
    const again = [...behind.flatMap((batch) => batch.appends), ...this.#queue];
    if (refused.appends.length > 1 && error.code !== CONFLICT) {
      for (const one of refused.appends) this.#alone.add(one);
      this.#queue = [...refused.appends, ...again];
      return;
    }
    this.#queue = again;
    this.#drop(new Set([...refused.appends, ...this.#expecting(refused.appends.at(-1), again)]), error);
  }

  /** Those behind the append that expect its end, or the end of one that does. */
  #expecting(append: QueuedAppend | undefined, behind: readonly QueuedAppend[]): readonly QueuedAppend[] {
    let end = this.#endOf(append);
    return behind.filter(({ expectedOffset, bytes }) => {
      if (expectedOffset !== undefined && expectedOffset !== end) return false;
      end += bytes.length;
      return expectedOffset !== undefined;
    });
  }

  #drop(lost: ReadonlySet<QueuedAppend>, error: StreamError): void {
    this.#queue = this.#queue.filter((append) => !lost.has(append));
    for (const append of lost) {
      this.#alone.delete(append);
      append.failed(error);
    }
  }

  /** The tail behind an append that expects one. NaN, which nothing equals: it is not known, as that of a JSON stream. */
  #endOf(append: QueuedAppend | undefined): number {
    const { expectedOffset = Number.NaN, bytes } = append ?? {};
    return this.hasByteOffsets && bytes !== undefined ? expectedOffset + bytes.length : Number.NaN;
  }

  #failFrom(index: number, error: StreamError): void {
    const before = this.#sent.splice(0, index);
    this.failAll(error);
    this.#sent = before;
  }

  #renew(): void {
    this.#epoch++;
    this.#seq = 0;
  }
}

/** So that no two writers ever share one. `crypto.randomUUID` is missing on pages without TLS. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return `c-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
