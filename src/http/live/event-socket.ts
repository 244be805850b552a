/** Counts what waits in the socket of one event stream, and writes the answer's head. Its reader owns the response. */
import { READER_BUFFER_BYTES_MAX, READER_STALL_MS_MAX } from '../../base/limits.ts';
import { isText } from '../../protocol/media-type.ts';
import { REPLY_RECORDS, type Reply } from '../../protocol/reply.ts';
import { RECORD_EXTENSION, type Responder } from '../response.ts';
import { shownContentType } from '../../access/stored-type.ts';
import type { UwsResponse } from '../uws.ts';
import { BUFFERED_BYTES_MAX, type Live, READER_BYTES_WHEN_FULL } from './live.ts';
import {
  COMMENT,
  VIEW_BASE64,
  VIEW_BASE64_MESSAGE,
  VIEW_TEXT,
  VIEW_TEXT_MESSAGE,
  type View,
  isBase64,
} from '../../topics/events.ts';
import type { EventType } from '../context.ts';

export class EventSocket {
  readonly #live: Live;
  lastWriteMs: number;
  /** It refused bytes at this time and took none since; -1 when it is free. */
  #stalledMs = -1;
  #bufferedBytes = 0;

  constructor(live: Live) {
    this.#live = live;
    this.lastWriteMs = live.ctx.monotonicMs();
  }

  get isStalled(): boolean {
    return this.#stalledMs >= 0;
  }

  /** It took nothing for so long that the client must be gone. */
  isDead(clockMs: number): boolean {
    return this.isStalled && clockMs - this.#stalledMs >= READER_STALL_MS_MAX;
  }

  /** More waits than one reader may hold, or than all of them together. */
  get isOverfull(): boolean {
    return this.#bufferedBytes > READER_BUFFER_BYTES_MAX || this.#live.bufferedBytes > BUFFERED_BYTES_MAX;
  }

  /** All readers together have no room, and this one has a large part of that. */
  get isTooMuch(): boolean {
    return this.#bufferedBytes > READER_BYTES_WHEN_FULL && !this.#live.hasRoom(0);
  }

  /** False: the socket is full, and the bytes wait in memory. */
  write(res: UwsResponse, bytes: Uint8Array): boolean {
    this.lastWriteMs = this.#live.clock.clockMs;
    if (this.#live.backpressure.writePiece(res, bytes)) {
      this.drained();
      return true;
    }
    this.#bufferedBytes += bytes.length;
    this.#live.bufferedBytes += bytes.length;
    if (this.#stalledMs < 0) this.#stalledMs = this.lastWriteMs;
    return false;
  }

  /** The kernel took bytes just now, so the client is alive. */
  moved(): void {
    if (this.isStalled) this.#stalledMs = this.#live.clock.clockMs;
  }

  /** Writes a comment; true when everything has left. */
  probe(res: UwsResponse): boolean {
    if (!this.#live.backpressure.writePiece(res, COMMENT)) return false;
    this.drained();
    return true;
  }

  drained(): void {
    this.#stalledMs = -1;
    this.#live.bufferedBytes -= this.#bufferedBytes;
    this.#bufferedBytes = 0;
  }
}

export function viewOf(reply: Reply, event: EventType): View {
  const isPlain = isText(shownContentType(reply));
  if (event === 'message') return isPlain ? VIEW_TEXT_MESSAGE : VIEW_BASE64_MESSAGE;
  return isPlain ? VIEW_TEXT : VIEW_BASE64;
}

export function writeStreamHead(res: UwsResponse, responder: Responder, reply: Reply, view: View): void {
  responder.begin(res, 200, 'no-cache');
  res.writeHeader('content-type', 'text/event-stream');
  res.writeHeader('stream-data-content-type', shownContentType(reply));
  if (isBase64(view)) res.writeHeader('stream-sse-data-encoding', 'base64');
  if (reply.has(REPLY_RECORDS)) res.writeHeader('stream-extensions', RECORD_EXTENSION);
}
