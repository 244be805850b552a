// The client's end of a session's socket, as bytes: it knows just enough of RFC 6455 to cost less than the server that
// it measures.

import { PROTOCOL } from '../../src/session/messages.ts';

const HANDSHAKE = [
  'GET /__svc/session HTTP/1.1',
  'Host: 127.0.0.1',
  'Upgrade: websocket',
  'Connection: Upgrade',
  'Sec-WebSocket-Version: 13',
  `Sec-WebSocket-Key: ${Buffer.from('the-key-of-bench').toString('base64')}`,
  `Sec-WebSocket-Protocol: ${PROTOCOL}`,
];
const HEAD_END = Buffer.from('\r\n\r\n');
const EMPTY = Buffer.alloc(0);
const FIN = 0x80;
const BINARY = 2;
const PING = 9;
const PONG = 10;
const MASKED = 0x80;
/** Clients have to mask; a mask of zeros leaves the bytes as they are. */
const MASK = Buffer.alloc(4);

export function handshake(): Buffer {
  return Buffer.from([...HANDSHAKE, '', ''].join('\r\n'));
}

/** One message of several pieces. */
export function webSocketFrame(pieces: readonly Buffer[]): Buffer {
  const length = pieces.reduce((bytes, piece) => bytes + piece.length, 0);
  const headBytes = length < 126 ? 2 : length < 0x1_0000 ? 4 : 10;
  const frame = Buffer.allocUnsafe(headBytes + MASK.length + length);
  frame[0] = FIN | BINARY;
  frame[1] = MASKED | (length < 126 ? length : length < 0x1_0000 ? 126 : 127);
  if (headBytes === 4) frame.writeUInt16BE(length, 2);
  else if (headBytes === 10) frame.writeBigUInt64BE(BigInt(length), 2);
  let at = headBytes;
  for (const piece of [MASK, ...pieces]) {
    frame.set(piece, at);
    at += piece.length;
  }
  return frame;
}

/** Answers a ping: without a sign of life for half a minute a session ends. */
export const PONG_FRAME = Buffer.from([FIN | PONG, MASKED, ...MASK]);

/** Takes what a socket brings apart into messages. */
export class WebSocketInput {
  /** The last piece had a ping. */
  isPinged = false;
  /** Why the server refused the handshake. */
  failure = '';
  #input: Buffer = EMPTY;
  #isOpen = false;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** `onMessage` gets whole messages, valid during the call; other frames are passed over. */
  feed(chunk: Buffer, onMessage: (message: Buffer) => void): void {
    let input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    if (!this.#isOpen) input = this.#passHead(input);
    let at = 0;
    this.isPinged = false;
    for (let end = this.#isOpen ? frameEnd(input, at) : 0; end > 0; end = frameEnd(input, at)) {
      if (input[at] === (FIN | BINARY)) onMessage(input.subarray(at + headBytes(input, at), end));
      else if (input[at] === (FIN | PING)) this.isPinged = true;
      at = end;
    }
    // A copy, because the chunk's memory may be used again.
    this.#input = at === input.length ? EMPTY : Buffer.from(input.subarray(at));
  }

  #passHead(input: Buffer): Buffer {
    const end = input.indexOf(HEAD_END);
    if (end < 0) return input;
    const head = input.toString('latin1', 0, end);
    this.#isOpen = head.startsWith('HTTP/1.1 101 ');
    if (!this.#isOpen) this.failure = head.split('\r\n')[0] ?? 'no status line';
    return input.subarray(end + HEAD_END.length);
  }
}

function headBytes(input: Buffer, at: number): number {
  const short = input[at + 1] ?? 0;
  return short < 126 ? 2 : short === 126 ? 4 : 10;
}

/** Where the frame at `at` ends; 0: it is not whole yet. */
function frameEnd(input: Buffer, at: number): number {
  if (input.length < at + 2) return 0;
  const head = headBytes(input, at);
  if (input.length < at + head) return 0;
  const short = input.readUInt8(at + 1);
  const size = head === 2 ? short : head === 4 ? input.readUInt16BE(at + 2) : Number(input.readBigUInt64BE(at + 2));
  const end = at + head + size;
  return end <= input.length ? end : 0;
}
