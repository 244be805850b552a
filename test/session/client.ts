// A client of sessions over a plain socket: it also sends what a WebSocket library would not. MessagePack is that of a
// library, so that it is not our own reading of it alone.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { Packr, Unpackr } from 'msgpackr';
import { PATIENCE_MS } from '../support/until.ts';
import { within } from '../support/server.ts';

const packr = new Packr({ useRecords: false, variableMapSize: true });
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

export const CREATE = 1;
export const APPEND = 2;
export const HEAD = 3;
export const READ = 4;
export const SUBSCRIBE = 5;
export const CREDIT = 6;
export const UNSUBSCRIBE = 7;
export const DELETE = 8;
export const ATTRIBUTES = 9;
export const HELLO = 64;
export const DONE = 65;
export const REFUSED = 66;
export const EVENT = 67;
export const GO_AWAY = 68;
const LEADERS = 69;

export const TEXT = { 'content-type': 'text/plain' };
export const JSON_TYPE = { 'content-type': 'application/json' };
export const PROTOCOL = 'millrace.session.v1';

const OP_TEXT = 1;
const OP_BINARY = 2;
const OP_CLOSE = 8;
const OP_PING = 9;

export interface Handshake {
  readonly protocol?: string;
  readonly headers?: readonly string[];
  readonly path?: string;
}

/** One message of a node, in its parts. */
export interface Told {
  readonly kind: number;
  readonly id: number;
  /** DONE and EVENT. */
  readonly next: number | null;
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
  /** REFUSED. */
  readonly status: number;
  readonly code: string;
  readonly sentence: string;
}

export function frameOf(opcode: number, payload: Uint8Array, { fin = true, length = payload.length } = {}): Buffer {
  const head = Buffer.alloc(length < 126 ? 2 : length < 0x1_0000 ? 4 : 10);
  head[0] = (fin ? 0x80 : 0) | opcode;
  if (length < 126) head[1] = 0x80 | length;
  else if (length < 0x1_0000) {
    head[1] = 0x80 | 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  // A mask of zeros is a mask too.
  return Buffer.concat([head, Buffer.alloc(4), payload]);
}

export function pack(...frames: readonly unknown[]): Buffer {
  return Buffer.concat(frames.map((frame) => Buffer.from(packr.pack(frame))));
}

/** The head of an upgrade. */
export function handshakeOf({ protocol = PROTOCOL, headers = [], path = '/__svc/session' }: Handshake = {}): string {
  const lines = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13'];
  lines.push(`Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`);
  if (protocol !== '') lines.push(`Sec-WebSocket-Protocol: ${protocol}`);
  return [`GET ${path} HTTP/1.1`, 'Host: localhost', ...lines, ...headers, '', ''].join('\r\n');
}

export class SessionClient {
  readonly socket: Socket;
  /** The answer to the handshake. */
  head = '';
  /** Messages that no one has taken, and all that came. */
  readonly told: Told[] = [];
  messages = 0;
  hello: Readonly<Record<string, number>> = {};
  /** Told last: where the node is, and the leaders of the groups are. */
  leaders: { readonly self: string | null; readonly groups: readonly (string | null)[] } | undefined;
  leadersTold = 0;
  pings = 0;
  /** With what the node closed; undefined as long as it did not. */
  closeCode: number | undefined;
  closeReason = '';
  isOver = false;
  #data = Buffer.alloc(0);
  /** Pieces behind #data, to be joined when a frame is whole: large frames come in hundreds of them. */
  #pieces: Buffer[] = [];
  #missingBytes = 0;
  #changed: (() => void)[] = [];

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('error', () => undefined);
    socket.on('data', (data) => this.#take(data));
    socket.on('close', () => {
      this.isOver = true;
      this.#wake();
    });
  }

  /** Resolves when the node has answered the handshake, with HELLO when it was taken. */
  static async connect(port: number, handshake: Handshake = {}): Promise<SessionClient> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return await SessionClient.over(socket, handshake);
  }

  /** The same on a socket that is connected. */
  static async over(socket: Socket, handshake: Handshake = {}): Promise<SessionClient> {
    const client = new SessionClient(socket);
    socket.write(handshakeOf(handshake));
    await client.until(() => client.head !== '' && (client.status !== 101 || client.hello['requests'] !== undefined));
    return client;
  }

  get status(): number {
    return Number(this.head.split(' ')[1]);
  }

  async until(isSo: () => boolean): Promise<void> {
    const wait = async (): Promise<void> => {
      while (!isSo()) {
        assert(!this.isOver, `the session is over: ${this.head} ${this.closeCode} ${this.closeReason}`);
        await new Promise<void>((resolve) => this.#changed.push(resolve));
      }
    };
    await within(wait(), PATIENCE_MS, `${isSo.toString()} with ${JSON.stringify(this.told.slice(0, 5))}`);
  }

  /** All of them in one message. */
  send(...frames: readonly unknown[]): void {
    this.socket.write(frameOf(OP_BINARY, pack(...frames)));
  }

  sendText(text: string): void {
    this.socket.write(frameOf(OP_TEXT, Buffer.from(text)));
  }

  sendBytes(bytes: Uint8Array): void {
    this.socket.write(frameOf(OP_BINARY, bytes));
  }

  /** Takes the first message that fits. */
  async take(fits: (told: Told) => boolean): Promise<Told> {
    await this.until(() => this.told.some(fits));
    const at = this.told.findIndex(fits);
    const [told] = this.told.splice(at, 1);
    assert(told !== undefined);
    return told;
  }

  /** The next message about this id. */
  async about(id: number): Promise<Told> {
    return await this.take((told) => told.id === id);
  }

  async ask(...frame: readonly [number, number, ...(readonly unknown[])]): Promise<Told> {
    this.send(frame);
    return await this.about(frame[1]);
  }

  /** Resolves with the code when the node has ended it. */
  async ended(): Promise<number | undefined> {
    const end = new Promise<void>((resolve) => void this.socket.once('close', () => resolve()));
    if (!this.isOver) await within(end, PATIENCE_MS, 'the end of the session');
    return this.closeCode;
  }

  destroy(): void {
    this.socket.destroy();
  }

  #take(data: Buffer): void {
    this.#pieces.push(data);
    this.#missingBytes -= data.length;
    if (this.#missingBytes > 0) return;
    this.#data = Buffer.concat([this.#data, ...this.#pieces.splice(0)]);
    if (this.head === '') {
      const end = this.#data.indexOf('\r\n\r\n');
      if (end < 0) return;
      this.head = this.#data.subarray(0, end).toString();
      this.#data = this.#data.subarray(end + 4);
    }
    if (this.status === 101) while (this.#takeFrame());
    this.#wake();
  }

  #takeFrame(): boolean {
    const data = this.#data;
    if (data.length < 2) return false;
    const short = data.readUInt8(1) & 0x7f;
    const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (data.length < headBytes) return false;
    const size = short < 126 ? short : short === 126 ? data.readUInt16BE(2) : Number(data.readBigUInt64BE(2));
    this.#missingBytes = headBytes + size - data.length;
    if (this.#missingBytes > 0) return false;
    const payload = data.subarray(headBytes, headBytes + size);
    this.#data = data.subarray(headBytes + size);
    const opcode = data.readUInt8(0) & 0x0f;
    if (opcode === OP_BINARY) this.#hear(payload);
    else if (opcode === OP_PING) this.pings++;
    else if (opcode === OP_CLOSE) {
      this.closeCode = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
      this.closeReason = payload.subarray(2).toString();
    }
    return true;
  }

  #hear(message: Buffer): void {
    this.messages++;
    for (const value of unpackr.unpackMultiple(message) as readonly unknown[][]) {
      const [kind, id, ...rest] = value as [number, number, ...unknown[]];
      if (kind === HELLO) this.hello = value[1] as Readonly<Record<string, number>>;
      else if (kind === LEADERS) {
        const [, self, nodes, places] = value as [number, string | null, string[], (number | null)[]];
        this.leaders = { self, groups: places.map((place) => (place === null ? null : (nodes[place] as string))) };
        this.leadersTold++;
      } else this.told.push(toldOf(kind, id, rest));
    }
  }

  #wake(): void {
    for (const changed of this.#changed.splice(0)) changed();
  }
}

function toldOf(kind: number, id: number, rest: readonly unknown[]): Told {
  const nothing = { kind, id, next: null, fields: {}, body: '', status: 0, code: '', sentence: '' };
  if (kind === REFUSED) {
    const [status, code, sentence, fields] = rest as [number, string, string, Record<string, string>];
    return { ...nothing, status, code, sentence, fields };
  }
  if (kind === GO_AWAY) return { ...nothing, id: -1, sentence: String(id) };
  const [next, fields, body] = rest as [number | null, Record<string, string>, Uint8Array | null];
  return { ...nothing, next, fields, body: body === null ? '' : Buffer.from(body).toString() };
}
