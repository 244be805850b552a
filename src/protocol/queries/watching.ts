/** Followers of streams: live readers and subscriptions. */
import type { StreamName } from '../flat-path.ts';
import { NO_RESULT, asks, query, says } from '../operation.ts';

/** A live reader has left, so its topic ends. No answer comes. */
export const unwatch = query({
  number: 37,
  scope: 'control',
  needsLeaders: false,
  request: asks<{ readonly topic: number }>(),
  result: NO_RESULT,
});

/** Starts or stops events about a stream, or about the paths of a pattern. They go to the topic. */
export type ObserveRequest = { readonly topic: number } & (
  | (StreamName & { readonly action: 'watch' | 'forget' })
  /** A pattern of paths (base/glob.ts). */
  | { readonly action: 'watch-pattern' | 'forget-pattern'; readonly pattern: string }
);

/** Position of a stream that is observed by name. Incarnation 0: the stream does not exist. */
export interface ObserveResult {
  readonly incarnation: number;
  readonly tail: number;
}

/** Lets subscriptions follow a group (group/observer.ts). */
export const observe = query({
  number: 46,
  scope: 'group',
  needsLeaders: false,
  request: asks<ObserveRequest>(),
  result: says<ObserveResult>(),
});

/** A stream that moved, was created or is gone, in an event of an observer. */
export interface MovedStream extends StreamName {
  readonly incarnation: number;
  readonly tail: number;
  readonly isRemoved: boolean;
}

export type ObserverEvent =
  | { readonly moved: readonly MovedStream[] }
  /** The state of this group was replaced, so everything known about its streams must be queried again. */
  | { readonly replacedGroup: number };

export const OBSERVER_EVENT = says<ObserverEvent>();
