// A response without a socket: what it takes, and when it is full, is in the test's hands. Behaves as uWebSockets.js
// does where it matters: a refused write is kept, and only a later write sends it.
import assert from 'node:assert/strict';
import type { UwsResponse } from '../../../src/http/uws.ts';

export class FakeResponse {
  status = '';
  readonly headers = new Map<string, string>();
  /** Bytes that have reached the client. */
  readonly sent: Buffer[] = [];
  ended = false;
  aborted = false;
  /** The client does not read. */
  full = false;
  #kept: Buffer[] = [];
  #onAborted: () => void = () => undefined;
  #onWritable: ((offset: number) => boolean) | undefined;

  /** As the type that handlers take. They use a tenth of it. */
  get res(): UwsResponse {
    return this as unknown as UwsResponse;
  }

  get keptBytes(): number {
    return this.#kept.reduce((sum, bytes) => sum + bytes.length, 0);
  }

  cork(work: () => void): this {
    this.#alive();
    work();
    return this;
  }

  onAborted(handler: () => void): this {
    this.#onAborted = handler;
    return this;
  }

  onWritable(handler: (offset: number) => boolean): this {
    this.#onWritable = handler;
    return this;
  }

  /** With header lines behind it (heads.ts). */
  writeStatus(head: Uint8Array): this {
    this.#alive();
    const [status = '', ...lines] = Buffer.from(head).toString().split('\r\n');
    this.status = status;
    for (const line of lines) {
      const [name = '', value = ''] = line.split(': ', 2);
      this.headers.set(name, value);
    }
    return this;
  }

  writeHeader(name: string, value: string): this {
    this.#alive();
    this.headers.set(name, value);
    return this;
  }

  write(bytes: Uint8Array): boolean {
    this.#alive();
    this.#kept.push(Buffer.from(bytes));
    if (this.full) return false;
    this.#send();
    return true;
  }

  end(body?: Uint8Array | string): this {
    this.#alive();
    if (body !== undefined) this.#kept.push(Buffer.from(body as string));
    this.ended = true;
    this.#onWritable = undefined;
    if (!this.full) this.#send();
    return this;
  }

  /** The kernel takes whole answers here; what it does not take is tested on real sockets. */
  tryEnd(body: Uint8Array | string, _totalBytes: number): [boolean, boolean] {
    this.end(body);
    return [true, true];
  }

  endWithoutBody(): this {
    return this.end();
  }

  close(): this {
    this.abort();
    return this;
  }

  // --- what the client does

  abort(): void {
    if (this.ended || this.aborted) return;
    this.aborted = true;
    this.#onAborted();
  }

  /** The client reads again. */
  drain(): void {
    this.full = false;
    if (this.aborted) return;
    if (this.ended) this.#send();
    else if (this.#kept.length > 0) this.#onWritable?.(0);
  }

  #send(): void {
    this.sent.push(...this.#kept);
    this.#kept = [];
  }

  #alive(): void {
    assert.ok(!this.ended && !this.aborted, 'a response is not touched after its end');
  }
}
