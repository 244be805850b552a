/**
 * Where a request ends. Two readers of one connection that disagree about it see different requests: a proxy lets one through,
 * the server behind it acts on another one. uWebSockets.js (20.51.4 and 20.69.0 alike) takes the first Content-Length of several, an empty one as
 * 0, and any Transfer-Encoding as chunked. So every request is looked at before a handler acts, in the walk over its headers that is made anyway.
 *
 * What cannot be seen from here: the lines between chunks (a bare LF ends one), and headers behind one without a name.
 * Proxies write both anew (test/proxy/framing.test.ts).
 */
const CHUNKED = 'chunked';

/** What the headers of one request say about its length. */
export class Framing {
  #lengths = 0;
  #encodings = 0;
  #fault: string | undefined;

  reset(): void {
    this.#lengths = 0;
    this.#encodings = 0;
    this.#fault = undefined;
  }

  contentLength(value: string): void {
    this.#lengths++;
    if (!isDigits(value)) this.#fault ??= 'Content-Length must be one number';
  }

  transferEncoding(value: string): void {
    this.#encodings++;
    if (value.toLowerCase() !== CHUNKED) this.#fault ??= 'Transfer-Encoding must be chunked and nothing else';
  }

  /** Why nobody can be sure where the request ends. */
  get fault(): string | undefined {
    if (this.#fault !== undefined || this.#lengths + this.#encodings < 2) return this.#fault;
    if (this.#encodings === 0) return 'Content-Length is given more than once';
    return this.#lengths === 0
      ? 'Transfer-Encoding is given more than once'
      : 'Content-Length and Transfer-Encoding exclude each other';
  }
}

/** A loop: every append comes by, and a regular expression costs ten times as much. */
function isDigits(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x30 || code > 0x39) return false;
  }
  return text !== '';
}
