/**
 * Quotas of buckets, one number for the cluster. Every group holds the bounds, but only its own gauges, so the node that a write
 * came to asks all groups what the bucket holds. Far below a bound it asks once a second; near it one round of writes at a time, each
 * after all that it sent before is answered: what one node admits is exact, and nodes together may pass the bound by what
 * they have under way at the same moment, and by what they do not know while a group has no leader. What does not fit is marked,
 * and the leader refuses it if it would bring anything.
 */
import { errorCode, errorNumber, type ErrorCode } from '../base/errors.ts';
import { QUOTA_BUCKETS_MAX, QUOTA_HELD_BYTES_MAX, QUOTA_HELD_MAX } from '../base/limits.ts';
import { type Part, askAllShards, firstRefusal } from '../http/scatter.ts';
import type { ReplyHandler, ShardGateway } from '../ports.ts';
import {
  COMMAND_APPEND,
  COMMAND_APPEND_BATCH,
  COMMAND_CREATE,
  COMMAND_FORK_BEGIN,
  COMMAND_PUBLISH_SNAPSHOT,
  COMMAND_PURGE,
  COMMAND_QUOTA,
} from '../wire/command.ts';
import { FRAME_HEAD_BYTES, frameCount } from '../wire/batch.ts';
import { Reply } from '../wire/reply.ts';
import { BUCKET_FLAG_SOON, OP_BUCKET, type Request, newRequest } from '../wire/request.ts';

/** What the groups said is good for so long while there is room; also how late a node notices another one's new quota. */
const FRESH_MS = 1000;
/** Far from the bound: others may have written for a second. */
const MARGIN_STREAMS = 256;
const MARGIN_BYTES = 64 * 1024 * 1024;
/** Of the bound, at least. */
const MARGIN_PART = 0.1;
/** Buckets without a quota that are asked after again in the background, a second. */
const LOOKS_MAX = 50;

interface Need {
  readonly streams: number;
  readonly bytes: number;
}

/** A write that waits, or somebody who wants room for bytes that he brings later. */
interface Waiting {
  readonly need: Need;
  readonly grant: (isOver: boolean) => void;
  readonly deny: (reply: Reply) => void;
}

interface Entry {
  readonly bucket: string;
  /** -1: none. */
  streamsMax: number;
  bytesMax: number;
  /** What the groups said last, and what was admitted here since. */
  streams: number;
  bytes: number;
  askedAtMs: number;
  /** Room that was given away and is not used yet. */
  reserved: number;
  /** Writes under way. */
  pending: number;
  asking: boolean;
  waiting: Waiting[];
}

/** Room for bytes of a fork. */
export interface Reserved {
  /** So many of them are in the bucket now. */
  used(bytes: number): void;
  end(): void;
}

export class QuotaGate implements ShardGateway {
  readonly counters = { asked: 0, refused: 0 };
  readonly #inner: ShardGateway;
  readonly #monotonicMs: () => number;
  readonly #entries = new Map<string, Entry>();
  /** The bucket asked for last, without a quota: a load names the same one over and over. */
  #lastFree: Entry | undefined;
  #held = 0;
  #heldBytes = 0;
  #looks = 0;
  #looksSinceMs = 0;

  constructor(inner: ShardGateway, monotonicMs: () => number) {
    this.#inner = inner;
    this.#monotonicMs = monotonicMs;
  }

  get groupCount(): number {
    return this.#inner.groupCount;
  }

  get shardCount(): number {
    return this.#inner.shardCount;
  }

  groupOf(bucket: string, stream: string): number {
    return this.#inner.groupOf(bucket, stream);
  }

  openTopic(handler: Parameters<ShardGateway['openTopic']>[0]): number {
    return this.#inner.openTopic(handler);
  }

  closeTopic(topic: number, group: number): void {
    this.#inner.closeTopic(topic, group);
  }

  send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    const { bucket } = request.command;
    switch (request.op) {
      case COMMAND_QUOTA:
      case COMMAND_PURGE:
        return this.#change(bucket, request, handler);
      case COMMAND_CREATE:
      case COMMAND_APPEND:
      case COMMAND_APPEND_BATCH:
      case COMMAND_FORK_BEGIN:
      case COMMAND_PUBLISH_SNAPSHOT:
        return this.#count(bucket, request, handler);
      default:
        return this.#inner.send(request, handler, shard);
    }
  }

  /** Room for bytes that come later, in other commands. One of the two is called, later. */
  reserve(bucket: string, bytes: number, done: (room: Reserved) => void, denied: (reply: Reply) => void): void {
    const entry = this.#entryOf(bucket);
    let left = bytes;
    const room: Reserved = {
      used: (size) => {
        const part = Math.min(left, size);
        left -= part;
        entry.reserved -= part;
      },
      end: () => room.used(left),
    };
    entry.waiting.push({
      need: { streams: 0, bytes },
      grant: (isOver) => {
        if (isOver) return denied(this.#over(entry));
        entry.reserved += bytes;
        return done(room);
      },
      deny: denied,
    });
    queueMicrotask(() => this.#pump(entry));
  }

  /** The quota is another one, before and after the answer. */
  #change(bucket: string, request: Request, handler: ReplyHandler): boolean {
    this.#forget(bucket);
    return this.#inner.send(request, {
      onReply: (reply) => {
        this.#forget(bucket);
        handler.onReply(reply);
      },
    });
  }

  #forget(bucket: string): void {
    const entry = this.#entries.get(bucket);
    if (entry !== undefined) entry.askedAtMs = -Infinity;
    this.#lastFree = undefined;
  }

  #count(bucket: string, request: Request, handler: ReplyHandler): boolean {
    const entry = this.#lastFree?.bucket === bucket ? this.#lastFree : this.#entryOf(bucket);
    const isNew = entry.askedAtMs === -Infinity;
    if (!isNew && !isBounded(entry)) {
      this.#lastFree = entry;
      this.#look(entry);
      return this.#inner.send(request, handler);
    }
    const need = needOf(request);
    if (need.streams === 0 && need.bytes === 0) return this.#inner.send(request, handler);
    if (!isNew && entry.waiting.length === 0 && this.#isRoomy(entry, need)) return this.#send(entry, request, handler);
    const size = 200 + need.bytes;
    if (this.#held >= QUOTA_HELD_MAX || this.#heldBytes + size > QUOTA_HELD_BYTES_MAX) return false;
    this.#held++;
    this.#heldBytes += size;
    const copy = copyOf(request);
    const over = (): void => {
      this.#held--;
      this.#heldBytes -= size;
    };
    entry.waiting.push({
      need,
      grant: (isOver) => {
        over();
        copy.overQuota = isOver;
        if (!this.#send(entry, copy, handler)) handler.onReply(refusal('SHARD_BUSY'));
      },
      deny: (reply) => {
        over();
        handler.onReply(reply);
      },
    });
    // No answer comes inside send().
    queueMicrotask(() => this.#pump(entry));
    return true;
  }

  #send(entry: Entry, request: Request, handler: ReplyHandler): boolean {
    const sent = this.#inner.send(request, {
      onReply: (reply) => {
        entry.pending--;
        if (errorCode(reply.code) === 'QUOTA_EXCEEDED') {
          this.counters.refused++;
          reply.text = describe(entry);
        }
        handler.onReply(reply);
        this.#pump(entry);
      },
    });
    if (!sent) return false;
    entry.pending++;
    if (request.overQuota) return true;
    const { streams, bytes } = needOf(request);
    entry.streams += streams;
    entry.bytes += bytes;
    return true;
  }

  #pump(entry: Entry): void {
    if (entry.asking) return;
    while (entry.waiting.length > 0 && this.#isRoomy(entry, (entry.waiting[0] as Waiting).need)) {
      (entry.waiting.shift() as Waiting).grant(false);
    }
    // What is under way may or may not be in what the groups would say.
    if (entry.waiting.length > 0 && entry.pending === 0) this.#ask(entry);
  }

  #ask(entry: Entry): void {
    entry.asking = true;
    this.counters.asked++;
    const query = newRequest();
    query.op = OP_BUCKET;
    // One group without a leader must not keep the others from their writes.
    query.readFlags = BUCKET_FLAG_SOON;
    query.command.bucket = entry.bucket;
    const askedAtMs = this.#monotonicMs();
    let isInside = true;
    askAllShards(this.#inner, query, (parts) => {
      const take = (): void => this.#told(entry, askedAtMs, parts);
      if (isInside) queueMicrotask(take);
      else take();
    });
    isInside = false;
  }

  #told(entry: Entry, askedAtMs: number, parts: readonly Part[]): void {
    entry.asking = false;
    const refused = firstRefusal(parts, 'BUCKET_NOT_FOUND');
    const waiting = entry.waiting.splice(0);
    if (refused !== undefined) {
      for (const one of waiting) one.deny(refusal(refused.code));
      return;
    }
    entry.askedAtMs = askedAtMs;
    entry.streamsMax = Math.max(...parts.map((part) => part.streamsMax));
    entry.bytesMax = Math.max(...parts.map((part) => part.retainedBytesMax));
    entry.streams = parts.reduce((sum, { a }) => sum + a, 0);
    entry.bytes = parts.reduce((sum, { c }) => sum + c, 0);
    for (const one of waiting) one.grant(!fits(entry, one.need, 0, 0));
    this.#pump(entry);
  }

  /** In the background, a few a second: another node may have been told of a quota. */
  #look(entry: Entry): void {
    const clockMs = this.#monotonicMs();
    if (entry.asking || clockMs - entry.askedAtMs < FRESH_MS) return;
    if (clockMs - this.#looksSinceMs >= FRESH_MS) {
      this.#looksSinceMs = clockMs;
      this.#looks = 0;
    }
    if (this.#looks++ < LOOKS_MAX) this.#ask(entry);
  }

  #isRoomy(entry: Entry, need: Need): boolean {
    if (entry.askedAtMs === -Infinity) return false;
    if (!isBounded(entry)) return true;
    if (this.#monotonicMs() - entry.askedAtMs >= FRESH_MS) return false;
    const streams = Math.max(MARGIN_STREAMS, entry.streamsMax * MARGIN_PART);
    const bytes = Math.max(MARGIN_BYTES, entry.bytesMax * MARGIN_PART);
    return fits(entry, need, streams, bytes);
  }

  #entryOf(bucket: string): Entry {
    const known = this.#entries.get(bucket);
    if (known !== undefined) return known;
    if (this.#entries.size >= QUOTA_BUCKETS_MAX) this.#makeRoom();
    const entry: Entry = {
      bucket,
      streamsMax: -1,
      bytesMax: -1,
      streams: 0,
      bytes: 0,
      askedAtMs: -Infinity,
      reserved: 0,
      pending: 0,
      asking: false,
      waiting: [],
    };
    this.#entries.set(bucket, entry);
    return entry;
  }

  /** The oldest that nobody waits for; they are asked after again when they are written to. */
  #makeRoom(): void {
    let doomed = Math.ceil(QUOTA_BUCKETS_MAX / 16);
    for (const [bucket, { asking, pending, reserved, waiting }] of this.#entries) {
      if (asking || pending > 0 || reserved > 0 || waiting.length > 0) continue;
      this.#entries.delete(bucket);
      if (--doomed === 0) return;
    }
  }

  #over(entry: Entry): Reply {
    this.counters.refused++;
    const reply = refusal('QUOTA_EXCEEDED');
    reply.text = describe(entry);
    return reply;
  }
}

function isBounded({ streamsMax, bytesMax }: Entry): boolean {
  return streamsMax >= 0 || bytesMax >= 0;
}

function fits(entry: Entry, need: Need, marginStreams: number, marginBytes: number): boolean {
  const { streamsMax, bytesMax } = entry;
  const streams = entry.streams + need.streams + marginStreams;
  const bytes = entry.bytes + entry.reserved + need.bytes + marginBytes;
  // What brings none of a kind is not held up by that kind.
  const hasStreams = streamsMax < 0 || need.streams === 0 || streams <= streamsMax;
  return hasStreams && (bytesMax < 0 || need.bytes === 0 || bytes <= bytesMax);
}

/** Both sides: the bounds, and what the bucket has. */
function describe({ streamsMax, bytesMax, streams, bytes, reserved }: Entry): string {
  const parts: string[] = [];
  if (streamsMax >= 0) parts.push(`max_streams is ${streamsMax}, it has ${streams}`);
  if (bytesMax >= 0) parts.push(`max_retained_bytes is ${bytesMax}, it has ${bytes + reserved}`);
  return parts.join('; ');
}

function needOf({ op, command }: Request): Need {
  const makes = op === COMMAND_CREATE || op === COMMAND_FORK_BEGIN;
  // The payload of a BEGIN says what is forked; its bytes are reserved when they are known.
  const { payload } = command;
  if (payload === undefined || op === COMMAND_FORK_BEGIN) return { streams: makes ? 1 : 0, bytes: 0 };
  const heads = op === COMMAND_APPEND_BATCH ? FRAME_HEAD_BYTES * frameCount(payload) : 0;
  return { streams: makes ? 1 : 0, bytes: payload.length - heads };
}

function copyOf(request: Request): Request {
  const { payload, attributes } = request.command;
  const command = { ...request.command, payload: payload?.slice(), attributes: attributes?.slice() };
  return { ...request, command };
}

function refusal(code: ErrorCode): Reply {
  const reply = new Reply();
  reply.code = errorNumber(code);
  return reply;
}
