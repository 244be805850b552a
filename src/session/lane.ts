/**
 * The requests of a session about one stream, in their order. Small appends are under way together, because mailbox,
 * links, log and reply ring keep their order; everything else waits for what came before it, and what follows waits
 * for that. Answers leave in the order of the requests, also those that the node gives at once.
 */
import { SESSION_PIPELINED_BYTES_MAX } from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import type { Sibling } from '../base/table.ts';
import type { ReplyHandler } from '../ports.ts';
import type { Reply } from '../protocol/reply.ts';
import type { SessionOperation, SentRequest } from './operations.ts';
import type { SentName } from './frame.ts';
import type { ReadQuery } from '../http/query.ts';

/** The session, as its lanes see it. */
export interface LaneOwner {
  readonly requestId: string;
  /** The request's turn has come. */
  start(request: PendingRequest): void;
  /** A shard has answered it. */
  replied(request: PendingRequest, reply: Reply): void;
  /** Its answer may leave: it is written, or it stands in `request.answer`. The request is over. */
  leave(request: PendingRequest): void;
}

export interface PendingOptions {
  readonly id: number;
  /** Undefined: a subscription begins. */
  readonly operation: SessionOperation | undefined;
  /** The size of its frame. */
  readonly bytes: number;
  /** That its answer may have. */
  readonly readBytes: number;
  readonly startedMs: number;
}

export class PendingRequest implements ReplyHandler, SentRequest, PendingOptions, Sibling<PendingRequest> {
  readonly id: number;
  readonly operation: SessionOperation | undefined;
  readonly bytes: number;
  readonly readBytes: number;
  readonly startedMs: number;
  readonly lane: Lane;
  frames = 0;
  query: ReadQuery | undefined = undefined;
  /** A copy of its frame, while it waits for its turn. */
  frame: Uint8Array | undefined = undefined;
  /** Its answer, while one before it is to come. */
  answer: Uint8Array | undefined = undefined;
  isAnswered = false;
  /** Others of its stream may be under way with it. */
  readonly isPipelined: boolean;
  /** The next one of its lane. */
  next: PendingRequest | undefined = undefined;
  sibling: PendingRequest | undefined = undefined;

  constructor(lane: Lane, { id, operation, bytes, readBytes, startedMs }: PendingOptions) {
    this.lane = lane;
    this.id = id;
    this.operation = operation;
    this.bytes = bytes;
    this.readBytes = readBytes;
    this.startedMs = startedMs;
    this.isPipelined = operation?.isPipelined === true && bytes <= SESSION_PIPELINED_BYTES_MAX;
  }

  get hash(): number {
    return this.id;
  }

  get requestId(): string {
    return this.lane.owner.requestId;
  }

  onReply(reply: Reply): void {
    this.lane.owner.replied(this, reply);
  }
}

export class Lane implements Sibling<Lane> {
  readonly owner: LaneOwner;
  readonly target: SentName;
  sibling: Lane | undefined = undefined;
  #first: PendingRequest | undefined;
  #last: PendingRequest | undefined;
  /** The first that waits for its turn; so do all behind it. */
  #held: PendingRequest | undefined;
  /** Begun and not answered, and those of them beside which nothing begins. */
  #running = 0;
  #barriers = 0;
  #starting = false;

  constructor(owner: LaneOwner, target: SentName) {
    this.owner = owner;
    this.target = target;
  }

  get hash(): number {
    return this.target.hash;
  }

  get isEmpty(): boolean {
    return this.#first === undefined;
  }

  /** True: the caller starts it. False: owner.start() is called when its turn has come. */
  add(request: PendingRequest): boolean {
    if (this.#last === undefined) this.#first = request;
    else this.#last.next = request;
    this.#last = request;
    if (this.#held === undefined && this.#mayBegin(request)) return this.#begin(request);
    this.#held ??= request;
    return false;
  }

  /** Whether the answer may be written now; else it is put into `request.answer`. */
  isNext(request: PendingRequest): boolean {
    return this.#first === request;
  }

  /** The request has its answer. */
  answered(request: PendingRequest): void {
    request.isAnswered = true;
    this.#running--;
    if (!request.isPipelined) this.#barriers--;
    for (let first = this.#first; first?.isAnswered === true; first = this.#first) {
      this.#first = first.next;
      if (first.next === undefined) this.#last = undefined;
      // Else one that V8 has moved to its old space would keep all that follow.
      first.next = undefined;
      this.owner.leave(first);
    }
    this.#startHeld();
  }

  /** A loop, and not a call for each: those that are refused at once are over before start() returns. */
  #startHeld(): void {
    if (this.#starting) return;
    this.#starting = true;
    try {
      for (let held = this.#held; held !== undefined && this.#mayBegin(held); held = this.#held) {
        this.#held = held.next;
        this.#begin(held);
        this.owner.start(held);
      }
    } finally {
      this.#starting = false;
    }
  }

  #mayBegin({ isPipelined }: PendingRequest): boolean {
    if (planted('session-turns-ignored')) return true;
    return isPipelined ? this.#barriers === 0 : this.#running === 0;
  }

  #begin({ isPipelined }: PendingRequest): true {
    this.#running++;
    if (!isPipelined) this.#barriers++;
    return true;
  }
}
