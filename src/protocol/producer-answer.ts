/**
 * What a write of an idempotent producer is answered with: in replies with REPLY_PRODUCER, whatever the operation. Functions and
 * no object: it is part of every append.
 */
import { A, B, C } from './generic-fields.ts';
import type { Reply } from './reply.ts';

/** The epoch to show, and the sequence: that of the request, or the highest accepted one of a duplicate. */
export function showProducer(reply: Reply, epoch: number, seq: number): void {
  reply[A] = epoch;
  reply[B] = seq;
}

export function showSeqConflict(reply: Reply, expected: number, received: number): void {
  reply[B] = expected;
  reply[C] = received;
}

export function producerEpoch(reply: Reply): number {
  return reply[A];
}

export function producerSeq(reply: Reply): number {
  return reply[B];
}

/** Of a PRODUCER_SEQ_CONFLICT. */
export function expectedSeq(reply: Reply): number {
  return reply[B];
}

export function receivedSeq(reply: Reply): number {
  return reply[C];
}
