/**
 * Tells the main thread which streams of a group moved, by name or by pattern, as subscriptions need. Unlike a live
 * reader it gets no bytes, only the tail position, and learns of created and removed streams. One event per turn covers
 * all streams of the group; without observers there is none.
 *
 * An event without moves says that the state was replaced: everything known about the group must be queried again.
 */
import { Glob } from '../base/glob.ts';
import { TAIL_EVENT_BYTES_MAX } from '../base/limits.ts';
import type { Head } from '../stream/core/head.ts';
import type { State } from '../stream/core/state.ts';
import { flatPath } from '../protocol/flat-path.ts';
import { REPLY_TAIL, Reply, type ReplySink } from '../protocol/reply.ts';
import type { Query } from '../protocol/request.ts';
import { readText } from '../base/text.ts';
import { type MovedStream, OBSERVER_EVENT, type ObserveResult } from '../protocol/queries/watching.ts';
import { QUERIES } from '../protocol/operations.ts';

/** No segment is empty: patterns that begin with a wildcard. */
const ANY = '';
/** Streams whose names were matched against the patterns; all are forgotten at once beyond this (some 10 MB). */
const KNOWN_MAX = 131_072;
/** Size of a row in an event beside its names, about. */
const ROW_CHARS = 64;
const NOWHERE: ObserveResult = { incarnation: 0, tail: 0 };

/** A stream that moved since the last event. */
interface Moved {
  readonly bucket: string;
  readonly stream: string;
  readonly head: Head;
  removed: boolean;
}

export class Observer {
  readonly #sink: ReplySink;
  readonly #reply = new Reply();
  #topic = 0;
  /** Keys (bucket, NUL, stream) as text. */
  readonly #names = new Set<string>();
  /** By their first segment: others are not looked at for a stream. */
  readonly #patterns = new Map<string, Map<string, Glob>>();
  /** By incarnation: whether the stream is observed. */
  readonly #known = new Map<number, boolean>();
  #moved = new Map<number, Moved>();

  constructor(sink: ReplySink) {
    this.#sink = sink;
  }

  get active(): boolean {
    return this.#names.size > 0 || this.#patterns.size > 0;
  }

  /** OBSERVE: changes the set of observed streams. For a name the answer is the stream's position. */
  handle(state: State, query: Query, nowMs: number, reply: Reply): void {
    const asked = QUERIES.observe.request.read(query);
    if (asked.topic !== 0) this.#topic = asked.topic;
    let head: Head | undefined;
    if (asked.action === 'watch') {
      this.#names.add(query.keyText());
      head = this.#recheck(state, query);
    } else if (asked.action === 'forget') {
      if (this.#names.delete(query.keyText())) this.#recheck(state, query);
    } else if (asked.action === 'watch-pattern') {
      const glob = new Glob(asked.pattern);
      const alike = this.#patterns.get(firstOf(glob));
      if (alike === undefined) this.#patterns.set(firstOf(glob), new Map([[asked.pattern, glob]]));
      else alike.set(asked.pattern, glob);
      this.#known.clear();
    } else if (asked.action === 'forget-pattern') {
      const first = firstOf(new Glob(asked.pattern));
      const alike = this.#patterns.get(first);
      if (alike?.delete(asked.pattern) === true) this.#known.clear();
      if (alike?.size === 0) this.#patterns.delete(first);
    }
    if (!this.active) this.#moved.clear();
    if (head === undefined || head.expired(nowMs)) return QUERIES.observe.result.write(reply, NOWHERE);
    return QUERIES.observe.result.write(reply, { incarnation: head.incarnation, tail: head.tail });
  }

  changed(head: Head): void {
    if (!this.#isObserved(head) || this.#moved.has(head.incarnation)) return;
    this.#moved.set(head.incarnation, { ...nameOf(head), head, removed: false });
  }

  removed(head: Head): void {
    if (!this.#isObserved(head)) return;
    this.#known.delete(head.incarnation);
    const moved = this.#moved.get(head.incarnation);
    if (moved !== undefined) moved.removed = true;
    else this.#moved.set(head.incarnation, { ...nameOf(head), head, removed: true });
  }

  /** The state was replaced. */
  rebase(group: number): void {
    this.#known.clear();
    this.#moved.clear();
    if (!this.active) return;
    const reply = this.#begin();
    OBSERVER_EVENT.write(reply, { replacedGroup: group });
    this.#sink.send(reply);
  }

  /** Sends what moved since the last call. */
  flush(): void {
    if (this.#moved.size === 0) return;
    const moved = this.#moved;
    this.#moved = new Map();
    let rows: MovedStream[] = [];
    let chars = 0;
    for (const { bucket, stream, head, removed } of moved.values()) {
      const { incarnation, tail } = head;
      rows.push({ bucket, stream, incarnation, tail, isRemoved: removed });
      chars += bucket.length + stream.length + ROW_CHARS;
      // Half of the bound, because a character may take two or three bytes.
      if (chars < TAIL_EVENT_BYTES_MAX / 2) continue;
      this.#send(rows);
      rows = [];
      chars = 0;
    }
    if (rows.length > 0) this.#send(rows);
  }

  #send(moved: readonly MovedStream[]): void {
    const reply = this.#begin();
    OBSERVER_EVENT.write(reply, { moved });
    this.#sink.send(reply);
  }

  #begin(): Reply {
    const reply = this.#reply;
    reply.reset(this.#topic);
    reply.kind = REPLY_TAIL;
    return reply;
  }

  /** Names come and go by the thousand, so the cached results of the others are kept. */
  #recheck(state: State, query: Query): Head | undefined {
    const head = state.find(query.bytes, query.keyAt, query.keyBytes);
    if (head !== undefined) this.#known.delete(head.incarnation);
    return head;
  }

  #matches(path: string): boolean {
    const slash = path.indexOf('/');
    for (const first of [slash < 0 ? path : path.slice(0, slash), ANY])
      for (const glob of this.#patterns.get(first)?.values() ?? []) if (glob.matches(path)) return true;
    return false;
  }

  #isObserved(head: Head): boolean {
    const known = this.#known.get(head.incarnation);
    if (known !== undefined) return known;
    const { bucket, stream } = nameOf(head);
    let observed = this.#names.has(`${bucket}\0${stream}`);
    // Reserved names cannot be subscribed to.
    if (!observed && this.#patterns.size > 0 && !bucket.startsWith('__')) {
      observed = this.#matches(flatPath(bucket, stream));
    }
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    this.#known.set(head.incarnation, observed);
    return observed;
  }
}

function firstOf(glob: Glob): string {
  return glob.literalFront[0] ?? ANY;
}

function nameOf({ key, bucketBytes }: Head): { readonly bucket: string; readonly stream: string } {
  const front = bucketBytes + 1;
  return { bucket: readText(key, 0, bucketBytes), stream: readText(key, front, key.length - front) };
}
