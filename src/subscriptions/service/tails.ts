/**
 * Tails of streams, kept up to date by the shards of this node (group/observer.ts): of streams by name, and of those
 * that match a pattern. Both are reference-counted, so that several subscriptions may want the same.
 */
import type { ShardGateway, TailHandler } from '../../ports.ts';
import type { StreamTail } from '../state/decide.ts';
import { flatPath, splitFlatPath } from '../../protocol/flat-path.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { RetryClock, RetryPolicy } from '../../gateway/retry.ts';
import { type ShardAnswer, callGroup } from '../../gateway/shard-client.ts';
import { QUERIES } from '../../protocol/operations.ts';
import { OBSERVER_EVENT, type ObserveRequest, type ObserveResult } from '../../protocol/queries/watching.ts';

/** A shard that cannot answer yet (full mailbox, catching up, importing) is asked again, while the tail is wanted. */
const POLICY: RetryPolicy = {
  patienceMs: Infinity,
  againMs: 100,
  isPassing: (code) => code !== 'OK' && code !== 'STOPPING',
};

export interface TailListener {
  /** In the order of each stream's changes. */
  moved(path: string, tail: StreamTail, removed: boolean): void;
  /** The answer for a newly wanted stream; incarnation 0: this node has none of that name. */
  found(path: string, tail: StreamTail): void;
  /** Changes of a group's streams may have been missed; the tails of wanted ones are being queried. */
  missed(): void;
}

interface Wanted {
  users: number;
  tail: StreamTail | undefined;
  /** Incarnation of the last stream of this name whose end was seen; 0: none. */
  ended: number;
  known: Promise<void>;
}

interface Pattern {
  users: number;
  known: Promise<void>;
}

/**
 * Concurrent requests per group; the others wait in order. A starting node may want hundreds of thousands of streams,
 * some of groups that answer immediately and some of groups that catch up for minutes.
 */
const AT_ONCE = 64;
/** A queue is copied when this many places at its front are empty. */
const EMPTY_MAX = 1024;

class GroupQueue {
  #free = AT_ONCE;
  #waiting: (() => void)[] = [];
  #next = 0;

  /** Undefined: immediately. Call `leave` afterwards. */
  enter(): Promise<void> | undefined {
    if (this.#free > 0) {
      this.#free--;
      return undefined;
    }
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  leave(): void {
    const next = this.#waiting[this.#next];
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#next++;
    if (this.#next >= EMPTY_MAX && 2 * this.#next >= this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#next);
      this.#next = 0;
    }
    next();
  }
}

export class Tails implements TailHandler {
  readonly #gateway: ShardGateway;
  readonly #runtime: RetryClock;
  readonly #listener: TailListener;
  readonly #topic: number;
  readonly #names = new Map<string, Wanted>();
  readonly #patterns = new Map<string, Pattern>();
  readonly #queues = new Map<number, GroupQueue>();
  #closed = false;

  constructor(gateway: ShardGateway, runtime: RetryClock, listener: TailListener) {
    this.#gateway = gateway;
    this.#runtime = runtime;
    this.#listener = listener;
    this.#topic = gateway.openTopic(this);
  }

  /** Undefined: not wanted, or not known yet. */
  of(path: string): StreamTail | undefined {
    return this.#names.get(path)?.tail;
  }

  /** Incarnation of the last stream of a wanted name whose end this node has seen; 0: none. */
  ended(path: string): number {
    return this.#names.get(path)?.ended ?? 0;
  }

  /** Resolves when the tail is known; call `release` afterwards. */
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
   * When it resolves, everything that the shards had applied before this call is known. The answer to a write may come
   * a disk write before its event, but a later query is answered after the event.
   */
  async settled(): Promise<void> {
    const shards = Array.from({ length: this.#gateway.shardCount }, (_, shard) => shard);
    // Group n is on shard n, as far as there are shards; no stream matches the empty pattern. Only the arrival of the
    // answer matters.
    await Promise.all(
      shards.map((group) =>
        callGroup(this.#gateway, QUERIES.observe, group, { action: 'forget-pattern', pattern: '', topic: this.#topic }),
      ),
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
    void this.#observe('forget', path, () => !this.#names.has(path));
  }

  /** Resolves when every group knows; matching streams are reported from then on. */
  wantPattern(pattern: string): Promise<void> {
    const wanted = this.#patterns.get(pattern);
    if (wanted !== undefined) {
      wanted.users++;
      return wanted.known;
    }
    const fresh: Pattern = { users: 1, known: Promise.resolve() };
    this.#patterns.set(pattern, fresh);
    fresh.known = this.#tellGroups('watch-pattern', pattern, () => this.#patterns.get(pattern) === fresh);
    return fresh.known;
  }

  releasePattern(pattern: string): void {
    const wanted = this.#patterns.get(pattern);
    if (wanted === undefined || --wanted.users > 0) return;
    this.#patterns.delete(pattern);
    void this.#tellGroups('forget-pattern', pattern, () => !this.#patterns.has(pattern));
  }

  close(): void {
    this.#closed = true;
  }

  onTail(reply: Reply): void {
    if (this.#closed) return;
    const event = OBSERVER_EVENT.read(reply);
    if ('replacedGroup' in event) return this.#askAgain(event.replacedGroup);
    for (const { bucket, stream, incarnation, tail, isRemoved } of event.moved) {
      this.#moved(flatPath(bucket, stream), { incarnation, offset: tail }, isRemoved);
    }
  }

  #moved(path: string, tail: StreamTail, removed: boolean): void {
    const wanted = this.#names.get(path);
    // A recreated stream may be reported before the end of the previous one.
    const isOld = wanted?.tail !== undefined && wanted.tail.incarnation > tail.incarnation;
    if (wanted !== undefined && !isOld) wanted.tail = removed ? { incarnation: 0, offset: 0 } : tail;
    if (wanted !== undefined && removed) wanted.ended = Math.max(wanted.ended, tail.incarnation);
    this.#listener.moved(path, tail, removed);
  }

  /** The state of a group was replaced: its streams may have moved or be gone. */
  #askAgain(group: number): void {
    for (const [path, wanted] of this.#names) {
      const { bucket, stream } = splitFlatPath(path);
      if (this.#gateway.groupOf(bucket, stream) === group) wanted.known = this.#askName(path, wanted);
    }
    this.#listener.missed();
  }

  async #askName(path: string, wanted: Wanted): Promise<void> {
    await this.#observe(
      'watch',
      path,
      () => this.#names.get(path) === wanted,
      (answer) => {
        if (answer.code !== 'OK' || this.#names.get(path) !== wanted) return;
        wanted.tail = { incarnation: answer.result.incarnation, offset: answer.result.tail };
        this.#listener.found(path, wanted.tail);
      },
    );
  }

  /** Repeats until it is done or no longer wanted. */
  async #observe(
    action: 'watch' | 'forget',
    path: string,
    isWanted: () => boolean,
    atOnce?: (answer: ShardAnswer<ObserveResult>) => void,
  ): Promise<void> {
    const { bucket, stream } = splitFlatPath(path);
    const asked = { action, bucket, stream, topic: this.#topic };
    await this.#until(isWanted, this.#gateway.groupOf(bucket, stream), asked, atOnce);
  }

  async #tellGroups(
    action: 'watch-pattern' | 'forget-pattern',
    pattern: string,
    isWanted: () => boolean,
  ): Promise<void> {
    const groups = Array.from({ length: this.#gateway.groupCount }, (_, group) => group);
    const asked = { action, pattern, topic: this.#topic };
    await Promise.all(groups.map((group) => this.#until(isWanted, group, asked)));
  }

  async #until(
    isWanted: () => boolean,
    group: number,
    asked: ObserveRequest,
    atOnce?: (answer: ShardAnswer<ObserveResult>) => void,
  ): Promise<void> {
    const queue = this.#queues.get(group) ?? new GroupQueue();
    this.#queues.set(group, queue);
    const turn = queue.enter();
    if (turn !== undefined) await turn;
    try {
      const goesOn = (): boolean => !this.#closed && isWanted();
      if (!goesOn()) return;
      // Inside its lane, so that a group that cannot answer now is asked only by a few, at this interval.
      const retry = { clock: this.#runtime, policy: POLICY, isWanted: goesOn };
      await callGroup(this.#gateway, QUERIES.observe, group, asked, { atOnce, retry });
    } finally {
      queue.leave();
    }
  }
}
