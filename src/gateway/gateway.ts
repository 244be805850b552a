/**
 * The main thread's end of the mailboxes: requests out, answers and tail events in. Slots identify waiting requests;
 * topics identify watchers. Requests written during one turn of the event loop are published together at its end, or
 * earlier when they are many and the shard has nothing to do.
 */
import { assert } from '../base/assert.ts';
import { ownCopy } from '../base/bytes.ts';
import { fnv1a64mod } from '../base/hash.ts';
import {
  INLINE_PAYLOAD_BYTES_MAX,
  READ_CACHE_ANSWER_BYTES_MAX,
  READ_CACHE_ANSWER_BYTES_MIN,
  READ_CACHE_BYTES_MAX,
} from '../base/limits.ts';
import type { TransferReceiver, TransferSender } from '../mailbox/transfer-channel.ts';
import type { RingReader, RingWriter } from '../mailbox/ring.ts';
import { type ReplyWatch, Waker, onReplies } from '../mailbox/wake.ts';
import type { ReplyHandler, ShardGateway, TailHandler } from '../ports.ts';
import { REPLY_COLD, REPLY_TAIL, Reply } from '../protocol/reply.ts';
import {
  ALL_GROUPS,
  FIRST_QUERY_NUMBER,
  REQUEST,
  type Request,
  fillRequest,
  newRequest,
  requestBytesMax,
  writeRequest,
} from '../protocol/request.ts';
import { BODY_AS_SENT } from '../protocol/checked-body.ts';
import { QUERIES } from '../protocol/operations.ts';
import { type CheckJson, JsonBodies } from './json-bodies.ts';
import { ReadCache } from './read-cache.ts';

/** Answers handled in one pass before sockets get a turn. */
const DRAIN_MAX = 4096;
/** Bytes of answers after which the ring gets its space back although more answers wait. */
const RELEASE_BYTES = 1024 * 1024;
const NO_SLOT = 0xffffffff;
/** The payload is not in the frame; its transfer gets a number later. */
const TRANSFER_TO_COME = 1;
/**
 * Requests after which a shard that sleeps is woken before the turn of the event loop ends: it works while this thread
 * reads the other sockets. Fewer wake it for too little; bench/README.md has the figures.
 */
const EARLY_PUBLISH_REQUESTS = 24;
const READ = QUERIES.read.number;

/** Both directions to one shard thread. */
export interface ShardLink {
  readonly requests: RingWriter;
  readonly requestSab: SharedArrayBuffer;
  readonly requestTransfers: TransferSender;
  readonly replies: RingReader;
  readonly replyTransfers: TransferReceiver;
}

/** Answers reads whose bytes are in the cold store (cold-reader.ts). */
export interface ColdAnswers {
  /** Unanswered reads. */
  readonly pending: number;
  /** Calls the handler once, now or later, with an answer. */
  take(reply: Reply, handler: ReplyHandler): void;
  close(): void;
}

export class Gateway implements ShardGateway {
  readonly groupCount: number;
  readonly shardCount: number;
  readonly #links: readonly ShardLink[];
  readonly #wakers: readonly Waker[];
  readonly #watches: ReplyWatch[];
  readonly #handlers: (ReplyHandler | undefined)[] = [];
  /** Numbers of the operations in their slots. */
  readonly #operations: number[] = [];
  readonly #freeSlots: number[] = [];
  readonly #topics = new Map<number, TailHandler>();
  #nextTopic = 1;
  readonly #reply = new Reply();
  readonly #unwatch = newRequest();
  /** UNWATCH requests that found their ring full. */
  readonly #unsent: { topic: number; group: number }[] = [];
  #publishing = false;
  #cold: ColdAnswers | undefined;
  #json: JsonBodies | undefined;
  readonly reads = new ReadCache({
    bytesMax: READ_CACHE_BYTES_MAX,
    answerBytesMin: READ_CACHE_ANSWER_BYTES_MIN,
    answerBytesMax: READ_CACHE_ANSWER_BYTES_MAX,
  });
  readonly #onError: (error: unknown) => void;
  counters = { requests: 0, refused: 0, replies: 0, tailEvents: 0 };

  constructor(groupCount: number, links: readonly ShardLink[], onError: (error: unknown) => void) {
    this.groupCount = groupCount;
    this.shardCount = links.length;
    this.#links = links;
    this.#onError = onError;
    this.#wakers = links.map((link) => new Waker(link.requestSab));
    this.#watches = links.map((link) => onReplies(link.replies, () => this.#drain(link)));
  }

  /** Without it reads of cold bytes are refused. */
  useCold(cold: ColdAnswers): void {
    this.#cold = cold;
  }

  /** Without it the leader's shard checks large JSON bodies itself. */
  useJsonPool(check: CheckJson): void {
    const send = (request: Request, handler: ReplyHandler): boolean => this.#send(request, handler);
    this.#json = new JsonBodies({ check, send, onError: this.#onError });
  }

  groupOf(bucket: string, stream: string): number {
    return fnv1a64mod(bucket, stream, this.groupCount);
  }

  send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    if (request.command.payload !== undefined && this.#json?.takes(request) === true) {
      if (this.#json.take(request, handler)) return true;
      this.counters.refused++;
      return false;
    }
    return this.#send(request, handler, shard);
  }

  #send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    const slot = this.#freeSlots.pop() ?? this.#handlers.length;
    if (request.op === READ) this.reads.ask(request, slot);
    if (!this.#write(request, slot, shard ?? request.group % this.shardCount)) {
      this.reads.forget(slot);
      if (slot === this.#handlers.length) this.#handlers.push(undefined);
      this.#freeSlots.push(slot);
      this.counters.refused++;
      return false;
    }
    this.#handlers[slot] = handler;
    this.#operations[slot] = request.op;
    this.counters.requests++;
    return true;
  }

  openTopic(handler: TailHandler): number {
    const topic = this.#nextTopic;
    // 32 bits on the wire; a number repeats only after four billion topics, of which at most a few million are live.
    this.#nextTopic = topic === 0xffff_fffe ? 1 : topic + 1;
    this.#topics.set(topic, handler);
    return topic;
  }

  closeTopic(topic: number, group: number): void {
    if (!this.#topics.delete(topic)) return;
    if (!this.#sendUnwatch(topic, group)) this.#unsent.push({ topic, group });
  }

  /** Requests without an answer so far. */
  get pending(): number {
    const open = this.#handlers.length - this.#freeSlots.length;
    return open + (this.#cold?.pending ?? 0) + (this.#json?.pending ?? 0);
  }

  /** Answers all open requests; the shards are gone, and a write that one of them had may be done or not. */
  close(): void {
    for (const watch of this.#watches) watch.close();
    this.#cold?.close();
    this.#json?.close();
    for (let slot = 0; slot < this.#handlers.length; slot++) {
      const handler = this.#handlers[slot];
      if (handler === undefined) continue;
      this.#handlers[slot] = undefined;
      const isWrite = (this.#operations[slot] ?? 0) < FIRST_QUERY_NUMBER;
      this.#reply.refuse(slot, isWrite ? 'OUTCOME_UNKNOWN' : 'STOPPING');
      this.#call(handler);
    }
  }

  #write(request: Request, slot: number, shard: number): boolean {
    const link = this.#links[shard];
    assert(link !== undefined, `shard ${shard} exists`);
    const payload = request.command.payload;
    const isTransferred = payload !== undefined && payload.length > INLINE_PAYLOAD_BYTES_MAX;
    const size = requestBytesMax(request) - (isTransferred ? payload.length : 0);
    const at = link.requests.reserve(size);
    if (at < 0) return false;
    const { bytes, view } = link.requests;
    // Before the transfer, which leaves the payload without bytes.
    const written = writeRequest(request, slot, isTransferred ? TRANSFER_TO_COME : 0, bytes, view, at);
    if (isTransferred) {
      // The transfer detaches the memory, and the caller may still need its own.
      const { buffer } = request.bodyMark === BODY_AS_SENT && !isGiven(payload) ? ownCopy(payload) : payload;
      const transferId = link.requestTransfers.send(buffer as ArrayBuffer);
      if (transferId < 0) return false;
      REQUEST.fields.transferId.set(view, at, transferId);
    }
    link.requests.commit(written);
    if (!this.#publishing) {
      this.#publishing = true;
      setImmediate(this.#publish);
    }
    // Only a shard that sleeps: one that works takes what it finds when its turn ends, and a larger turn costs less.
    if (link.requests.unpublished >= EARLY_PUBLISH_REQUESTS && link.requests.isReaderParked) this.#publishTo(shard);
    return true;
  }

  /** Runs right after the poll phase in which the sockets were read: one wake-up for all requests of the turn. */
  readonly #publish = (): void => {
    this.#publishing = false;
    for (let shard = 0; shard < this.#links.length; shard++) this.#publishTo(shard);
    for (let next = this.#unsent[0]; next !== undefined; next = this.#unsent[0]) {
      if (!this.#sendUnwatch(next.topic, next.group)) break;
      this.#unsent.shift();
    }
  };

  #publishTo(shard: number): void {
    if (this.#links[shard]?.requests.publish() === true) this.#wakers[shard]?.wake();
  }

  #sendUnwatch(topic: number, group: number): boolean {
    assert(group !== ALL_GROUPS, 'a topic belongs to one group');
    fillRequest(this.#unwatch, QUERIES.unwatch, group, { topic });
    return this.#write(this.#unwatch, NO_SLOT, group % this.shardCount);
  }

  #drain(link: ShardLink): void {
    const { replies } = link;
    const reply = this.#reply;
    let held = 0;
    for (let i = 0; i < DRAIN_MAX; i++) {
      // The records were used within their callbacks. Space is returned early, so that the shard can continue to write
      // large answers while this thread sends them.
      if (held > RELEASE_BYTES) {
        held = 0;
        if (replies.release()) replies.wakeWriter();
      }
      if (!replies.next()) break;
      held += replies.length;
      reply.read(replies.bytes, replies.view, replies.offset);
      if (reply.transferId !== 0) {
        reply.body = new Uint8Array(link.replyTransfers.take(reply.transferId));
        reply.isBodyKept = true;
      }
      if (reply.kind === REPLY_TAIL) {
        this.counters.tailEvents++;
        this.#tail();
        continue;
      }
      const slot = reply.id;
      const handler = this.#handlers[slot];
      assert(handler !== undefined, `slot ${slot} is answered once`);
      this.#handlers[slot] = undefined;
      this.#freeSlots.push(slot);
      this.counters.replies++;
      this.reads.answered(slot, reply);
      this.#call(handler);
    }
    if (replies.release()) replies.wakeWriter();
  }

  #tail(): void {
    try {
      this.#topics.get(this.#reply.id)?.onTail(this.#reply);
    } catch (error) {
      this.#onError(error);
    }
  }

  #call(handler: ReplyHandler): void {
    try {
      if (!this.#reply.has(REPLY_COLD)) handler.onReply(this.#reply);
      else this.#takeCold(handler);
    } catch (error) {
      this.#onError(error);
    }
  }

  #takeCold(handler: ReplyHandler): void {
    const reply = this.#reply;
    if (this.#cold !== undefined) this.#cold.take(reply, handler);
    else handler.onReply(reply.refuse(reply.id, 'NO_COLD_STORE'));
  }
}

/** A body that came in chunks and has no other owner (http/body.ts): its memory may be taken. */
function isGiven({ buffer }: Uint8Array): boolean {
  return 'resizable' in buffer && buffer.resizable === true;
}
