/** Head: what a stream is and where it ends. */
import { query, type ResultCodec } from './operation.ts';
import { A, B, C, TEXT } from './generic-fields.ts';

/** What HEAD tells beside position, type and records, which stand in the reply as for any stream. */
export interface HeadResult {
  /** Of the state, for conditions of writes; empty: the node is of a version without. */
  readonly tag: string;
  /** Where the bytes begin that the nodes hold; -1: not told. */
  readonly hotStart: number;
  readonly floor: number;
  /** -1: none. */
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
  readonly incarnation: number;
  /** Undefined: none is published. */
  readonly snapshot: { readonly offset: number; readonly digest: string } | undefined;
}

const HEAD_RESULT: ResultCodec<HeadResult> = {
  write(reply, { tag, hotStart, floor, ttlSeconds, expiresAtMs, incarnation, snapshot }) {
    reply.startOffset = floor;
    reply[A] = ttlSeconds;
    reply[B] = expiresAtMs;
    reply[C] = incarnation;
    reply[TEXT] = [tag, hotStart, ...(snapshot === undefined ? [] : [snapshot.offset, snapshot.digest])].join(' ');
  },
  read(reply) {
    const [tag = '', hotStart = '', offset = '', digest] = reply[TEXT].split(' ');
    return {
      tag,
      hotStart: hotStart === '' ? -1 : Number(hotStart),
      floor: reply.startOffset,
      ttlSeconds: reply[A],
      expiresAtMs: reply[B],
      incarnation: reply[C],
      snapshot: digest === undefined ? undefined : { offset: Number(offset), digest },
    };
  },
};

export const head = query({
  number: 33,
  scope: 'stream',
  needsLeaders: false,
  duringImport: false,
  result: HEAD_RESULT,
});
