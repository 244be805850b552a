/** `connect`: the client of a cluster, and what it exports. README.md says how it is used. */
import { isHeaderText } from './arguments.ts';
import type { WebSocketConstructor } from './channel.ts';
import { clientError } from './error.ts';
import { NodePool } from './pool.ts';
import type { StableProducer } from './producer.ts';
import { MillraceStream } from './stream.ts';
import { Room } from './waiting.ts';

export type { AppendOptions } from './appends.ts';
export type { WebSocketConstructor, WebSocketLike } from './channel.ts';
export { OffsetConflict, StreamError } from './error.ts';
export type { StableProducer } from './producer.ts';
export type { RecordFollowOptions, RecordStream, StreamRecord } from './records.ts';
export type {
  CreateOptions,
  FollowOptions,
  FollowedBatch,
  ForkOptions,
  PublishedSnapshot,
  SnapshotOptions,
  StreamAttributes,
  StreamDescription,
  StreamPlace,
} from './stream.ts';
export type { WaitOptions } from './waiting.ts';
export { MillraceStream } from './stream.ts';

/** Appends that are not durable yet, of all streams. */
const IN_FLIGHT_BYTES = 8 * 1024 * 1024;

const PRODUCER_ID = /^[!-~]{1,1024}$/;

export interface ConnectOptions {
  /** The client token of the nodes, if they have one. */
  readonly token?: string;
  /** Bytes of appends that are not durable yet, 8 MiB when left out. Further appends wait. */
  readonly inFlightBytes?: number;
  /** Where the platform has none, as Node 20: the class of the package `ws`, for example. Without it HTTP has to do. */
  readonly WebSocket?: WebSocketConstructor;
}

export interface OpenOptions {
  /** Its content type, if the program knows it; else the node is asked before the first append. */
  readonly contentType?: string;
  /** The program's own, so that what it appends again after a restart takes effect once. */
  readonly producer?: StableProducer;
}

/** A client of the nodes with these URLs, all of one cluster. It connects when it is first used. */
export function connect(urls: string | readonly string[], options: ConnectOptions = {}): MillraceClient {
  return new MillraceClient(typeof urls === 'string' ? [urls] : urls, options);
}

export class MillraceClient {
  readonly #pool: NodePool;
  readonly #room: Room;

  /** `connect()` makes it. */
  constructor(urls: readonly string[], options: ConnectOptions) {
    const { token, inFlightBytes = IN_FLIGHT_BYTES, WebSocket: socket = platformSocket() } = options;
    const bases = urls.map((url) => url.replace(/\/+$/, ''));
    const wrong = bases.find((url) => !URL.canParse(url) || !/^https?:\/\/[^?#@]+$/.test(url));
    if (bases.length === 0) throw clientError('INVALID_ARGUMENT', 'the list of URLs is empty; name at least one node');
    if (wrong !== undefined) {
      throw clientError(
        'INVALID_ARGUMENT',
        `${wrong.replace(/^(https?:\/\/)?.*@/is, '$1...@')} is no URL of a node; write http://HOST:PORT or https://HOST:PORT`,
      );
    }
    if (token !== undefined && !isHeaderText(token)) {
      throw clientError(
        'INVALID_ARGUMENT',
        'the token has characters that no header can have; write it as nodes have it',
      );
    }
    this.#pool = new NodePool({ urls: bases, token, socket });
    this.#room = new Room(inFlightBytes);
  }

  /** Asks nothing. Each call is a writer of its own: appends of two of them have no order. */
  stream(bucket: string, name: string, { contentType, producer }: OpenOptions = {}): MillraceStream {
    if (producer !== undefined) checkProducer(producer);
    const path = { bucket, stream: name };
    return new MillraceStream({ pool: this.#pool, room: this.#room, path, contentType, producer });
  }

  /** Ends the connection and everything that waits. Await what has to be durable before. */
  close(): void {
    this.#pool.close();
  }
}

function checkProducer({ id, epoch = 0, seq = 0 }: StableProducer): void {
  if (!PRODUCER_ID.test(id))
    throw clientError('INVALID_ARGUMENT', `"${id}" is no id of a producer; write 1 to 1,024 visible ASCII characters`);
  const wrong = [epoch, seq].find((value) => !Number.isSafeInteger(value) || value < 0);
  if (wrong !== undefined)
    throw clientError('INVALID_ARGUMENT', `${wrong} is no epoch or sequence of a producer; give a whole number from 0`);
}

function platformSocket(): WebSocketConstructor | undefined {
  const platform: { readonly WebSocket?: WebSocketConstructor; readonly fetch: unknown } = globalThis;
  return platform.WebSocket;
}
