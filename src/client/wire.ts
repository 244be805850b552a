/**
 * Frames of `millrace.session.v1`, as src/session/README.md of the node has them. What a node sends is decoded into maps
 * and checked value by value: a frame that is not exactly of its kind ends the session.
 */
import { Packr, Unpackr } from 'msgpackr';
import { type StreamError, refusalOf, wholeNumber } from './error.ts';
import type { Leaders } from './leaders.ts';

export const PROTOCOL = 'millrace.session.v1';

export const KIND = {
  ...{ create: 1, append: 2, head: 3, subscribe: 5, credit: 6, unsubscribe: 7, delete: 8, attributes: 9 },
} as const;

const HELLO = 64;
const DONE = 65;
const REFUSED = 66;
const EVENT = 67;
const GO_AWAY = 68;
const LEADERS = 69;

/** One record, the largest body that a node takes, and what its frame adds. A larger message is none of a node. */
export const MESSAGE_BYTES_MAX = 40 * 1024 * 1024;
/** An answer has about ten. */
const FIELDS_MAX = 64;
/** Groups of a cluster, and nodes that lead some. */
const GROUPS_MAX = 4096;
/** The smallest frame of a node has five bytes; they are read one by one, so this only bounds the time of a message. */
const FRAMES_MAX = 1 << 20;

export interface StreamPath {
  readonly bucket: string;
  readonly stream: string;
}

/** Headers of a write, or query parameters of a read, by their names in the HTTP API. */
export type WireOptions = Readonly<Record<string, string | number | boolean>>;

export interface WireRequest extends StreamPath {
  readonly kind: number;
  /** Several are one batch. Without one: nil. */
  readonly body?: Uint8Array | readonly Uint8Array[];
  readonly options?: WireOptions;
  /** Sessions do not have it: the method and what stands behind the path of the stream. `kind` means nothing then. */
  readonly route?: { readonly method: string; readonly suffix: string };
}

export function bytesOfBody({ body = [] }: WireRequest): number {
  return body instanceof Uint8Array ? body.length : body.reduce((size, { length }) => size + length, 0);
}

/** The pieces one behind the other, in memory of their own. */
export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** The answer to a request, or an event of a stream that is followed. */
export interface WireAnswer {
  readonly next: number | undefined;
  readonly fields: ReadonlyMap<string, string>;
  readonly body: Uint8Array;
}

export interface SessionLimits {
  readonly messageBytes: number;
  readonly inFlightBytes: number;
  readonly requests: number;
}

export type NodeFrame =
  | { readonly kind: 'hello'; readonly limits: SessionLimits }
  | { readonly kind: 'done' | 'event'; readonly id: number; readonly answer: WireAnswer }
  | { readonly kind: 'refused'; readonly id: number; readonly error: StreamError }
  | { readonly kind: 'leaders'; readonly leaders: Leaders }
  | { readonly kind: 'away' };

export class MalformedFrame extends Error {}

const NOTHING = new Uint8Array(0);

/** Where the next question begins, behind what an answer to the one with these options brought. */
export function optionsBehind(options: WireOptions, { next, fields }: WireAnswer): WireOptions {
  const { tail_records: _begin, wait: _wait, ...rest } = options;
  const record = wholeNumber(fields.get('stream-record-next'));
  if ('record' in options || 'tail_records' in options) return record === undefined ? options : { ...rest, record };
  return next === undefined ? options : { ...rest, offset: next };
}

export class FrameWriter {
  readonly #packr = new Packr({ useRecords: false, variableMapSize: true });

  request(id: number, { kind, bucket, stream, body, options = {} }: WireRequest): Uint8Array {
    const path = [kind, id, bucket, stream];
    if (kind === KIND.head) return this.#pack(path);
    if (kind === KIND.delete) return this.#pack([...path, options]);
    return this.#pack(kind === KIND.attributes ? [...path, body ?? null] : [...path, body ?? null, options]);
  }

  subscribe(id: number, { bucket, stream }: StreamPath, options: WireOptions, credit: number): Uint8Array {
    return this.#pack([KIND.subscribe, id, bucket, stream, credit, options]);
  }

  credit(id: number, bytes: number): Uint8Array {
    return this.#pack([KIND.credit, id, bytes]);
  }

  unsubscribe(id: number): Uint8Array {
    return this.#pack([KIND.unsubscribe, id]);
  }

  #pack(values: readonly unknown[]): Uint8Array {
    return this.#packr.pack(values);
  }
}

export class NodeFrameReader {
  readonly #unpackr = new Unpackr({ useRecords: false, mapsAsObjects: false, int64AsType: 'number' });

  /** Hands over the frames of a message; throws when it is malformed, perhaps after some of them. */
  read(message: Uint8Array, take: (frame: NodeFrame) => void): void {
    if (message.length > MESSAGE_BYTES_MAX) throw new MalformedFrame(`a message of ${message.length} bytes`);
    let count = 0;
    this.#unpackr.unpackMultiple(message, (value: unknown) => {
      if (++count > FRAMES_MAX) throw new MalformedFrame(`more than ${FRAMES_MAX} frames in a message`);
      const frame = frameOf(value);
      if (frame !== undefined) take(frame);
    });
  }
}

/** Undefined: a kind that a later version of the protocol adds. */
function frameOf(value: unknown): NodeFrame | undefined {
  if (!Array.isArray(value)) throw new MalformedFrame('a frame is an array');
  const [kind, id, ...rest]: readonly unknown[] = value;
  switch (kind) {
    case HELLO:
      return { kind: 'hello', limits: limitsOf(id) };
    case DONE:
    case EVENT:
      return { kind: kind === DONE ? 'done' : 'event', id: numberOf(id), answer: answerOf(rest) };
    case REFUSED:
      return { kind: 'refused', id: numberOf(id), error: errorOf(rest) };
    case GO_AWAY:
      return { kind: 'away' };
    case LEADERS:
      return { kind: 'leaders', leaders: leadersOf(rest) };
    default:
      numberOf(kind);
      return undefined;
  }
}

function limitsOf(value: unknown): SessionLimits {
  const limit = (name: string): number => {
    const told = value instanceof Map ? numberOf(value.get(name)) : 0;
    if (told < 1) throw new MalformedFrame(`HELLO says nothing of ${name}`);
    return told;
  };
  return {
    messageBytes: limit('message_bytes'),
    inFlightBytes: limit('in_flight_bytes'),
    requests: limit('requests'),
  };
}

function leadersOf([nodes, places]: readonly unknown[]): Leaders {
  if (!Array.isArray(nodes) || !Array.isArray(places) || Math.max(nodes.length, places.length) > GROUPS_MAX)
    throw new MalformedFrame('LEADERS has two short lists');
  const urls = nodes.map((node) => textOf(node).replace(/\/+$/, ''));
  return places.map((place) => (place === null ? undefined : urls[numberOf(place)]));
}

function answerOf([next, fields, body]: readonly unknown[]): WireAnswer {
  return {
    next: next === null ? undefined : numberOf(next),
    fields: fieldsOf(fields),
    body: body === null ? NOTHING : bytesOf(body),
  };
}

function errorOf([status, code, sentence, fields]: readonly unknown[]): StreamError {
  return refusalOf({
    status: numberOf(status),
    code: textOf(code),
    sentence: textOf(sentence),
    fields: fieldsOf(fields),
  });
}

function fieldsOf(value: unknown): ReadonlyMap<string, string> {
  if (!(value instanceof Map) || value.size > FIELDS_MAX) throw new MalformedFrame('fields are a small map');
  const fields = new Map<string, string>();
  for (const [name, text] of value) fields.set(textOf(name), textOf(text));
  return fields;
}

function numberOf(value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new MalformedFrame('a value is no whole number');
  }
  return value;
}

function textOf(value: unknown): string {
  if (typeof value !== 'string') throw new MalformedFrame('a value is no text');
  return value;
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  return new TextEncoder().encode(textOf(value));
}
