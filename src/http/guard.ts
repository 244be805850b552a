/**
 * The only file that hands functions to uWebSockets.js (test/tidy/http-callbacks.test.ts checks it). Two
 * things end the process there: an exception in a function that the library calls, and a route handler that
 * returns without an answer and without onAborted. Here an exception becomes one log line and the end of that
 * request, and who keeps a response registers onAborted with it.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { ErrorLog } from '../ports.ts';
import type { UwsApp, UwsResponse } from './uws.ts';

/** Keeps a response after its route handler has returned. */
export interface ResponseOwner {
  /** Both for the log. */
  readonly operation: string;
  readonly requestId: string;
  /** Answers with a refusal, or cuts the connection when part of an answer is out. Harmless after the end. */
  fail(code: ErrorCode): void;
}

declare const GUARDED: unique symbol;
type Guarded<Callback> = Callback & { readonly [GUARDED]: true };

/** Callbacks that never throw. Objects that are reused make theirs once. */
export type GuardedAbort = Guarded<() => void>;
export type GuardedData = Guarded<(chunk: ArrayBuffer, last: boolean) => void>;

export function guardAbort(log: ErrorLog, owner: ResponseOwner, gone: () => void): GuardedAbort {
  const callback = (): void => {
    try {
      gone();
    } catch (error) {
      log(error, owner.operation, owner.requestId);
    }
  };
  return callback as GuardedAbort;
}

export function guardData(
  log: ErrorLog,
  owner: ResponseOwner,
  take: (chunk: ArrayBuffer, last: boolean) => void,
): GuardedData {
  const callback = (chunk: ArrayBuffer, last: boolean): void => {
    try {
      take(chunk, last);
    } catch (error) {
      failSafely(log, owner, error);
    }
  };
  return callback as GuardedData;
}

/** The response outlives its route handler; `gone` runs when the client leaves. The last call counts. */
export function whenGone(res: UwsResponse, gone: GuardedAbort): void {
  res.onAborted(gone);
}

/** The owner of `res` takes the body. */
export function readData(res: UwsResponse, take: GuardedData): void {
  res.onData(take);
}

/** `write` runs when the socket has room; true: all that it had is written. */
export function whenWritable(
  res: UwsResponse,
  log: ErrorLog,
  owner: ResponseOwner,
  write: (offset: number) => boolean,
): void {
  res.onWritable((offset) => {
    try {
      return write(offset);
    } catch (error) {
      failSafely(log, owner, error);
      return true;
    }
  });
}

/** `changed` hears of each connection that comes (1) or goes (-1). */
export function watchConnections(app: UwsApp, log: ErrorLog, changed: (res: UwsResponse, by: number) => void): void {
  app.filter((res, by) => {
    try {
      changed(res, Number(by));
    } catch (error) {
      log(error, 'connection', undefined);
    }
  });
}

/** Logs what went wrong and ends the request. */
export function failSafely(log: ErrorLog, owner: ResponseOwner, error: unknown): void {
  log(error, owner.operation, owner.requestId);
  try {
    owner.fail('INTERNAL');
  } catch (again) {
    log(again, owner.operation, owner.requestId);
  }
}

/** Answered or closed: nothing may touch it. Only an exception tells, which costs 4 µs. */
export function isDead(res: UwsResponse): boolean {
  try {
    res.getWriteOffset();
    return false;
  } catch {
    return true;
  }
}
