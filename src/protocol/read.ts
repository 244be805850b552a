/**
 * Read: bytes or records of a stream from a position. The hot path of readers: requests and answers are reused objects.
 */
import { query, type ResultCodec } from './operation.ts';
import { A, C } from './generic-fields.ts';
import type { Reply } from './reply.ts';

/**
 * Identity of the stream that was read, to distinguish it from others of its name. Part of every answer to a reader, so
 * functions instead of an object.
 */
export function showRead(reply: Reply, incarnation: number, createdAtMs: number): void {
  reply[A] = incarnation;
  reply[C] = createdAtMs;
}

export function readIncarnation(reply: Reply): number {
  return reply[A];
}

export function readCreatedAtMs(reply: Reply): number {
  return reply[C];
}

export interface ReadResult {
  readonly incarnation: number;
  readonly createdAtMs: number;
}

const READ_RESULT: ResultCodec<ReadResult> = {
  write: (reply, { incarnation, createdAtMs }) => showRead(reply, incarnation, createdAtMs),
  read: (reply) => ({ incarnation: reply[A], createdAtMs: reply[C] }),
};

export const read = query({
  number: 32,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  result: READ_RESULT,
});
