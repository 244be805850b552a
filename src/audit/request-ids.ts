/**
 * The id by which a refusal and the log lines about its request are found. It is the client's
 * X-Request-Id when that is well formed, else one of this node. One is made only when a refusal or a
 * log line needs it: answers that succeed cost nothing.
 */

/** In small letters, as names of headers come and go here. */
export const REQUEST_ID_HEADER = 'x-request-id';

/** UUIDs have 36 characters, the longest ids of the usual proxies about 60; what is longer would only fill logs. */
const SENT_CHARS_MAX = 128;
/** Hexadecimal, Base64, and what proxies put between parts: nothing that needs quotes in a log or in a header. */
const WELL_FORMED = /^[\w.:/+=@-]+$/;

export class RequestIds {
  /** Begins every id of this node; it tells nodes and their runs apart. */
  readonly #prefix: string;
  #made = 0;
  /** The ids by response: the library makes a response object for each request. */
  readonly #ids = new WeakMap<object, string>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** Keeps what the client sent, as it came; it is looked at when it is needed. */
  keep(res: object, sent: string): void {
    if (sent.length <= SENT_CHARS_MAX) this.#ids.set(res, sent);
  }

  /** The id of the request which `res` answers, the same as long as it lives. Harmless on a dead response. */
  of(res: object): string {
    const known = this.#ids.get(res);
    if (known !== undefined && WELL_FORMED.test(known)) return known;
    const id = `${this.#prefix}-${(++this.#made).toString(36)}`;
    this.#ids.set(res, id);
    return id;
  }
}
