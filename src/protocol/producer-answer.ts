/**
 * The producer fields of a write's answer: in replies with REPLY_PRODUCER, for every operation. Functions instead of an
 * object, because every append uses them.
 */
import type { Reply } from './reply.ts';

/** The epoch and sequence to show: those of the request, or the highest accepted sequence for a duplicate. */
export function showProducer(reply: Reply, epoch: number, seq: number): void {
  reply.a = epoch;
  reply.b = seq;
}

export function showSeqConflict(reply: Reply, expected: number, received: number): void {
  reply.b = expected;
  reply.c = received;
}

export function producerEpoch(reply: Reply): number {
  return reply.a;
}

export function producerSeq(reply: Reply): number {
  return reply.b;
}

/** For PRODUCER_SEQ_CONFLICT. */
export function expectedSeq(reply: Reply): number {
  return reply.b;
}

export function receivedSeq(reply: Reply): number {
  return reply.c;
}
