/** Followers of streams: live readers and subscriptions. */
import { NO_RESULT, query, type ResultCodec } from './operation.ts';
import { A, C } from './generic-fields.ts';
import type { Reply } from './reply.ts';

/** Position of a stream that is observed by name. */
export interface ObserveResult {
  /** 0: the stream does not exist. */
  readonly incarnation: number;
  readonly tail: number;
}

const OBSERVE_RESULT: ResultCodec<ObserveResult> = {
  write(reply, { incarnation, tail }) {
    reply[C] = incarnation;
    reply.nextOffset = tail;
  },
  read: (reply) => ({ incarnation: reply[C], tail: reply.nextOffset }),
};

/**
 * An event without a body: the state of a group was replaced, so everything known about its streams must be queried
 * again.
 */
export function showReplaced(reply: Reply, group: number): void {
  reply[A] = group;
}

export function replacedGroup(reply: Reply): number {
  return reply[A];
}

/** A live reader has left, so its topic ends. */
export const unwatch = query({
  number: 37,
  scope: 'control',
  needsLeaders: false,
  duringImport: true,
  result: NO_RESULT,
});

/**
 * The set of streams that subscriptions follow in a group (group/observer.ts): mode = one of OBSERVE_*, key = a stream,
 * or a pattern in place of the bucket; events go to the topic.
 */
export const observe = query({
  number: 46,
  scope: 'group',
  needsLeaders: false,
  duringImport: false,
  result: OBSERVE_RESULT,
});
