// Answers that do not fit the cork buffer of uWebSockets.js: `end` loses them when the client does not read, `tryEnd`
// does not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CorsPolicy } from '../../src/access/cors.ts';
import { RequestIds } from '../../src/audit/request-ids.ts';
import { Responder } from '../../src/http/response.ts';
import { ResponseBackpressure } from '../../src/http/backpressure.ts';
import type { UwsResponse } from '../../src/http/uws.ts';

const CORK_BYTES = 16 * 1024;

/** A socket that takes `room` bytes until it is read from. */
class SlowSocket {
  readonly taken: Buffer[] = [];
  room = 0;
  #offset = 0;
  #onWritable: ((offset: number) => boolean) | undefined;

  get res(): UwsResponse {
    return this as unknown as UwsResponse;
  }

  get text(): string {
    return Buffer.concat(this.taken).toString();
  }

  writeStatus(): this {
    return this;
  }

  writeHeader(): this {
    return this;
  }

  onAborted(): this {
    return this;
  }

  onWritable(handler: (offset: number) => boolean): this {
    this.#onWritable = handler;
    return this;
  }

  getWriteOffset(): number {
    return this.#offset;
  }

  end(body: string | Uint8Array): this {
    const bytes = Buffer.from(body as string);
    if (bytes.length <= CORK_BYTES) this.taken.push(bytes);
    return this;
  }

  tryEnd(body: Uint8Array, totalBytes: number): [boolean, boolean] {
    const part = Buffer.from(body.subarray(0, this.room));
    this.taken.push(part);
    this.#offset += part.length;
    this.room -= part.length;
    return [part.length === body.length, this.#offset === totalBytes];
  }

  /** The client reads `bytes`. */
  read(bytes: number): void {
    this.room += bytes;
    this.#onWritable?.(this.#offset);
  }
}

const IDS = new RequestIds('1-0');

function answered(write: (responder: Responder, res: UwsResponse) => void): SlowSocket {
  const socket = new SlowSocket();
  const backpressure = new ResponseBackpressure(assert.fail, IDS);
  write(
    new Responder({
      cors: new CorsPolicy(['*'], 'GET, OPTIONS').blocksFor(''),
      body: 'written',
      backpressure,
      ids: IDS,
    }),
    socket.res,
  );
  for (let i = 0; i < 100 && backpressure.usedBytes > 0; i++) socket.read(7000);
  assert.equal(backpressure.usedBytes, 0);
  return socket;
}

test('a large JSON answer reaches a client that does not read at first', () => {
  const body = JSON.stringify(Array.from({ length: 5000 }, (_, i) => `strëam ${i}`));
  assert.equal(answered((responder, res) => responder.json(res, 200, body)).text, body);
});

test('so do bytes, and a text whose bytes are many more than its characters', () => {
  const bytes = Buffer.alloc(100_000, 'abc');
  assert.equal(answered((responder, res) => responder.end(res, bytes)).text, bytes.toString());
  const text = '€'.repeat(CORK_BYTES / 2);
  assert.equal(answered((responder, res) => responder.json(res, 200, text)).text, text);
});

test('the rest of a body that is kept is not copied; of one whose memory is reused it is', () => {
  for (const memory of ['kept', 'reused'] as const) {
    const socket = new SlowSocket();
    socket.read(30_000);
    const backpressure = new ResponseBackpressure(assert.fail, IDS);
    const body = new Uint8Array(100_000).fill(0x61);
    backpressure.end(socket.res, body, memory);
    assert.equal(backpressure.usedBytes, 70_000, 'both count');
    body.fill(0x62);
    for (let i = 0; i < 100 && backpressure.usedBytes > 0; i++) socket.read(7000);
    const rest = memory === 'kept' ? 'b' : 'a';
    assert.equal(socket.text, 'a'.repeat(30_000) + rest.repeat(70_000));
  }
});
