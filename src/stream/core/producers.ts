/**
 * State of producers: makes (id, epoch, seq) take effect at most once per stream (protocol "Idempotent producers",
 * invariant 5). Bounded per producer: the highest sequence and the last few receipts.
 */
import { assert } from '../../base/assert.ts';
import { viewOf } from '../../base/bytes.ts';
import { PRODUCER_RECEIPTS } from '../../base/limits.ts';
import { f64, struct, u8, zeros } from '../../base/struct.ts';

/** Effect of an accepted request, so that its duplicate gets the same answer. */
export interface Receipt {
  readonly seq: number;
  readonly nextOffset: number;
  readonly recordStart: number;
  readonly recordNext: number;
  readonly closed: boolean;
}

export interface ProducerState {
  epoch: number;
  /** Highest accepted sequence of the epoch. */
  seq: number;
  /** Last accepted requests of the epoch, oldest first, at most PRODUCER_RECEIPTS. */
  receipts: Receipt[];
  dirty: boolean;
}

export type Decision = 'accept' | 'duplicate' | 'stale-epoch' | 'epoch-start' | 'gap';

/** Decides about (epoch, seq) given the producer's state. Pure: it accepts nothing yet. */
export function decide(producer: ProducerState | undefined, epoch: number, seq: number): Decision {
  if (producer === undefined) return seq === 0 ? 'accept' : 'gap';
  if (epoch < producer.epoch) return 'stale-epoch';
  if (epoch > producer.epoch) return seq === 0 ? 'accept' : 'epoch-start';
  if (seq <= producer.seq) return 'duplicate';
  return seq === producer.seq + 1 ? 'accept' : 'gap';
}

/** The sequence that `epoch` must use next. */
export function expectedSeq(producer: ProducerState | undefined, epoch: number): number {
  return producer !== undefined && producer.epoch === epoch ? producer.seq + 1 : 0;
}

export function newProducer(): ProducerState {
  return { epoch: -1, seq: -1, receipts: [], dirty: true };
}

/** Records an accepted request. */
export function accept(producer: ProducerState, epoch: number, receipt: Receipt): void {
  if (epoch !== producer.epoch) {
    assert(receipt.seq === 0, 'an epoch starts at sequence 0');
    producer.epoch = epoch;
    producer.receipts = [];
  } else {
    assert(receipt.seq === producer.seq + 1, 'sequences are dense');
  }
  producer.seq = receipt.seq;
  producer.receipts.push(receipt);
  if (producer.receipts.length > PRODUCER_RECEIPTS) producer.receipts.shift();
  producer.dirty = true;
}

export function receiptOf(producer: ProducerState, seq: number): Receipt | undefined {
  return producer.receipts.find((receipt) => receipt.seq === seq);
}

const FORMAT = 1;
export const PRODUCER_ROW = struct({ format: u8, receipts: u8, zeros: zeros(6), epoch: f64, seq: f64 }, 'receipts');
export const RECEIPT = struct({ seq: f64, nextOffset: f64, recordStart: f64, recordNext: f64, closed: f64 });
const HEAD = PRODUCER_ROW.fields;
const ITEM = RECEIPT.fields;

/** Encoded size of a producer with this many receipts. */
export function producerBytes(receipts: number): number {
  return PRODUCER_ROW.size + RECEIPT.size * receipts;
}

export function encodeProducer(producer: ProducerState): Uint8Array {
  const bytes = new Uint8Array(producerBytes(producer.receipts.length));
  const view = viewOf(bytes);
  HEAD.format.set(view, 0, FORMAT);
  HEAD.receipts.set(view, 0, producer.receipts.length);
  HEAD.epoch.set(view, 0, producer.epoch);
  HEAD.seq.set(view, 0, producer.seq);
  let at = PRODUCER_ROW.size;
  for (const receipt of producer.receipts) {
    ITEM.seq.set(view, at, receipt.seq);
    ITEM.nextOffset.set(view, at, receipt.nextOffset);
    ITEM.recordStart.set(view, at, receipt.recordStart);
    ITEM.recordNext.set(view, at, receipt.recordNext);
    ITEM.closed.set(view, at, receipt.closed ? 1 : 0);
    at += RECEIPT.size;
  }
  return bytes;
}

export function decodeProducer(bytes: Uint8Array): ProducerState {
  assert(bytes[0] === FORMAT, 'known producer format');
  const view = viewOf(bytes);
  const receipts: Receipt[] = [];
  const end = producerBytes(HEAD.receipts.get(view, 0));
  for (let at = PRODUCER_ROW.size; at < end; at += RECEIPT.size) {
    receipts.push({
      seq: ITEM.seq.get(view, at),
      nextOffset: ITEM.nextOffset.get(view, at),
      recordStart: ITEM.recordStart.get(view, at),
      recordNext: ITEM.recordNext.get(view, at),
      closed: ITEM.closed.get(view, at) === 1,
    });
  }
  return { epoch: HEAD.epoch.get(view, 0), seq: HEAD.seq.get(view, 0), receipts, dirty: false };
}
