/**
 * The producer fields of a write's answer: in replies with REPLY_PRODUCER, for every operation. Functions instead of an
 * object, because every append uses them.
 */
import { A, B, C } from './generic-fields.ts';
import type { Reply } from './reply.ts';

/** The epoch and sequence to show: those of the request, or the highest accepted sequence for a duplicate. */
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

/** For PRODUCER_SEQ_CONFLICT. */
export function expectedSeq(reply: Reply): number {
  return reply[B];
}

export function receivedSeq(reply: Reply): number {
  return reply[C];
}
