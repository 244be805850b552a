// etcd's Put over gRPC, on a raw socket: the little of HTTP/2 that one kind of unary call needs. A gRPC library for
// Node costs as much processor time per call as etcd itself, which would be measured as etcd's.

import assert from 'node:assert/strict';
import type { SlotConnection, SlotProtocol } from './slots.ts';

const FRAME_HEAD_BYTES = 9;
const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE] = [0, 1, 3, 4, 6, 7, 8];
const END_STREAM = 0x1;
/** Flag of SETTINGS and PING: the frame answers one of ours. */
const ACK = 0x1;
const END_HEADERS = 0x4;
/** Answers are 40 bytes: enough for 25 million of them, so our window is never updated. */
const WINDOW_BYTES = 2 ** 30;
/** The window that a server grants before it was asked; it tops it up long before all of these are used. */
const SEND_WINDOW_BYTES = 65_535;
const EMPTY = Buffer.alloc(0);

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function text(value: string): Buffer {
  return Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
}

/** HPACK: `:method POST`, `:scheme http`, then four fields that the server is told to remember. */
function firstHeaders(port: number): Buffer {
  return Buffer.concat([
    Buffer.from([0x83, 0x86, 0x44]),
    text('/etcdserverpb.KV/Put'),
    Buffer.from([0x41]),
    text(`127.0.0.1:${port}`),
    Buffer.from([0x5f]),
    text('application/grpc'),
    Buffer.from([0x40]),
    text('te'),
    text('trailers'),
  ]);
}

/** The same fields by their numbers: entry 62 is the one remembered last. */
const NEXT_HEADERS = Buffer.from([0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe]);

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    bytes.push(rest < 0x80 ? rest : (rest & 0x7f) | 0x80);
    if (rest < 0x80) return Buffer.from(bytes);
  }
}

/** A gRPC message (not compressed) that holds etcdserverpb.PutRequest{key, value}. */
export function putMessage(key: string, value: Buffer): Buffer {
  const fields = [Buffer.from([0x0a]), varint(key.length), Buffer.from(key), Buffer.from([0x12])];
  const message = Buffer.concat([...fields, varint(value.length), value]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

export class GrpcPut implements SlotProtocol {
  readonly greeting: Buffer;
  readonly isReady = true;
  readonly #messages: Buffer[];
  readonly #slotOfStream = new Map<number, number>();
  /** Streams whose answer held a message: a refusal consists of trailers alone. */
  readonly #withData = new Set<number>();
  readonly #firstHeaders: Buffer;
  #nextStream = 1;
  #input: Buffer = EMPTY;

  constructor({ port, firstSlot, slots, payloadBytes }: SlotConnection) {
    const value = Buffer.alloc(payloadBytes, 'x');
    this.#messages = Array.from({ length: slots }, (_, slot) => putMessage(`stream-${firstSlot + slot}`, value));
    const inFlightBytes = this.#messages.reduce((sum, { length }) => sum + length, 0);
    assert(inFlightBytes < SEND_WINDOW_BYTES / 2, `${slots} puts in flight do not fit into the window of a connection`);
    const window = Buffer.alloc(4);
    window.writeUInt32BE(WINDOW_BYTES);
    const hello = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
    this.greeting = Buffer.concat([hello, frame(SETTINGS, 0, 0, EMPTY), frame(WINDOW_UPDATE, 0, 0, window)]);
    this.#firstHeaders = firstHeaders(port);
  }

  append(slot: number): Buffer {
    const stream = this.#nextStream;
    this.#nextStream += 2;
    this.#slotOfStream.set(stream, slot);
    const headers = frame(HEADERS, END_HEADERS, stream, stream === 1 ? this.#firstHeaders : NEXT_HEADERS);
    return Buffer.concat([headers, frame(DATA, END_STREAM, stream, this.#messages[slot] as Buffer)]);
  }

  receive(chunk: Buffer, onAnswer: (slot: number, isGood: boolean) => void): Buffer | undefined {
    const input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    const replies: Buffer[] = [];
    let at = 0;
    while (input.length - at >= FRAME_HEAD_BYTES) {
      const end = at + FRAME_HEAD_BYTES + input.readUIntBE(at, 3);
      if (end > input.length) break;
      const [type, flags, stream] = [input[at + 3]!, input[at + 4]!, input.readUInt32BE(at + 5)];
      const payload = input.subarray(at + FRAME_HEAD_BYTES, end);
      at = end;
      if (type === GOAWAY) throw new Error(`the server ends the connection: ${payload.toString('latin1', 8)}`);
      if ((type === SETTINGS || type === PING) && (flags & ACK) === 0)
        replies.push(frame(type, ACK, 0, type === PING ? payload : EMPTY));
      if (type === DATA && payload.length > 0) this.#withData.add(stream);
      if (type === RST_STREAM || ((type === HEADERS || type === DATA) && (flags & END_STREAM) !== 0)) {
        const slot = this.#slotOfStream.get(stream);
        const isGood = this.#withData.delete(stream) && type === HEADERS;
        // The server resets a stream that it has already answered when it had not read our end of it.
        if (slot !== undefined && this.#slotOfStream.delete(stream)) onAnswer(slot, isGood);
      }
    }
    // A copy, because the chunk's memory is used again.
    this.#input = at === input.length ? EMPTY : Buffer.from(input.subarray(at));
    return replies.length === 0 ? undefined : Buffer.concat(replies);
  }
}
