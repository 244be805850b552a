/**
 * Where streams are, kept up to date by the shards of this node (group/observer.ts): of streams by name, and of whatever matches
 * a pattern. Both are counted, so that several subscriptions may want the same.
 */
import { decodeUtf8 } from '../../base/utf8.ts';
import type { ShardGateway, TailHandler } from '../../ports.ts';
import type { StreamTail } from '../state/decide.ts';
import { flatPath, splitFlatPath } from '../../protocol/flat-path.ts';
import { REPLY_BODY_OMITTED, type Reply } from '../../protocol/reply.ts';
import {
  OBSERVE_FORGET_NAME,
  OBSERVE_FORGET_PATTERN,
  OBSERVE_NAME,
  OBSERVE_PATTERN,
  type Request,
} from '../../protocol/request.ts';
import { type Answer, call } from '../../gateway/shard-client.ts';
import { Lanes } from './lanes.ts';
import { QUERIES } from '../../protocol/operations.ts';
import { replacedGroup, type ObserveResult } from '../../protocol/watching.ts';

/** A shard that cannot answer yet (full mailbox, catching up, importing) is asked again this much later. */
const RETRY_MS = 100;

export interface TailListener {
  /** In the order of the changes of each stream. */
  moved(path: string, tail: StreamTail, removed: boolean): void;
  /** The answer for a stream that is wanted since now; incarnation 0: this node has none of that name. */
  found(path: string, tail: StreamTail): void;
  /** Changes of a group's streams may have been missed; the tails of wanted ones are being asked for. */
  missed(): void;
}

interface Wanted {
  users: number;
  tail: StreamTail | undefined;
  /** The last stream of this name whose end was seen; 0: none. */
  ended: number;
  known: Promise<void>;
}

interface Pattern {
  users: number;
  known: Promise<void>;
}

type Row = readonly [bucket: string, stream: string, incarnation: number, offset: number, removed: 0 | 1];

export class Tails implements TailHandler {
  readonly #gateway: ShardGateway;
  readonly #listener: TailListener;
  readonly #topic: number;
  readonly #names = new Map<string, Wanted>();
  readonly #patterns = new Map<string, Pattern>();
  readonly #lanes = new Lanes();
  #closed = false;

  constructor(gateway: ShardGateway, listener: TailListener) {
    this.#gateway = gateway;
    this.#listener = listener;
    this.#topic = gateway.openTopic(this);
  }

  /** Undefined: not wanted, or not known yet. */
  of(path: string): StreamTail | undefined {
    return this.#names.get(path)?.tail;
  }

  /** The last stream of a wanted name whose end this node has seen; 0: it saw none. */
  ended(path: string): number {
    return this.#names.get(path)?.ended ?? 0;
  }

  /** Resolves when the tail is known; to be followed by `release`. */
  want(path: string): Promise<void> {
    const wanted = this.#names.get(path);
    if (wanted !== undefined) {
      wanted.users++;
      return wanted.known;
    }
    const fresh: Wanted = { users: 1, tail: undefined, ended: 0, known: Promise.resolve() };
    this.#names.set(path, fresh);
    fresh.known = this.#askName(path, fresh);
    return fresh.known;
  }

  /** Resolves when the tails of all these wanted streams are known. */
  async known(paths: Iterable<string>): Promise<void> {
    for (const path of [...paths]) await this.#names.get(path)?.known;
  }

  /**
   * What the shards had applied before this call is known when it resolves. An answer to a write may come a disk write before the event
   * about it; whatever is asked behind that is answered behind the event.
   */
  async settled(): Promise<void> {
    const shards = Array.from({ length: this.#gateway.shardCount }, (_, shard) => shard);
    // Group n lives on shard n, as far as there are shards; no stream follows the empty pattern. Whatever the answer says, it came.
    await Promise.all(
      shards.map((group) => call(this.#gateway, QUERIES.observe, this.#filling(group, OBSERVE_FORGET_PATTERN, '', ''))),
    );
  }

  /** Asks for the tail of a wanted stream once more. */
  async refresh(path: string): Promise<void> {
    const wanted = this.#names.get(path);
    if (wanted !== undefined) await this.#askName(path, wanted);
  }

  release(path: string): void {
    const wanted = this.#names.get(path);
    if (wanted === undefined || --wanted.users > 0) return;
    this.#names.delete(path);
    void this.#observe(OBSERVE_FORGET_NAME, path, () => !this.#names.has(path));
  }

  /** Resolves when every group knows; streams that match are reported from then on. */
  wantPattern(pattern: string): Promise<void> {
    const wanted = this.#patterns.get(pattern);
    if (wanted !== undefined) {
      wanted.users++;
      return wanted.known;
    }
    const fresh: Pattern = { users: 1, known: Promise.resolve() };
    this.#patterns.set(pattern, fresh);
    fresh.known = this.#tellGroups(OBSERVE_PATTERN, pattern, () => this.#patterns.get(pattern) === fresh);
    return fresh.known;
  }

  releasePattern(pattern: string): void {
    const wanted = this.#patterns.get(pattern);
    if (wanted === undefined || --wanted.users > 0) return;
    this.#patterns.delete(pattern);
    void this.#tellGroups(OBSERVE_FORGET_PATTERN, pattern, () => !this.#patterns.has(pattern));
  }

  close(): void {
    this.#closed = true;
  }

  onTail(reply: Reply): void {
    if (this.#closed) return;
    if (reply.has(REPLY_BODY_OMITTED)) {
      this.#askAgain(replacedGroup(reply));
      return;
    }
    const rows = JSON.parse(decodeUtf8(reply.body ?? new Uint8Array(0))) as readonly Row[];
    for (const [bucket, stream, incarnation, offset, removed] of rows) {
      this.#moved(flatPath(bucket, stream), { incarnation, offset }, removed === 1);
    }
  }

  #moved(path: string, tail: StreamTail, removed: boolean): void {
    const wanted = this.#names.get(path);
    // A stream that was made anew may be reported before the end of the one before it.
    const isOld = wanted?.tail !== undefined && wanted.tail.incarnation > tail.incarnation;
    if (wanted !== undefined && !isOld) wanted.tail = removed ? { incarnation: 0, offset: 0 } : tail;
    if (wanted !== undefined && removed) wanted.ended = Math.max(wanted.ended, tail.incarnation);
    this.#listener.moved(path, tail, removed);
  }

  /** Another state took over in a group: what it has may be further, or may be gone. */
  #askAgain(group: number): void {
    for (const [path, wanted] of this.#names) {
      const { bucket, stream } = splitFlatPath(path);
      if (this.#gateway.groupOf(bucket, stream) === group) wanted.known = this.#askName(path, wanted);
    }
    this.#listener.missed();
  }

  async #askName(path: string, wanted: Wanted): Promise<void> {
    await this.#observe(
      OBSERVE_NAME,
      path,
      () => this.#names.get(path) === wanted,
      (answer) => {
        if (answer.code !== 'OK' || this.#names.get(path) !== wanted) return;
        wanted.tail = { incarnation: answer.result.incarnation, offset: answer.result.tail };
        this.#listener.found(path, wanted.tail);
      },
    );
  }

  /** Until it is done or not wanted any more. */
  async #observe(
    mode: number,
    path: string,
    isWanted: () => boolean,
    atOnce?: (answer: Answer<ObserveResult>) => void,
  ): Promise<void> {
    const { bucket, stream } = splitFlatPath(path);
    await this.#until(isWanted, this.#gateway.groupOf(bucket, stream), mode, bucket, stream, atOnce);
  }

  async #tellGroups(mode: number, pattern: string, isWanted: () => boolean): Promise<void> {
    const groups = Array.from({ length: this.#gateway.groupCount }, (_, group) => group);
    await Promise.all(groups.map((group) => this.#until(isWanted, group, mode, pattern, '')));
  }

  #filling(group: number, mode: number, bucket: string, stream: string): (request: Request) => void {
    return (request) => {
      request.group = group;
      request.mode = mode;
      request.topic = this.#topic;
      request.command.bucket = bucket;
      request.command.stream = stream;
    };
  }

  async #until(
    isWanted: () => boolean,
    group: number,
    mode: number,
    bucket: string,
    stream: string,
    atOnce?: (answer: Answer<ObserveResult>) => void,
  ): Promise<void> {
    const fill = this.#filling(group, mode, bucket, stream);
    const turn = this.#lanes.enter(group);
    if (turn !== undefined) await turn;
    try {
      while (!this.#closed && isWanted()) {
        const { code } = await call(this.#gateway, QUERIES.observe, fill, atOnce === undefined ? {} : { atOnce });
        if (code === 'OK' || code === 'STOPPING') return;
        // In its lane: a group that cannot answer now is asked no more often than this by a few.
        await new Promise((resolve) => {
          setTimeout(resolve, RETRY_MS).unref();
        });
      }
    } finally {
      this.#lanes.leave(group);
    }
  }
}
