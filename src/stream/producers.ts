/**
 * Producer state: makes (id, epoch, seq) take effect at most once per stream (protocol "Idempotent producers"). Bounded
 * per producer: the highest sequence and the last few receipts.
 */
import { assert } from '../base/assert.ts';
import { PRODUCER_RECEIPTS } from '../base/limits.ts';

/** Effect of an accepted request, so that its duplicate gets the same answer. */
export interface Receipt {
  readonly seq: number;
  readonly nextOffset: number;
  readonly recordStart: number;
  readonly recordNext: number;
  readonly closed: boolean;
}

export interface Producer {
  epoch: number;
  /** Highest accepted sequence of the epoch. */
  seq: number;
  /** Last accepted requests of the epoch, oldest first, at most PRODUCER_RECEIPTS. */
  receipts: Receipt[];
  dirty: boolean;
}

export type Decision = 'accept' | 'duplicate' | 'stale-epoch' | 'epoch-start' | 'gap';

/** Decides about (epoch, seq) given the producer's state. Pure: it accepts nothing yet. */
export function decide(producer: Producer | undefined, epoch: number, seq: number): Decision {
  if (producer === undefined) return seq === 0 ? 'accept' : 'gap';
  if (epoch < producer.epoch) return 'stale-epoch';
  if (epoch > producer.epoch) return seq === 0 ? 'accept' : 'epoch-start';
  if (seq <= producer.seq) return 'duplicate';
  return seq === producer.seq + 1 ? 'accept' : 'gap';
}

/** The sequence that `epoch` must use next. */
export function expectedSeq(producer: Producer | undefined, epoch: number): number {
  return producer !== undefined && producer.epoch === epoch ? producer.seq + 1 : 0;
}

export function newProducer(): Producer {
  return { epoch: -1, seq: -1, receipts: [], dirty: true };
}

/** Records an accepted request. */
export function accept(producer: Producer, epoch: number, receipt: Receipt): void {
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

export function receiptOf(producer: Producer, seq: number): Receipt | undefined {
  return producer.receipts.find((receipt) => receipt.seq === seq);
}

const FORMAT = 1;
const HEAD_BYTES = 24;
const RECEIPT_BYTES = 40;

/** Encoded size of a producer with this many receipts. */
export function producerBytes(receipts: number): number {
  return HEAD_BYTES + RECEIPT_BYTES * receipts;
}

/**
 * Encoded: format u8 | count u8 | zero u48 | epoch f64 | seq f64 | receipts: seq, next, recordStart, recordNext, closed
 *  f64.
 */
export function encodeProducer(producer: Producer): Uint8Array {
  const bytes = new Uint8Array(producerBytes(producer.receipts.length));
  const view = new DataView(bytes.buffer);
  bytes[0] = FORMAT;
  bytes[1] = producer.receipts.length;
  view.setFloat64(8, producer.epoch, true);
  view.setFloat64(16, producer.seq, true);
  let at = HEAD_BYTES;
  for (const receipt of producer.receipts) {
    view.setFloat64(at, receipt.seq, true);
    view.setFloat64(at + 8, receipt.nextOffset, true);
    view.setFloat64(at + 16, receipt.recordStart, true);
    view.setFloat64(at + 24, receipt.recordNext, true);
    view.setFloat64(at + 32, receipt.closed ? 1 : 0, true);
    at += RECEIPT_BYTES;
  }
  return bytes;
}

export function decodeProducer(bytes: Uint8Array): Producer {
  assert(bytes[0] === FORMAT, 'known producer format');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const receipts: Receipt[] = [];
  const count = bytes[1] as number;
  for (let i = 0, at = HEAD_BYTES; i < count; i++, at += RECEIPT_BYTES) {
    receipts.push({
      seq: view.getFloat64(at, true),
      nextOffset: view.getFloat64(at + 8, true),
      recordStart: view.getFloat64(at + 16, true),
      recordNext: view.getFloat64(at + 24, true),
      closed: view.getFloat64(at + 32, true) === 1,
    });
  }
  return { epoch: view.getFloat64(8, true), seq: view.getFloat64(16, true), receipts, dirty: false };
}
