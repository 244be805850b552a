/** A way to one node: a session on a WebSocket, or HTTP where that cannot be opened. */
import type { SendingBounds } from './producer.ts';
import type { Leaders } from './leaders.ts';
import type { EndSignal } from './waiting.ts';
import type { StreamPath, WireAnswer, WireOptions, WireRequest } from './wire.ts';

/** The part of a WebSocket that is used here; those of browsers, Node, Deno, Bun and the package `ws` have it. */
export interface WebSocketLike {
  binaryType: string;
  send(data: Uint8Array<ArrayBuffer>): void;
  close(): void;
  addEventListener(type: 'open' | 'message' | 'close' | 'error', listener: (event: object) => void): void;
}

export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

export interface NodeChannel {
  readonly url: string;
  /** It takes requests. A node that stops, or a connection that ended, does not. */
  readonly isOpen: boolean;
  /** It has answered a request, so connecting to it was no mistake. */
  readonly hasAnswered: boolean;
  /** It was given up because nothing came. */
  readonly isSilent: boolean;
  /** Appends of one stream that it takes before it has answered the first, and the largest body. */
  readonly bounds: SendingBounds;
  /** The nodes that lead streams, as this one tells; empty: it does not. */
  readonly leaders: Leaders;
  /** Rejects with a StreamError, or with ConnectionLost: then it may have been done. An end signal stops what is not sent yet. */
  ask(request: WireRequest, signals?: readonly EndSignal[]): Promise<WireAnswer>;
  /** Events without a gap; ends behind that of a closed stream. Throws as `ask` does. */
  follow(path: StreamPath, options: WireOptions, signals: readonly EndSignal[]): AsyncGenerator<WireAnswer, void>;
  close(): void;
}

export function isClosed({ fields }: WireAnswer): boolean {
  return fields.get('stream-closed') === 'true';
}
