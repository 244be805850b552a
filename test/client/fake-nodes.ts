// Nodes for tests of the client: sockets in this process, which do what a script says.
import type { TestContext } from 'node:test';
import { Packr, Unpackr } from 'msgpackr';
import type { WebSocketConstructor } from '../../src/client/channel.ts';
import { type MillraceClient, connect } from '../../src/client/client.ts';

export const HELLO = [64, { message_bytes: 262_144, in_flight_bytes: 1_048_576, requests: 1024 }];
export const SUBSCRIBE = 5;
export const TEXT = { contentType: 'text/plain' };

export type Frame = readonly [kind: number, id: number, ...rest: unknown[]];

const packr = new Packr({ useRecords: false });
const unpackr = new Unpackr({ useRecords: false, int64AsType: 'number' });

/** One connection of the client, from the node's side. */
export class NodeSide {
  readonly url: string;
  readonly protocols: readonly string[];
  readonly got: Frame[] = [];
  isClosed = false;
  readonly #emit: (type: string, event: object) => void;
  readonly #script: (node: NodeSide, frame: Frame) => void;

  constructor(
    url: string,
    protocols: string[],
    emit: NodeSide['emit'],
    script: (node: NodeSide, frame: Frame) => void,
  ) {
    this.url = url;
    this.protocols = protocols;
    this.#emit = emit;
    this.#script = script;
  }

  emit(type: string, event: object): void {
    if (!this.isClosed) this.#emit(type, event);
  }

  say(...frames: readonly unknown[]): void {
    const bytes = Buffer.concat(frames.map((frame) => packr.pack(frame)));
    this.emit('message', { data: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) });
  }

  take(message: Uint8Array): void {
    const frames: Frame[] = [];
    unpackr.unpackMultiple(message, (frame: Frame) => void frames.push(frame));
    // The library has one state for all that is read, so nothing is answered before this is.
    this.got.push(...frames);
    for (const frame of frames) this.#script(this, frame);
  }
}

interface FakeNodes {
  readonly client: MillraceClient;
  readonly connections: readonly NodeSide[];
}

type Script = (node: NodeSide, frame: Frame) => void;

/** Each script says what its connection does with a frame; the last one is that of all further connections. */
export function startFakes(t: TestContext, ...scripts: readonly Script[]): FakeNodes {
  return startFakesAt(['http://a.example', 'https://b.example/'], t, scripts);
}

export function startFakesAt(urls: readonly string[], t: TestContext, scripts: readonly Script[]): FakeNodes {
  const connections: NodeSide[] = [];
  const socket: WebSocketConstructor = class {
    binaryType = 'blob';
    readonly #listeners = new Map<string, (event: object) => void>();
    readonly #node: NodeSide;

    constructor(url: string, protocols: string[]) {
      const script = scripts[Math.min(connections.length, scripts.length - 1)] ?? (() => undefined);
      const emit = (type: string, event: object): void => this.#listeners.get(type)?.(event);
      this.#node = new NodeSide(url, protocols, emit, script);
      connections.push(this.#node);
      if (script === mute) return;
      queueMicrotask(() => (script === refusing ? this.#node.emit('error', {}) : this.#node.say(HELLO)));
    }

    addEventListener(type: string, listener: (event: object) => void): void {
      this.#listeners.set(type, listener);
    }

    send(message: Uint8Array): void {
      queueMicrotask(() => this.#node.take(message));
    }

    close(): void {
      this.#node.isClosed = true;
    }
  };
  const client = connect(urls, { token: 'se/cret', WebSocket: socket });
  t.after(() => client.close());
  return { client, connections };
}

export const refusing = (): void => undefined;
/** It does not even say HELLO. */
export const mute = (): void => undefined;
export const silent = (): void => undefined;
/** Where the last append to an honest node ended. */
export const tail = { offset: 0 };
export const honest = (node: NodeSide, [kind, id, , , body]: Frame): void => {
  if (kind === 2) node.say([65, id, (tail.offset += body instanceof Uint8Array ? body.length : 0), {}, null]);
  else if (kind === SUBSCRIBE)
    node.say([67, id, 2, { 'content-type': 'text/plain', 'stream-closed': 'true' }, Buffer.from('hi')]);
  else node.say([65, id, 0, { 'content-type': 'text/plain' }, null]);
};
