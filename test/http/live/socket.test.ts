// Nothing that is written is lost, whatever the kernel takes: against a model of uWebSockets.js with its fault, because
// a real socket is full to the byte only once in thousands of writes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CorkedWrite } from '../../../src/http/backpressure.ts';
import type { UwsResponse } from '../../../src/http/uws.ts';
import { createRandom } from '../../support/random.ts';

const CORK_BYTES = 16 * 1024;

/** AsyncSocket.h and the write of HttpResponse.h of 20.51, without the first chunk's headers. */
class ModelSocket {
  readonly sent: number[] = [];
  /** Bytes that the kernel takes before it is full. */
  room = 0;
  #backlog: number[] = [];
  #corked: number[] | undefined;

  cork(body: () => void): UwsResponse {
    this.#corked = [];
    body();
    this.#uncork([]);
    return this as unknown as UwsResponse;
  }

  write(data: Uint8Array): boolean {
    this.#put([...Buffer.from(`${data.length.toString(16)}\r\n`)]);
    const failed = this.#put([...data]);
    this.#put([13, 10]);
    return !failed;
  }

  /** The kernel has room again, and the next write comes. */
  drain(): void {
    this.room = Infinity;
    this.#put([]);
  }

  #kernel(bytes: readonly number[]): number {
    // All of a write that fits in part of the last buffer page is taken: full is full only for the next one.
    const taken = this.room <= 0 ? 0 : Math.min(bytes.length, this.room);
    this.room -= taken;
    for (const byte of bytes.slice(0, taken)) this.sent.push(byte);
    return taken;
  }

  /** True: failed. */
  #put(bytes: readonly number[]): boolean {
    if (this.#backlog.length > 0) {
      this.#backlog = this.#backlog.slice(this.#kernel(this.#backlog));
      if (this.#backlog.length > 0) {
        this.#backlog = [...this.#backlog, ...bytes];
        return true;
      }
    }
    if (bytes.length === 0) return false;
    if (this.#corked !== undefined) {
      if (this.#corked.length + bytes.length > CORK_BYTES) return this.#uncork(bytes);
      this.#corked.push(...bytes);
      return false;
    }
    const taken = this.#kernel(bytes);
    this.#backlog = bytes.slice(taken);
    return taken < bytes.length;
  }

  #uncork(bytes: readonly number[]): boolean {
    const corked = this.#corked;
    this.#corked = undefined;
    if (corked === undefined) return false;
    // The fault: `bytes` are forgotten.
    if (corked.length > 0 && this.#put(corked)) return true;
    return this.#put(bytes);
  }
}

function bodyOf(sent: readonly number[]): Buffer {
  const bytes = Buffer.from(sent);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.toString('latin1', at, end), 16);
    assert(size > 0 && end + 2 + size + 2 <= bytes.length, `a chunk at ${at} is whole`);
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(parts);
}

const pieceOf = (size: number, value: number): Uint8Array => new Uint8Array(size).fill(value);

test('pieces of any size arrive whole on a socket that is full at any byte', () => {
  for (let seed = 0; seed < 15; seed++) {
    const random = createRandom(seed);
    const socket = new ModelSocket();
    const write = new CorkedWrite();
    const pieces = Array.from({ length: 6 }, (_, i) => pieceOf(random.int(1, 50_000), i + 1));
    for (const piece of pieces) {
      socket.room = random.pick([0, 1, 9, 100, random.int(0, 60_000), Infinity]);
      write.all(socket, piece);
    }
    socket.drain();
    assert(bodyOf(socket.sent).equals(Buffer.concat(pieces)), `seed ${seed}`);
  }
});

test('the model has the fault that is worked around', () => {
  const socket = new ModelSocket();
  const write = (piece: Uint8Array): unknown => socket.cork(() => socket.write(piece));
  write(pieceOf(20_000, 1));
  socket.room = 0;
  write(pieceOf(20_000, 2));
  socket.drain();
  assert.throws(() => assert(bodyOf(socket.sent).length === 40_000));
});
