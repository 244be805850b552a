/** Reads one HTTP/1.1 answer from a connection, in pieces of any size. Pure. What a server sends is not trusted. */

/** Of status line, headers and trailers together. */
const HEAD_BYTES_MAX = 64 * 1024;
const NEWLINE = 0x0a;
/** Statuses without a body, whatever the headers say. */
const EMPTY = new Set([204, 304]);

/** What the next bytes are. */
type State = 'status' | 'header' | 'body' | 'chunk-size' | 'chunk' | 'chunk-end' | 'trailer' | 'until-close' | 'done';

export class HttpResponse {
  statusCode = 0;
  /** Names in lower case. */
  headers: Record<string, string> = {};
  /** The connection can be used again. */
  isReusable = false;
  readonly #take: (bytes: Uint8Array, statusCode: number) => void;
  #state: State = 'status';
  /** The beginning of a line whose end has not come yet. */
  #line = '';
  #headBytes = 0;
  /** Bytes of the body or chunk that are still to come. */
  #left = 0;
  #isHttp10 = false;

  /** `take` is told of the body's bytes, which are valid only during the call. */
  constructor(take: (bytes: Uint8Array, statusCode: number) => void) {
    this.#take = take;
  }

  get isDone(): boolean {
    return this.#state === 'done';
  }

  /** Throws when this is no HTTP, and what `take` throws. */
  feed(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#state === 'done') {
        // Bytes that nobody asked for: the next answer would begin with them.
        this.isReusable = false;
        return;
      }
      const hasBody = this.#state === 'body' || this.#state === 'chunk' || this.#state === 'until-close';
      at = hasBody ? this.#body(bytes, at) : this.#head(bytes, at);
    }
  }

  /** The server closed the connection; only an answer without a length ends that way. */
  close(): void {
    if (this.#state === 'until-close') this.#state = 'done';
  }

  #body(bytes: Uint8Array, at: number): number {
    const end = this.#state === 'until-close' ? bytes.length : Math.min(bytes.length, at + this.#left);
    this.#take(bytes.subarray(at, end), this.statusCode);
    this.#left -= end - at;
    if (this.#state === 'body' && this.#left === 0) this.#state = 'done';
    if (this.#state === 'chunk' && this.#left === 0) this.#state = 'chunk-end';
    return end;
  }

  #head(bytes: Uint8Array, at: number): number {
    const newline = bytes.indexOf(NEWLINE, at);
    const end = newline < 0 ? bytes.length : newline;
    this.#headBytes += end - at;
    if (this.#headBytes > HEAD_BYTES_MAX) throw new Error('the headers of the answer are too long');
    for (let i = at; i < end; i++) this.#line += String.fromCharCode(bytes[i] as number);
    if (newline < 0) return end;
    const line = this.#line.endsWith('\r') ? this.#line.slice(0, -1) : this.#line;
    this.#line = '';
    this.#takeLine(line);
    return newline + 1;
  }

  #takeLine(line: string): void {
    switch (this.#state) {
      case 'status': {
        const [, minor, status] = /^HTTP\/1\.([01]) (\d{3})(?: |$)/.exec(line) ?? [];
        if (status === undefined) throw new Error('the answer is not HTTP');
        this.#isHttp10 = minor === '0';
        this.statusCode = Number(status);
        this.headers = {};
        this.#state = 'header';
        break;
      }
      case 'header':
        if (line === '') this.#begin();
        else this.#header(line);
        break;
      case 'chunk-size': {
        const [, size] = /^([0-9a-f]{1,12})[ \t]*(?:;|$)/i.exec(line) ?? [];
        if (size === undefined) throw new Error('the answer has a chunk without a size');
        this.#left = Number.parseInt(size, 16);
        this.#state = this.#left === 0 ? 'trailer' : 'chunk';
        // Their number is not bounded, their lines are.
        this.#headBytes = 0;
        break;
      }
      case 'chunk-end':
        if (line !== '') throw new Error('a chunk of the answer is longer than its size');
        this.#state = 'chunk-size';
        break;
      default:
        if (line === '') this.#state = 'done';
    }
  }

  #header(line: string): void {
    const [, name, value = ''] = /^([^\s:]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    if (name === undefined) throw new Error('the answer has a line that is no header');
    const key = name.toLowerCase();
    const before = Object.hasOwn(this.headers, key) ? this.headers[key] : undefined;
    this.headers[key] = before === undefined ? value : `${before}, ${value}`;
  }

  /** The headers are complete. */
  #begin(): void {
    const { headers, statusCode } = this;
    if (statusCode < 200) {
      this.#state = 'status';
      return;
    }
    const connection = headers['connection']?.toLowerCase() ?? '';
    this.isReusable = !this.#isHttp10 && !connection.includes('close');
    const coding = headers['transfer-encoding']?.toLowerCase();
    const length = headers['content-length'];
    if (EMPTY.has(statusCode)) {
      this.#state = 'done';
    } else if (coding !== undefined) {
      if (coding !== 'chunked') throw new Error(`the answer has the transfer encoding ${coding}`);
      this.#state = 'chunk-size';
    } else if (length === undefined) {
      this.isReusable = false;
      this.#state = 'until-close';
    } else {
      if (!/^\d{1,15}$/.test(length)) throw new Error(`the answer has the length ${length}`);
      this.#left = Number(length);
      this.#state = this.#left === 0 ? 'done' : 'body';
    }
  }
}
