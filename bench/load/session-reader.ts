// A reader that follows a stream in a session of its own (src/session/README.md), from the stream's tail. Like the
// reader of event streams it costs less than the server, so it looks for the events' marks and unpacks nothing.

import { Packr } from 'msgpackr';
import { splitFlatPath } from '../../src/protocol/flat-path.ts';
import { SUBSCRIBE } from '../../src/session/messages.ts';
import { EventOrder, scanEvents } from './fan-out-event.ts';
import { PONG_FRAME, WebSocketInput, handshake, webSocketFrame } from './web-socket.ts';

const ID = 1;
/** A run's events are far fewer bytes, so CREDIT is never needed. */
const CREDIT_BYTES = 64 * 1024 * 1024;
/** How every EVENT and every REFUSED begins: an array of so many values, and its kind. */
const EVENT_START = 0x9543;
const REFUSED_START = 0x9642;

/** The message that follows `stream` of the flat routes. */
export function subscribeMessage(path: string): Buffer {
  const { bucket, stream } = splitFlatPath(path);
  const packr = new Packr({ useRecords: false, variableMapSize: true });
  return webSocketFrame([packr.pack([SUBSCRIBE, ID, bucket, stream, CREDIT_BYTES, { offset: 'now' }])]);
}

interface Reader {
  readonly subscribe: Buffer;
  send(bytes: Buffer): void;
  /** The stream is followed from here on. */
  opened(): void;
  onEvent(sequence: number, sentUs: number): void;
}

export class SessionReader {
  readonly greeting = handshake();
  readonly order = new EventOrder();
  readonly #reader: Reader;
  readonly #input = new WebSocketInput();
  #hasAsked = false;
  #isOpen = false;
  #refusal = '';

  constructor(reader: Reader) {
    this.#reader = reader;
  }

  get failure(): string {
    return this.#input.failure || this.#refusal;
  }

  feed(chunk: Buffer): void {
    this.#input.feed(chunk, this.#take);
    if (this.#input.isPinged) this.#reader.send(PONG_FRAME);
    if (this.#hasAsked || !this.#input.isOpen) return;
    this.#hasAsked = true;
    this.#reader.send(this.#reader.subscribe);
  }

  readonly #take = (message: Buffer): void => {
    const start = message.readUInt16BE(0);
    if (start === REFUSED_START) this.#refusal = message.toString('latin1');
    // The first event says where the tail is.
    if (!this.#isOpen && start === EVENT_START) {
      this.#isOpen = true;
      this.#reader.opened();
    }
    // Without a look at the frames: heads of events of this size hold no mark.
    scanEvents(message, 0, message.length, this.#onEvent);
  };

  readonly #onEvent = (sequence: number, sentUs: number): void => {
    this.order.take(sequence);
    this.#reader.onEvent(sequence, sentUs);
  };
}
