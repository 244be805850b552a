/** Followers of streams: live readers and subscriptions. */
import { NO_RESULT, query } from './operation.ts';
import type { StreamName } from './flat-path.ts';
import { type ResultOf, numberIn, resultFields } from './frame-fields.ts';
import { A, C, MODE, TOPIC } from './generic-fields.ts';
import { type RequestCodec, nameStream } from './request.ts';
import type { Reply } from './reply.ts';
import { isArrayOf, isNumber, isText, readJson } from './json-result.ts';

/** Events go to the topic. */
export type ObserveRequest = { readonly topic: number } & (
  | (StreamName & { readonly action: 'watch' | 'forget' })
  /** Watches paths (base/glob.ts). */
  | { readonly action: 'watch-pattern' | 'forget-pattern'; readonly pattern: string }
);

export type ObserveAction = ObserveRequest['action'];

/** By number, from 1. */
const ACTIONS: readonly (ObserveAction | undefined)[] = [
  undefined,
  'watch',
  'forget',
  'watch-pattern',
  'forget-pattern',
];

/** The name is that of the stream (its key as text), or the pattern. */
interface ObserveView {
  readonly action: ObserveAction | undefined;
  readonly topic: number;
  readonly name: string;
}

const OBSERVE_REQUEST: RequestCodec<ObserveRequest, ObserveView> = {
  write(request, asked) {
    // The pattern stands in place of the bucket.
    nameStream(request, 'pattern' in asked ? { bucket: asked.pattern, stream: '' } : asked);
    request[MODE] = ACTIONS.indexOf(asked.action);
    request[TOPIC] = asked.topic;
  },
  read: (query) => ({ action: ACTIONS[query[MODE]], topic: query[TOPIC], name: query.keyText() }),
};

/** Position of a stream that is observed by name. */
const OBSERVE_RESULT = resultFields({
  /** 0: the stream does not exist. */
  incarnation: numberIn(C),
  tail: numberIn('nextOffset'),
});

export type ObserveResult = ResultOf<typeof OBSERVE_RESULT>;

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

const TOPIC_REQUEST: RequestCodec<{ readonly topic: number }> = {
  write(request, { topic }) {
    nameStream(request, { bucket: '', stream: '' });
    request[TOPIC] = topic;
  },
  read: (query) => ({ topic: query[TOPIC] }),
};

/** A live reader has left, so its topic ends. */
export const unwatch = query({
  number: 37,
  scope: 'control',
  needsLeaders: false,
  request: TOPIC_REQUEST,
  result: NO_RESULT,
});

/** Subscriptions follow a group by it (group/observer.ts). */
export const observe = query({
  number: 46,
  scope: 'group',
  needsLeaders: false,
  request: OBSERVE_REQUEST,
  result: OBSERVE_RESULT,
});

/** A stream that moved, was created or is gone, in an event of an observer. */
export interface MovedStream extends StreamName {
  readonly incarnation: number;
  readonly tail: number;
  readonly isRemoved: boolean;
}

type MovedRow = readonly [bucket: string, stream: string, incarnation: number, tail: number, isRemoved: number];

const isMoves = isArrayOf(
  (row): row is MovedRow =>
    Array.isArray(row) && row.length === 5 && isText(row[0]) && isText(row[1]) && row.slice(2).every(isNumber),
);

/** One of the elements of the event's array. */
export function encodeMove({ bucket, stream, incarnation, tail, isRemoved }: MovedStream): string {
  return JSON.stringify([bucket, stream, incarnation, tail, isRemoved ? 1 : 0] satisfies MovedRow);
}

export function readMoves(event: Reply): MovedStream[] {
  return readJson(event, isMoves).map(([bucket, stream, incarnation, tail, isRemoved]) => ({
    ...{ bucket, stream, incarnation, tail },
    isRemoved: isRemoved === 1,
  }));
}
