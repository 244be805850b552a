/** The messages of `millrace.session.v1`: their numbers, and how a node writes its own. README.md has them byte by byte. */
import { ERRORS, type RefusalReason, errorCode } from '../base/errors.ts';
import {
  SESSION_IDLE_SECONDS,
  SESSION_IN_FLIGHT_BYTES_MAX,
  SESSION_MESSAGE_BYTES_MAX,
  SESSION_REQUESTS_MAX,
  SESSION_SUBSCRIPTIONS_MAX,
} from '../base/limits.ts';
import { retryAfter, writeRefusalHeaders } from '../http/response.ts';
import { type Reply, explanation } from '../protocol/reply.ts';
import type { MessageWriter } from './messagepack.ts';

export const PROTOCOL = 'millrace.session.v1';

// From clients.
export const CREATE = 1;
export const APPEND = 2;
export const HEAD = 3;
export const READ = 4;
export const SUBSCRIBE = 5;
export const CREDIT = 6;
export const UNSUBSCRIBE = 7;
export const DELETE = 8;
export const ATTRIBUTES = 9;

// From nodes.
const HELLO = 64;
const DONE = 65;
const REFUSED = 66;
const EVENT = 67;
const GO_AWAY = 68;
const LEADERS = 69;

const LEAVE = 'the session ends; open another one, at another node if this one does not answer';

/** Fields of an answer: headers of the HTTP API by their names, as texts. */
export class FieldWriter {
  readonly out: MessageWriter;
  #place = 0;
  #count = 0;

  constructor(out: MessageWriter) {
    this.out = out;
  }

  begin(): void {
    this.#place = this.out.beginMap();
    this.#count = 0;
  }

  writeHeader(name: string, value: string): void {
    this.#count++;
    this.out.text(name);
    this.out.text(value);
  }

  end(): void {
    this.out.endMap(this.#place, this.#count);
  }
}

/** Tells a client its limits. */
export function writeHello(out: MessageWriter, session: string): void {
  const limits = [
    ['message_bytes', SESSION_MESSAGE_BYTES_MAX],
    ['in_flight_bytes', SESSION_IN_FLIGHT_BYTES_MAX],
    ['requests', SESSION_REQUESTS_MAX],
    ['subscriptions', SESSION_SUBSCRIPTIONS_MAX],
    ['idle_seconds', SESSION_IDLE_SECONDS],
  ] as const;
  out.array(2);
  out.uint(HELLO);
  const place = out.beginMap();
  for (const [name, value] of limits) {
    out.text(name);
    out.uint(value);
  }
  out.text('session');
  out.text(session);
  out.endMap(place, limits.length + 1);
}

export function writeGoAway(out: MessageWriter): void {
  out.array(2);
  out.uint(GO_AWAY);
  out.text(LEAVE);
}

/** The node of `self`, and by group the one that leads; empty: unknown. Addresses stand in it once. */
export function writeLeaders(out: MessageWriter, self: string, leaders: readonly string[]): void {
  const nodes = [...new Set(leaders)].filter((node) => node !== '');
  const places = new Map(nodes.map((node, place) => [node, place]));
  out.array(4);
  out.uint(LEADERS);
  if (self === '') out.nil();
  else out.text(self);
  out.array(nodes.length);
  for (const node of nodes) out.text(node);
  out.array(leaders.length);
  for (const leader of leaders) {
    const place = places.get(leader);
    if (place === undefined) out.nil();
    else out.uint(place);
  }
}

/** An answer to a request, or an event of a subscription, up to its fields. `nextOffset` -1: it has none. */
function begin(fields: FieldWriter, kind: number, id: number, nextOffset: number): void {
  const { out } = fields;
  out.array(5);
  out.uint(kind);
  out.uint(id);
  if (nextOffset < 0) out.nil();
  else out.uint(nextOffset);
  fields.begin();
}

export function beginDone(fields: FieldWriter, id: number, nextOffset: number): void {
  begin(fields, DONE, id, nextOffset);
}

export function beginEvent(fields: FieldWriter, id: number, nextOffset: number): void {
  begin(fields, EVENT, id, nextOffset);
}

/** Ends either of them. */
export function endWith(fields: FieldWriter, body: Uint8Array | undefined): void {
  fields.end();
  if (body === undefined) fields.out.nil();
  else fields.out.bytes(body);
}

export interface RequestRefusal extends RefusalReason {
  readonly id: number;
  /** The shard's own words, if it was one that refused. */
  readonly reply?: Reply;
  /** When a repeat may succeed, if it is known. */
  readonly retrySeconds?: number;
}

/** Returns the status. */
export function writeRefused(fields: FieldWriter, { id, code, detail, reply, retrySeconds }: RequestRefusal): number {
  const { bucketed: status, retry, text } = ERRORS[code];
  const { out } = fields;
  out.array(6);
  out.uint(REFUSED);
  out.uint(id);
  out.uint(status);
  out.text(code);
  out.text(detail === '' ? text : `${text}: ${detail}`);
  fields.begin();
  if (reply !== undefined) writeRefusalHeaders(fields, code, reply);
  if (retry) fields.writeHeader('retry-after', retryAfter(retrySeconds));
  fields.end();
  return status;
}

export function refusalOf(id: number, reply: Reply): RequestRefusal {
  return { id, code: errorCode(reply.code), detail: explanation(reply), reply };
}
