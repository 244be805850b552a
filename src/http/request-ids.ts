/**
 * The id by which a refusal and the log lines about its request are found. It is the client's X-Request-Id when that is well
 * formed, else one of this node. One is made only when a refusal or a log line needs it: answers that succeed cost nothing.
 */
import type { UwsResponse } from './uws.ts';

/** In small letters, as names of headers come and go here. */
export const REQUEST_ID_HEADER = 'x-request-id';

/** UUIDs have 36 characters, the longest ids of the usual proxies about 60; what is longer would only fill logs. */
const SENT_CHARS_MAX = 128;
/** Hexadecimal, Base64, and what proxies put between parts: nothing that needs quotes in a log or in a header. */
const WELL_FORMED = /^[\w.:/+=@-]+$/;

let prefix = '0-0';
let made = 0;
/** Of requests that sent one, and of those that needed one. The library makes an object for each request. */
const ids = new WeakMap<UwsResponse, string>();

/** How ids of this process begin from now on. `run` tells those of one run of the node from those of the next. */
export function nameNode(nodeId: number, run: string): void {
  prefix = `${nodeId}-${run}`;
}

/** What the client sent, as it came; it is looked at when it is needed. */
export function keepRequestId(res: UwsResponse, sent: string): void {
  if (sent.length <= SENT_CHARS_MAX) ids.set(res, sent);
}

/** That of the request which `res` answers; the same as long as it lives. Harmless on a dead response. */
export function requestIdOf(res: UwsResponse): string {
  const known = ids.get(res);
  if (known !== undefined && WELL_FORMED.test(known)) return known;
  const id = `${prefix}-${(++made).toString(36)}`;
  ids.set(res, id);
  return id;
}
