/**
 * One WebSocket: requests in, answers and events out. What is written in one turn of the event loop leaves in one
 * message. Every bound is checked before anything is kept: what is over it is refused, and who does not speak the
 * protocol is told why and loses the connection.
 */
import type { GrantHolder } from '../access/grant-holders.ts';
import { ownCopy } from '../base/bytes.ts';
import { errorCode } from '../base/errors.ts';
import {
  SESSION_IN_FLIGHT_BYTES_MAX,
  SESSION_READ_BYTES_MAX,
  SESSION_REQUESTS_MAX,
  SESSION_SUBSCRIPTIONS_MAX,
} from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { Table } from '../base/table.ts';
import type { OpenSocket, SocketOwner } from '../http/guard.ts';
import type { HttpServerContext } from '../http/server-context.ts';
import { tellSource } from '../http/routes/streams.ts';
import type { Reply } from '../protocol/reply.ts';
import { newRequest } from '../protocol/request.ts';
import type { Frame } from './frame.ts';
import { Lane, type LaneOwner, PendingRequest } from './lane.ts';
import { MalformedMessage, MessageReader } from './messagepack.ts';
import {
  CREDIT,
  type RequestRefusal,
  SUBSCRIBE,
  UNSUBSCRIBE,
  beginDone,
  endWith,
  refusalOf,
  writeGoAway,
  writeHello,
  writeRefused,
} from './messages.ts';
import { ReadTurns, SessionOutbox, type TailEvent } from './outbox.ts';
import { operationOf, readBytesOf } from './operations.ts';
import { EXPIRED, STOPPING, type SessionOpening, SessionRights } from './rights.ts';
import { FollowedStream, type SubscriptionOwner } from './subscription.ts';

// Codes with which a WebSocket closes (RFC 6455 7.4.1).
const GOING_AWAY = 1001;
const PROTOCOL_ERROR = 1002;
const UNSUPPORTED_DATA = 1003;

/** State that all sessions of a node share. */
export interface SessionHome {
  readonly server: HttpServerContext;
  /** Reused: nothing is kept in them between two frames. */
  readonly frame: Frame;
  readonly tailEvent: TailEvent;
  /** The newest message about leaders, which all sessions send as it is. */
  leaders(): Uint8Array | undefined;
  /** The session has no socket any more. */
  ended(session: ClientSession): void;
}

export class ClientSession implements SocketOwner, LaneOwner, SubscriptionOwner, GrantHolder {
  readonly operation = 'session';
  readonly requestId: string;
  readonly server: HttpServerContext;
  readonly #home: SessionHome;
  readonly rights: SessionRights;
  /** Requests without an answer, and subscriptions. */
  readonly #pending = new Table<PendingRequest>();
  readonly #subscriptions = new Map<number, FollowedStream>();
  readonly #lanes = new Table<Lane>();
  readonly #request = newRequest();
  readonly outbox: SessionOutbox;
  /** Subscriptions that read. */
  readonly turns: ReadTurns;
  readonly tailEvent: TailEvent;
  #bytesInFlight = 0;
  #readBytesInFlight = 0;
  /** The message about leaders that the client has. */
  #leaders: Uint8Array | undefined;
  #isLeaving = false;

  constructor(home: SessionHome, opening: SessionOpening) {
    this.#home = home;
    this.server = home.server;
    this.tailEvent = home.tailEvent;
    this.rights = new SessionRights(home.server, opening);
    this.requestId = opening.requestId;
    this.outbox = new SessionOutbox(home.server, this.requestId, () => this.#endIfSent());
    this.turns = new ReadTurns(this.outbox);
  }

  opened(socket: OpenSocket): void {
    this.outbox.open(socket);
    this.rights.hold(this);
    writeHello(this.outbox.out, this.requestId);
    this.tellLeaders();
    this.outbox.send();
  }

  received(message: Uint8Array, isBinary: boolean): void {
    this.server.ctx.metrics.sessions.bytesIn += message.length;
    if (!isBinary) return this.#cut(UNSUPPORTED_DATA, 'messages are binary');
    const reader = new MessageReader(message);
    const startedMs = this.server.ctx.monotonicMs();
    try {
      while (!reader.isAtEnd && this.outbox.isOpen) {
        this.#home.frame.read(reader);
        this.#take(this.#home.frame, startedMs);
      }
    } catch (error) {
      if (!(error instanceof MalformedMessage)) throw error;
      this.#cut(PROTOCOL_ERROR, error.message);
    }
  }

  drained(): void {
    this.outbox.countUnsent();
    this.tellLeaders();
    this.turns.resume();
    this.#endIfSent();
  }

  /** Others lead now. A client that takes nothing is told later, and only of the last ones. */
  tellLeaders(): void {
    const leaders = this.#home.leaders();
    if (leaders === undefined || leaders === this.#leaders) return;
    if (!this.outbox.isOpen || this.outbox.isStalled) return;
    this.#leaders = leaders;
    this.outbox.out.raw(leaders);
    this.outbox.sendSoon();
  }

  ponged(): void {
    this.outbox.queued();
  }

  closed(): void {
    this.outbox.close();
    this.rights.release(this);
    for (const subscription of this.#subscriptions.values()) subscription.leave();
    this.#subscriptions.clear();
    // Those at the shards end with their replies.
    for (const request of this.#pending.all())
      if ((request.frame !== undefined && !planted('session-budget-kept')) || request.isAnswered) this.#end(request);
    this.#home.ended(this);
  }

  /** The node stops: nothing new is taken, and the session ends when the client has what it asked for. */
  goAway(why = STOPPING): void {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    for (const subscription of [...this.#subscriptions.values()]) subscription.end(why);
    writeGoAway(this.outbox.out);
    this.outbox.sendSoon();
  }

  /** Its token is valid no longer. One that was changed may open another session, and hears there what it may do. */
  grantEnded(): void {
    try {
      this.goAway(this.rights.isOver ? EXPIRED : STOPPING);
    } catch (error) {
      this.server.logError(error, this.operation, this.requestId);
    }
  }

  #take(frame: Frame, startedMs: number): void {
    const { id, kind } = frame;
    if (kind === CREDIT) return this.#subscriptions.get(id)?.grant(frame.credit);
    if (kind === UNSUBSCRIBE) return this.#unsubscribe(id);
    const { metrics } = this.server.ctx;
    metrics.sessions.requests++;
    // A refusal under this id could be that of either request.
    if (this.#isPending(id) || this.#subscriptions.has(id)) return this.#cut(PROTOCOL_ERROR, `the id ${id} is in use`);
    const refusal = this.rights.refuses(frame, startedMs);
    if (refusal !== undefined) return this.refuse({ id, ...refusal });
    const isFull = this.#fullFor(frame);
    if (isFull !== undefined) return this.refuse({ id, ...isFull });
    this.#add(frame, startedMs);
  }

  /** Why it cannot be taken now. */
  #fullFor(frame: Frame): Pick<RequestRefusal, 'code' | 'detail'> | undefined {
    const { server } = this;
    const { size: length } = frame;
    if (server.closing || this.#isLeaving) return STOPPING;
    if (this.#pending.size >= SESSION_REQUESTS_MAX) return full(`${SESSION_REQUESTS_MAX} requests are under way`);
    if (this.#bytesInFlight + length > SESSION_IN_FLIGHT_BYTES_MAX) {
      return full(`${this.#bytesInFlight} of ${SESSION_IN_FLIGHT_BYTES_MAX} bytes are under way, and ${length} came`);
    }
    const readBytes = readBytesOf(frame);
    if (this.#readBytesInFlight + readBytes > SESSION_READ_BYTES_MAX) {
      return full(
        `reads of ${this.#readBytesInFlight} of ${SESSION_READ_BYTES_MAX} bytes are under way; see max_bytes`,
      );
    }
    if (frame.kind === SUBSCRIBE && this.#subscriptions.size >= SESSION_SUBSCRIPTIONS_MAX) {
      return full(`${SESSION_SUBSCRIPTIONS_MAX} subscriptions are open`);
    }
    return server.budget.take(length) ? undefined : { code: 'INFLIGHT_FULL', detail: '' };
  }

  #add(frame: Frame, startedMs: number): void {
    const { id, size: bytes } = frame;
    const lane = this.#laneOf(frame);
    const readBytes = readBytesOf(frame);
    const request = new PendingRequest(lane, { id, operation: operationOf(frame), bytes, readBytes, startedMs });
    this.#pending.add(request);
    this.#bytesInFlight += bytes;
    this.#readBytesInFlight += readBytes;
    this.server.open++;
    if (frame.kind === SUBSCRIBE) this.#subscriptions.set(id, new FollowedStream(this, frame));
    if (lane.add(request)) this.#begin(request, frame);
    else request.frame = planted('session-keeps-message') ? frame.bytes : ownCopy(frame.bytes);
  }

  #laneOf(frame: Frame): Lane {
    const { target } = frame;
    if (target.group < 0) target.group = this.server.gateway.groupOf(target.bucket, target.stream);
    let lane = this.#lanes.first(target.hash);
    while (lane !== undefined && lane.target.key !== target.key) lane = lane.sibling;
    if (lane === undefined) this.#lanes.add((lane = new Lane(this, target)));
    return lane;
  }

  #isPending(id: number): boolean {
    let request = this.#pending.first(id);
    while (request !== undefined && request.id !== id) request = request.sibling;
    return request !== undefined;
  }

  /** It waited for its turn. */
  start(request: PendingRequest): void {
    const { frame: bytes, lane } = request;
    if (bytes === undefined || !this.outbox.isOpen) return;
    request.frame = undefined;
    const { frame } = this.#home;
    frame.read(new MessageReader(bytes));
    frame.target = lane.target;
    this.#begin(request, frame);
  }

  #begin(request: PendingRequest, frame: Frame): void {
    const from = this.outbox.out.length;
    try {
      const refusal = this.#ask(request, frame);
      if (refusal !== undefined) this.#answerRefused(request, { id: request.id, ...refusal });
    } catch (error) {
      this.#crash(request, error, from);
    }
  }

  /** Asks a shard, or says why not. */
  #ask(request: PendingRequest, frame: Frame): Pick<RequestRefusal, 'code' | 'detail'> | undefined {
    const { server } = this;
    const { operation } = request;
    if (operation === undefined) return this.#subscribe(request, frame);
    if (frame.fault !== '') return { code: 'INVALID_REQUEST', detail: frame.fault };
    if (request.readBytes > 0 && this.outbox.isStalled) return { code: 'ANSWERS_FULL', detail: '' };
    const asked = this.#request;
    const refusal = operation.fill(asked, frame, server, request);
    if (refusal !== undefined) return refusal;
    const isSent = (operation.isCounted ? server.writes : server.gateway).send(asked, request);
    asked.command.payload = undefined;
    asked.command.attributes = undefined;
    return isSent ? undefined : { code: 'SHARD_BUSY', detail: '' };
  }

  /** Its events tell how it goes on. */
  #subscribe(request: PendingRequest, frame: Frame): Pick<RequestRefusal, 'code' | 'detail'> | undefined {
    const { id } = request;
    const from = this.outbox.out.length;
    const subscription = this.#subscriptions.get(id);
    const refusal = subscription?.start(frame);
    if (subscription?.isOver === true) this.#subscriptions.delete(id);
    if (refusal !== undefined) return refusal;
    if (subscription?.isOver === true) this.#writeUnsubscribed(id);
    this.#answered(request, from, 0);
    return undefined;
  }

  replied(request: PendingRequest, reply: Reply): void {
    const { lane, operation } = request;
    if (operation?.tellsSource === true) {
      const isLate = tellSource(this.server, lane.target.group, reply, (late) => this.#reply(request, late));
      if (isLate) return;
    }
    this.#reply(request, reply);
  }

  #reply(request: PendingRequest, reply: Reply): void {
    const from = this.outbox.out.length;
    if (request.operation?.right === 'delete') this.rights.deleted(request.lane.target, errorCode(reply.code));
    try {
      this.#answered(request, from, !this.outbox.isOpen ? 0 : this.#write(request, reply));
    } catch (error) {
      this.#crash(request, error, from);
    }
  }

  /** Returns the status of what it writes. */
  #write(request: PendingRequest, reply: Reply): number {
    const { operation, id, readBytes } = request;
    if (operation === undefined) return 0;
    if (readBytes > 0 && !this.outbox.takes(reply.body, readBytes)) {
      return this.#refused({ id, code: 'ANSWERS_FULL', detail: '' });
    }
    if (reply.body !== undefined) this.rights.spend(request.lane.target, reply.body.length);
    if (reply.code === 0) return operation.answer(this.outbox.fields, request, reply);
    return operation.answerRefusal?.(this.outbox.fields, request, reply) ?? this.#refused(refusalOf(id, reply));
  }

  /** Takes back what is written of the answer, from `from` on. */
  #crash(request: PendingRequest, error: unknown, from: number): void {
    this.server.logError(error, this.operation, this.requestId);
    if (request.isAnswered) return;
    this.outbox.out.cut(from);
    this.#subscriptions.get(request.id)?.leave();
    this.#subscriptions.delete(request.id);
    this.#answerRefused(request, { id: request.id, code: 'INTERNAL', detail: '' });
  }

  #answerRefused(request: PendingRequest, refused: RequestRefusal): void {
    if (request.operation?.right === 'delete') this.rights.deleted(request.lane.target, refused.code);
    const from = this.outbox.out.length;
    this.#answered(request, from, this.#refused(refused));
  }

  /** The answer is what was written behind `from`; its status is 0 when there is none. */
  #answered(request: PendingRequest, from: number, status: number): void {
    if (status > 0) this.server.count(request.operation?.counted ?? 'other', status, request.startedMs);
    const mustWait = !request.lane.isNext(request) && !planted('session-answers-overtake');
    if (mustWait) request.answer = this.outbox.out.cut(from);
    // Before it is sent: the last answer of a session that leaves is its end.
    request.lane.answered(request);
    this.outbox.sendSoon();
  }

  leave(request: PendingRequest): void {
    if (request.answer !== undefined) this.outbox.out.raw(request.answer);
    this.#end(request);
    if (request.lane.isEmpty) this.#lanes.delete(request.lane);
  }

  /** Gives back what the request held. */
  #end(request: PendingRequest): void {
    if (!this.#pending.delete(request)) return;
    this.#bytesInFlight -= request.bytes;
    this.#readBytesInFlight -= request.readBytes;
    this.server.budget.give(request.bytes);
    this.server.closed();
  }

  #unsubscribe(id: number): void {
    const subscription = this.#subscriptions.get(id);
    if (subscription === undefined) return; // It may have ended while this was on its way.
    subscription.leave();
    // Before its turn has come its id is in use.
    if (this.#isPending(id)) return;
    this.#subscriptions.delete(id);
    this.#writeUnsubscribed(id);
  }

  #writeUnsubscribed(id: number): void {
    beginDone(this.outbox.fields, id, -1);
    endWith(this.outbox.fields, undefined);
    this.outbox.sendSoon();
  }

  /** A subscription has written, perhaps its end. */
  wrote({ id, isOver }: FollowedStream): void {
    if (isOver) this.#subscriptions.delete(id);
    this.outbox.sendSoon();
  }

  refuse(refused: RequestRefusal): void {
    this.#refused(refused);
    this.outbox.sendSoon();
  }

  #refused(refused: RequestRefusal): number {
    this.server.ctx.metrics.sessions.refusals++;
    return writeRefused(this.outbox.fields, refused);
  }

  /** The library forgets what a socket has not taken when the node closes it, so the end waits for that. */
  #endIfSent(): void {
    const isDone = this.#isLeaving && this.#pending.size === 0 && this.outbox.isEmpty;
    if (isDone) this.outbox.end(GOING_AWAY, 'the session ends');
  }

  /** The client does not keep to the protocol. */
  #cut(code: number, reason: string): void {
    this.server.ctx.metrics.sessions.faults++;
    this.outbox.end(code, reason);
  }
}

function full(detail: string): Pick<RequestRefusal, 'code' | 'detail'> {
  return { code: 'SESSION_FULL', detail };
}
