/**
 * Streams in memory behind the gateway's port, for sessions: mailboxes that are full, shards that refuse, answers that
 * others overtake. It keeps all bytes that a stream ever had, also of those that were removed.
 */
import { type ErrorCode, errorNumber } from '../../../src/base/errors.ts';
import type { ReplyHandler } from '../../../src/ports.ts';
import { FRAME_HEAD_BYTES, frameEnd } from '../../../src/protocol/append-batch.ts';
import { COMMANDS, QUERIES } from '../../../src/protocol/operations.ts';
import { REPLY_CLOSED, REPLY_CREATED, Reply } from '../../../src/protocol/reply.ts';
import type { Request } from '../../../src/protocol/request.ts';
import type { StreamName } from '../../../src/protocol/flat-path.ts';
import { type Lane, PendingRequest } from '../../../src/session/lane.ts';
import { queryOf } from '../../support/asked-query.ts';
import { MemoryGateway } from '../../support/memory-gateway.ts';
import type { Random } from '../../support/random.ts';
import { CONTENT_TYPE, type Shown, type Streams } from './client.ts';

/** How often what goes wrong. */
export interface Troubles {
  /** The mailbox is full. */
  readonly full: number;
  /** A shard refuses. */
  readonly refused: number;
  /** An answer is overtaken by others. */
  readonly late: number;
}

const REFUSALS: readonly ErrorCode[] = ['NO_LEADER', 'DISK_FULL', 'SHARD_BUSY'];
const NO_BYTES = Buffer.alloc(0);

/** All that one stream ever held, from its making to its removal. */
export class Content implements Shown {
  #bytes = Buffer.alloc(1024);
  length = 0;

  add(bytes: Uint8Array): void {
    const length = this.length + bytes.length;
    if (length > this.#bytes.length) {
      const grown = Buffer.alloc(2 * length);
      this.#bytes.copy(grown, 0, 0, this.length);
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.length);
    this.length = length;
  }

  has(bytes: Uint8Array, end: number): boolean {
    const start = end - bytes.length;
    return start >= 0 && end <= this.length && this.#bytes.subarray(start, end).equals(bytes);
  }
}

interface Command {
  readonly op: number;
  readonly key: string;
  readonly payload: Buffer;
  readonly isClosing: boolean;
}

export class SessionShards extends MemoryGateway implements Streams {
  troubles: Troubles = { full: 0, refused: 0, late: 0 };
  readonly #random: Random;
  readonly #fail: (what: string) => Error;
  /** By the stream's key: contents of all that had it, the newest last. */
  readonly #contents = new Map<string, Content[]>();
  /** Requests of sessions at the shards, by the lane that sent them. */
  readonly #underWay = new Map<Lane, PendingRequest[]>();

  constructor(random: Random, fail: (what: string) => Error) {
    super();
    this.manual = true;
    this.#random = random;
    this.#fail = fail;
  }

  contentsOf(key: string): readonly Content[] {
    return this.#contents.get(key) ?? [];
  }

  tailOf(key: string): number | undefined {
    return this.find(key)?.tail;
  }

  isClosed(key: string): boolean {
    return this.find(key)?.closed === true;
  }

  /** Sent by sessions and not answered. */
  get unanswered(): number {
    return this.#underWay.size + this.held.length;
  }

  override send(request: Request, handler: ReplyHandler): boolean {
    if (this.#random.chance(this.troubles.full)) return false;
    if (!(handler instanceof PendingRequest)) return super.send(request, handler);
    return super.send(request, this.#begin(handler));
  }

  /** Only small appends of a lane may be at the shards together: their mailbox keeps no other order. */
  #begin(request: PendingRequest): ReplyHandler {
    const { lane } = request;
    const others = this.#underWay.get(lane) ?? [];
    if (others.length > 0 && ![request, ...others].every((one) => one.isPipelined)) {
      throw this.#fail(`request ${request.id} is sent while ${others.map(({ id }) => id).join()} of its stream are`);
    }
    this.#underWay.set(lane, [...others, request]);
    return {
      onReply: (reply) => {
        const left = this.#underWay.get(lane)?.filter((one) => one !== request) ?? [];
        if (left.length > 0) this.#underWay.set(lane, left);
        else this.#underWay.delete(lane);
        request.onReply(reply);
      },
    };
  }

  protected override other(request: Request, handler: ReplyHandler): boolean {
    const { command, op } = request;
    const isQuery = op === QUERIES.head.number;
    const { bucket, stream } = isQuery ? (queryOf(request).message as StreamName) : command;
    const payload = command.payload === undefined || isQuery ? NO_BYTES : Buffer.from(command.payload);
    const asked = { op, key: `${bucket}/${stream}`, payload, isClosing: !isQuery && command.close };
    this.enqueue(() => {
      const reply = this.#perform(asked);
      const tell = (): void => handler.onReply(reply);
      if (this.#random.chance(this.troubles.late)) this.held.push(tell);
      else this.enqueue(tell);
    });
    return true;
  }

  #perform(asked: Command): Reply {
    const reply = new Reply();
    reply.contentType = CONTENT_TYPE;
    const refused = this.#random.chance(this.troubles.refused)
      ? this.#random.pick(REFUSALS)
      : this.#change(asked, reply);
    reply.code = refused === undefined ? 0 : errorNumber(refused);
    return reply;
  }

  #change({ op, key, payload, isClosing }: Command, reply: Reply): ErrorCode | undefined {
    const known = this.find(key);
    if (op === COMMANDS.create.number && known === undefined) {
      this.make(key);
      reply.flags |= REPLY_CREATED;
      return undefined;
    }
    if (known === undefined) return 'STREAM_NOT_FOUND';
    if (op === COMMANDS.deleteStream.number) this.remove(key);
    else if (op === COMMANDS.append.number || op === COMMANDS.appendBatch.number) {
      if (known.closed) return 'STREAM_CLOSED';
      if (op === COMMANDS.append.number) this.add(key, payload, isClosing);
      else for (const message of messagesOf(payload)) this.add(key, message);
    }
    reply.nextOffset = this.find(key)?.tail ?? 0;
    if (this.isClosed(key)) reply.flags |= REPLY_CLOSED;
    const { incarnation } = known;
    const description = { tag: '', hotStart: 0, ttlSeconds: 0, expiresAtMs: 0, incarnation, snapshot: undefined };
    if (op === QUERIES.head.number) QUERIES.head.result.write(reply, description);
    return undefined;
  }

  make(key: string): void {
    this.create(key, CONTENT_TYPE);
    this.#contents.set(key, [...this.contentsOf(key), new Content()]);
  }

  /** Also for writers that are no sessions. */
  add(key: string, bytes: Buffer, isClosing = false): void {
    this.append(key, bytes, isClosing);
    this.contentsOf(key).at(-1)?.add(bytes);
  }
}

function* messagesOf(frames: Buffer): IterableIterator<Buffer> {
  for (let at = 0; at < frames.length; at = frameEnd(frames, at))
    yield frames.subarray(at + FRAME_HEAD_BYTES, frameEnd(frames, at));
}
