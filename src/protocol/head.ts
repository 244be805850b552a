/** Head: metadata and position of a stream. */
import { query, type ResultCodec } from './operation.ts';
import { A, B, C, TEXT } from './generic-fields.ts';
import { NAMED_STREAM } from './request.ts';

/** HEAD's result in addition to position, type and records, which are in the reply as for any stream. */
export interface HeadResult {
  /** Tag of the state, for conditional writes; empty: the node's version has none. */
  readonly tag: string;
  /** Start of the bytes that the nodes hold; -1: not reported. */
  readonly hotStart: number;
  readonly startOffset: number;
  /** -1: none. */
  readonly ttlSeconds: number;
  readonly expiresAtMs: number;
  readonly incarnation: number;
  /** Undefined: none is published. */
  readonly snapshot: { readonly offset: number; readonly digest: string } | undefined;
}

const HEAD_RESULT: ResultCodec<HeadResult> = {
  write(reply, { tag, hotStart, startOffset, ttlSeconds, expiresAtMs, incarnation, snapshot }) {
    reply.startOffset = startOffset;
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
      startOffset: reply.startOffset,
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
  request: NAMED_STREAM,
  result: HEAD_RESULT,
});
