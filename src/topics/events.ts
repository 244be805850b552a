/**
 * The content of live answers: the bytes of server-sent events, their ids, and the
 * cursor. Pure: nothing here knows readers or sockets.
 *
 *   event: data\n            or message, when asked; text: one `data:` line for each line of the payload; base64: one line
 *   data:<line>\n
 *   id: <20 digits>\n        where to go on behind this event; last, so that a block begins with its type
 *   \n
 *   event: control\n
 *   data:{"streamNextOffset":"<20 digits>","streamCursor":"<digits>","upToDate":true}\n
 *   id: <20 digits>\n
 *   \n
 *
 * A client reassembles payloads so: its parser joins the lines of an event with LF and drops one blank after `data:`.
 * So a line that begins with a blank gets a second one, and every payload comes back byte for byte but for one thing:
 * server-sent events cannot carry a carriage return. CRLF, CR and LF all end a line there, so each becomes LF, which
 * keeps lines apart and makes it impossible to smuggle in an event. (CR and LF in two different events become two LF.)
 * Readers that need every byte of such a text use long-poll, or a content type that travels as base64.
 */
import { byteAt } from '../base/bytes.ts';
import { Buffer } from 'node:buffer';
import { utf8PrefixBytes } from '../base/utf8.ts';
import { formatOffset, parseUint53 } from '../protocol/header-values.ts';

/** How payloads travel; fixed when a reader connects, because its response headers say so. */
export const VIEW_TEXT = 0;
export const VIEW_BASE64 = 1;
/** The same, with an event that `onmessage` of a browser's EventSource sees. */
export const VIEW_TEXT_MESSAGE = 2;
export const VIEW_BASE64_MESSAGE = 3;
export type View = typeof VIEW_TEXT | typeof VIEW_BASE64 | typeof VIEW_TEXT_MESSAGE | typeof VIEW_BASE64_MESSAGE;

export function isBase64(view: View): boolean {
  return view === VIEW_BASE64 || view === VIEW_BASE64_MESSAGE;
}

/** A comment keeps proxies and idle timers quiet and is ignored by every parser. */
export const COMMENT: Uint8Array = Buffer.from(':\n\n', 'latin1');

const LF = 10;
const CR = 13;
const BLANK = 32;
const DATA_LINE = Buffer.from('data:', 'latin1');
const NO_BYTES: Uint8Array = new Uint8Array(0);

/** The members of a control event. */
export interface Control {
  nextOffset: number;
  upToDate: boolean;
  /** The end: no cursor is sent then. */
  closed: boolean;
  /** First retained record of a JSON stream; undefined for other streams. */
  firstRecord: number | undefined;
  /** Record that a record-aware reader continues with. */
  nextRecord: number | undefined;
}

/** Data and control event with a hole for the cursor, the one thing that differs between readers. */
export interface EventFrame {
  readonly before: Uint8Array;
  /** Empty when the event carries no cursor. */
  readonly after: Uint8Array;
}

/** Bytes of `body` that may be sent before more comes: a text is not cut inside a character. */
export function sendableBytes(view: View, body: Uint8Array): number {
  return isBase64(view) ? body.length : utf8PrefixBytes(body);
}

/** Renders a data event, when there are bytes, and its control event. `body` may be shared memory: it is copied. */
export function renderEvent(view: View, body: Uint8Array | undefined, control: Control): EventFrame {
  const rest = controlRest(control);
  const head = `event: control\ndata:{"streamNextOffset":"${formatOffset(control.nextOffset)}"`;
  const first = control.firstRecord === undefined ? '' : `,"streamFirstRecord":${control.firstRecord}`;
  const next = control.nextRecord === undefined ? '' : `,"streamNextRecord":${control.nextRecord}`;
  const before = control.closed ? `${head}${first}${next}${rest}` : `${head}${first}${next},"streamCursor":"`;
  const after = control.closed ? NO_BYTES : Buffer.from(`"${rest}`, 'latin1');
  if (body === undefined || body.length === 0) return { before: Buffer.from(before, 'latin1'), after };
  const then = `id: ${positionId(control)}\n\n${before}`;
  const type = view === VIEW_TEXT || view === VIEW_BASE64 ? 'event: data\n' : 'event: message\n';
  if (isBase64(view)) {
    const base64 = Buffer.from(body.buffer, body.byteOffset, body.length).toString('base64');
    return { before: Buffer.from(`${type}data:${base64}\n${then}`, 'latin1'), after };
  }
  return { before: textEvent(type, body, then), after };
}

function controlRest(control: Control): string {
  const flags = `${control.upToDate ? ',"upToDate":true' : ''}${control.closed ? ',"streamClosed":true' : ''}`;
  return `${flags}}\nid: ${controlId(control)}\n\n`;
}

/** The data lines for `body`, between the ASCII texts `type` and `then`. */
function textEvent(type: string, body: Uint8Array, then: string): Uint8Array {
  const out = Buffer.allocUnsafe(type.length + dataLinesBytes(body) + then.length);
  let at = out.write(type, 0, 'latin1');
  let start = 0;
  for (;;) {
    const end = lineEnd(body, start);
    out.set(DATA_LINE, at);
    at += DATA_LINE.length;
    if (body[start] === BLANK && end > start) out[at++] = BLANK;
    out.set(body.subarray(start, end), at);
    at += end - start;
    out[at++] = LF;
    if (end === body.length) break;
    start = end + (body[end] === CR && body[end + 1] === LF ? 2 : 1);
  }
  out.write(then, at, 'latin1');
  return out;
}

function dataLinesBytes(body: Uint8Array): number {
  let bytes = 0;
  let start = 0;
  for (;;) {
    const end = lineEnd(body, start);
    bytes += DATA_LINE.length + (body[start] === BLANK && end > start ? 1 : 0) + end - start + 1;
    if (end === body.length) return bytes;
    start = end + (body[end] === CR && body[end + 1] === LF ? 2 : 1);
  }
}

function lineEnd(body: Uint8Array, start: number): number {
  let at = start;
  while (at < body.length) {
    const byte = byteAt(body, at);
    if (byte === LF || byte === CR) break;
    at++;
  }
  return at;
}

/** The bytes of several events for readers with this cursor. */
export function joinFrames(frames: readonly EventFrame[], cursor: number): Uint8Array {
  const digits = Buffer.from(String(cursor), 'latin1');
  const parts: Uint8Array[] = [];
  for (const frame of frames) {
    parts.push(frame.before);
    if (frame.after.length > 0) parts.push(digits, frame.after);
  }
  return Buffer.concat(parts);
}

/** Ends the answer to a client whose stream is gone. `text` is one line of ASCII. */
export function errorEvent(text: string): Uint8Array {
  return Buffer.from(`event: error\ndata:${text}\n\n`, 'latin1');
}

/**
 * Ids of server-sent events: where a reader continues that has seen the event. A browser's EventSource sends the last
 * one as Last-Event-ID when it reconnects, to the URL that it began with.
 *
 *   00000000000000000042            the offset behind the event's bytes
 *   record=17                       the next record, for readers that are addressed by records; fits `?record=17`
 *   ...;closed                      behind either: the reader has been told that the stream is closed
 */

/** The part of a control event that becomes its id. */
type Place = Readonly<Pick<Control, 'nextOffset' | 'nextRecord' | 'closed'>>;

const RECORD = 'record=';
const CLOSED = ';closed';

/** The id of a data event, and of a control event that does not say that the stream is closed. */
export function positionId({ nextOffset, nextRecord }: Place): string {
  return nextRecord === undefined ? formatOffset(nextOffset) : `${RECORD}${nextRecord}`;
}

export function controlId(place: Place): string {
  return place.closed ? `${positionId(place)}${CLOSED}` : positionId(place);
}

/**
 * Where the reader of the event `id` goes on: at an offset, or at a record. Undefined: not the id of an event.
 */
export function parseEventId(
  id: string,
): { readonly byRecord: boolean; readonly value: number; readonly sawEnd: boolean } | undefined {
  const sawEnd = id.endsWith(CLOSED);
  const position = sawEnd ? id.slice(0, -CLOSED.length) : id;
  const byRecord = position.startsWith(RECORD);
  const parsed = parseUint53(byRecord ? position.slice(RECORD.length) : position);
  return parsed.ok ? { byRecord, value: parsed.value, sawEnd } : undefined;
}

/**
 * Cursors of live answers. A cursor names a span of time, not a position: clients echo it in the
 * next URL, so caches collapse the requests of one span, and no answer may send a
 * client back to a URL that it has used.
 */

/** Spans are counted from here: 2024-10-09T00:00:00Z, the protocol's epoch. */
const CURSOR_EPOCH_MS = Date.UTC(2024, 9, 9);
/** Length of a span. */
export const CURSOR_SPAN_MS = 20_000;
/** A client that is not behind the clock is moved ahead by 1 to 3600 s (protocol), counted in whole spans. */
export const CURSOR_JITTER_SPANS_MAX = 3_600_000 / CURSOR_SPAN_MS;

/** Number of the span that `wallMs` (milliseconds since 1970) lies in. */
export function cursorSpan(wallMs: number): number {
  return Math.max(0, Math.floor((wallMs - CURSOR_EPOCH_MS) / CURSOR_SPAN_MS));
}

/**
 * The least cursor an answer may carry: 0, meaning the current span, for a client that sent none or an older one; else
 * more than what it sent. `random` is uniform in [0, 1). Values that could not be counted up exactly are taken as none.
 */
export function cursorFloor(requested: number | undefined, span: number, random: number): number {
  if (requested === undefined || requested < span) return 0;
  const cursor = requested + 1 + Math.floor(random * CURSOR_JITTER_SPANS_MAX);
  return Number.isSafeInteger(cursor) ? cursor : 0;
}
