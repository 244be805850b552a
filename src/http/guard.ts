/**
 * The only file that hands functions to uWebSockets.js (test/tidy/http-callbacks.test.ts checks it). Two
 * things end the process there: an exception in a function that the library calls, and a route handler that
 * returns without an answer and without onAborted. Here an exception becomes one log line and the end of that
 * request, and who keeps a response registers onAborted with it.
 */
import type { ErrorCode } from '../base/errors.ts';
import type { ErrorLog } from '../ports.ts';
import type { UwsApp, UwsHandshake, UwsRequest, UwsResponse, UwsSocket } from './uws.ts';

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

/** Bounds of every socket, in the terms of the HTTP library. Without compression nothing small becomes large here. */
export interface SocketLimits {
  readonly maxPayloadLength: number;
  /** More unsent bytes end the socket. */
  readonly maxBackpressure: number;
  readonly closeOnBackpressureLimit: true;
  /** Seconds without a sign of life; a ping is sent before. */
  readonly idleTimeout: number;
  readonly sendPingsAutomatically: true;
}

export type OpenSocket = Pick<UwsSocket<Owned>, 'send' | 'end' | 'close' | 'getBufferedAmount'>;

/** One WebSocket from its opening to its end. */
export interface SocketOwner extends Pick<ResponseOwner, 'operation' | 'requestId'> {
  opened(socket: OpenSocket): void;
  /** The bytes are valid during the call. */
  received(message: Uint8Array, isBinary: boolean): void;
  /** Bytes that waited have left. */
  drained(): void;
  /** The library has answered a ping, and the answer may wait in the socket. */
  ponged(): void;
  /** The socket must not be touched any more. */
  closed(): void;
}

/** How the library hands over the owner of a socket. */
export interface Owned {
  readonly owner: SocketOwner;
}

export interface SocketRoute {
  readonly path: string;
  readonly limits: SocketLimits;
  readonly log: ErrorLog;
  /** Never throws. */
  readonly upgrade: (res: UwsResponse, req: UwsRequest, handshake: UwsHandshake) => void;
  /** A connection that became a WebSocket has ended: the library tells its filter of the others only. */
  readonly left: () => void;
}

const INTERNAL_ERROR = 1011;

export function serveSockets(app: UwsApp, { path, limits, log, upgrade, left }: SocketRoute): void {
  const guard = (socket: UwsSocket<Owned>, act: (owner: SocketOwner) => void, end: () => void): void => {
    const { owner } = socket.getUserData();
    try {
      act(owner);
    } catch (error) {
      log(error, owner.operation, owner.requestId);
      end();
    }
  };
  const run = (socket: UwsSocket<Owned>, act: (owner: SocketOwner) => void): void =>
    guard(socket, act, () => {
      try {
        socket.end(INTERNAL_ERROR, 'internal error');
      } catch {
        // It was closed before the exception.
      }
    });
  app.ws<Owned>(path, {
    ...limits,
    upgrade,
    open: (socket) => run(socket, (owner) => owner.opened(socket)),
    message: (socket, message, isBinary) => run(socket, (owner) => owner.received(new Uint8Array(message), isBinary)),
    drain: (socket) => run(socket, (owner) => owner.drained()),
    ping: (socket) => run(socket, (owner) => owner.ponged()),
    close: (socket) => {
      left();
      guard(
        socket,
        (owner) => owner.closed(),
        () => undefined,
      );
    },
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
