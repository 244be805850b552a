/**
 * The event-stream readers of one topic that get the same bytes: a tail event is
 * rendered once and written to all of them.
 *
 * Events are collected until the current run of the mailbox drain is over (a microtask) and then go out as one write
 * for each reader. A write is a system call of about 5 µs, so with 1000 readers a second event that came along in the
 * same drain costs nothing; and while the thread writes, more events collect. There is no timer and nothing to tune.
 */
import { REPLY_CLOSED, REPLY_RECORDS, type Reply } from '../protocol/reply.ts';
import { type EventFrame, type View, cursorSpan, joinFrames, renderEvent, sendableBytes } from './events.ts';

/** Rendered bytes that wait for the end of a drain; beyond it they go out at once, so a burst cannot pile up. */
const PENDING_BYTES_MAX = 256 * 1024;

/** For the readers that stand at `start`; moves them to `end`. */
export interface FeedBatch {
  readonly start: number;
  readonly end: number;
  /** The stream ends here. */
  readonly closed: boolean;
  readonly frames: readonly EventFrame[];
  readonly dataEvents: number;
  /** The bytes for a reader whose cursor may not be below `floor`. Nearly all readers share one copy. */
  readonly bytesFor: (floor: number) => Uint8Array;
}

export interface FeedReader {
  /** Must ignore what is not for its position, and may leave the feed meanwhile. */
  onBatch(batch: FeedBatch): void;
}

/** A prime, so that over time every reader comes first whatever the number of readers. */
const ROTATION_STEP = 389;
const NO_BYTES: Uint8Array = new Uint8Array(0);

export class Feed {
  readonly view: View;
  readonly #readers = new Set<FeedReader>();
  /** Order of delivery; rebuilt after a change, so that a batch walks an array. */
  #order: FeedReader[] | undefined;
  #rotation = 0;
  #frames: EventFrame[] = [];
  #pendingBytes = 0;
  #dataEvents = 0;
  #start = 0;
  #end = 0;
  #closed = false;
  /** Start of a character whose rest has not been appended yet (0 to 3 bytes), and the offset behind it. */
  #carry: Uint8Array = NO_BYTES;
  #carryEnd = -1;

  constructor(view: View) {
    this.view = view;
  }

  join(reader: FeedReader): void {
    this.#readers.add(reader);
    this.#order = undefined;
  }

  leave(reader: FeedReader): void {
    if (this.#readers.delete(reader)) this.#order = undefined;
  }

  /** Renders the event; true when a flush is now due. Without readers there is nothing to do. */
  push(event: Reply): boolean {
    if (this.#readers.size === 0) return false;
    const closed = event.has(REPLY_CLOSED);
    let body = event.body ?? NO_BYTES;
    let start = event.startOffset;
    if (this.#carry.length > 0 && this.#carryEnd === start) {
      start -= this.#carry.length;
      body = concat(this.#carry, body);
    }
    const bytes = closed ? body.length : sendableBytes(this.view, body);
    this.#carry = bytes === body.length ? NO_BYTES : body.slice(bytes);
    this.#carryEnd = event.nextOffset;
    const end = event.nextOffset - this.#carry.length;
    if (bytes === 0 && !closed) return false;
    if (this.#frames.length > 0 && this.#end !== start) this.flush();
    if (this.#frames.length === 0) this.#start = start;
    const frame = renderEvent(this.view, bytes === body.length ? body : body.subarray(0, bytes), {
      nextOffset: end,
      upToDate: this.#carry.length === 0,
      closed,
      firstRecord: event.has(REPLY_RECORDS) ? event.recordFirst : undefined,
      nextRecord: undefined,
    });
    this.#frames.push(frame);
    if (bytes > 0) this.#dataEvents++;
    this.#end = end;
    this.#closed = closed;
    this.#pendingBytes += frame.before.length;
    if (this.#pendingBytes > PENDING_BYTES_MAX) this.flush();
    return this.#frames.length > 0;
  }

  /** Writes what was rendered. Readers take turns at being first, because the last of 1000 waits 5 ms longer. */
  flush(): void {
    if (this.#frames.length === 0) return;
    const frames = this.#frames;
    const batch: FeedBatch = {
      start: this.#start,
      end: this.#end,
      closed: this.#closed,
      frames,
      dataEvents: this.#dataEvents,
      bytesFor: joined(frames, cursorSpan(Date.now())),
    };
    this.#frames = [];
    this.#dataEvents = 0;
    this.#pendingBytes = 0;
    const order = (this.#order ??= [...this.#readers]);
    const first = (this.#rotation = (this.#rotation + ROTATION_STEP) % Math.max(1, order.length));
    for (let i = first; i < order.length; i++) order[i]?.onBatch(batch);
    for (let i = 0; i < first; i++) order[i]?.onBatch(batch);
  }
}

/** Cursors below `span` are shown as it. */
function joined(frames: readonly EventFrame[], span: number): FeedBatch['bytesFor'] {
  const copies = new Map<number, Uint8Array>();
  return (floor) => {
    const cursor = Math.max(floor, span);
    let bytes = copies.get(cursor);
    if (bytes === undefined) copies.set(cursor, (bytes = joinFrames(frames, cursor)));
    return bytes;
  };
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(a.length + b.length);
  bytes.set(a, 0);
  bytes.set(b, a.length);
  return bytes;
}
