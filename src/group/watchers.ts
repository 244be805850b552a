/**
 * Live readers of a group's streams, as topics: at most one per stream and node. Changes are collected during apply and
 * sent as one tail event per stream and turn, so a burst of appends is one event.
 */
import type { ErrorCode } from '../base/errors.ts';
import { toHex } from '../base/hex.ts';
import { RowDamage } from '../base/row-damage.ts';
import { TAIL_EVENT_BYTES_MAX } from '../base/limits.ts';
import type { Head, StateListener } from '../stream/core/head.ts';
import { planTail } from '../stream/operations/read.ts';
import type { State } from '../stream/core/state.ts';
import { Observer } from './observer.ts';
import {
  type ReplySink,
  REPLY_BODY_OMITTED,
  REPLY_CLOSED,
  REPLY_DELETED,
  REPLY_TAIL,
  Reply,
} from '../protocol/reply.ts';

export class Watchers implements StateListener {
  #state: State;
  readonly #sink: ReplySink;
  /** A separate reply, because events are built while the answer of the causing command is under construction. */
  readonly #reply = new Reply();
  /** Topic by incarnation, and the reverse for UNWATCH. */
  readonly #topicOf = new Map<number, number>();
  /** Keys of watched streams by incarnation, to find them again in a replaced state. */
  readonly #keyOf = new Map<number, Uint8Array>();
  readonly #incarnationOf = new Map<number, number>();
  /** Topics of streams that are not there, by key in hexadecimal, and the reverse. */
  readonly #awaitingOf = new Map<string, number>();
  readonly #awaited = new Map<number, string>();
  readonly #moved = new Map<Head, number>();
  /** The index that a new state must have applied to be shown; Infinity: it is shown. */
  #shownIndex = Infinity;
  /** Receives the same changes, for subscriptions. */
  readonly observer: Observer;

  constructor(state: State, sink: ReplySink) {
    this.#state = state;
    this.#sink = sink;
    this.observer = new Observer(sink);
  }

  get size(): number {
    return this.#topicOf.size + this.#awaited.size;
  }

  /** Subscribes `topic` to the stream; the caller has just read it and found it open. */
  watch(head: Head, topic: number): void {
    const before = this.#topicOf.get(head.incarnation);
    if (before !== undefined) this.#incarnationOf.delete(before);
    this.#topicOf.set(head.incarnation, topic);
    this.#incarnationOf.set(topic, head.incarnation);
    this.#keyOf.set(head.incarnation, head.key);
  }

  /** Tells `topic` once when the stream is made; the caller has just found that it is not there. */
  awaitStream(key: Uint8Array, topic: number): void {
    this.unwatch(topic);
    const name = toHex(key);
    const before = this.#awaitingOf.get(name);
    if (before !== undefined) this.#awaited.delete(before);
    this.#awaitingOf.set(name, topic);
    this.#awaited.set(topic, name);
  }

  unwatch(topic: number): void {
    const name = this.#awaited.get(topic);
    if (name !== undefined) {
      this.#awaited.delete(topic);
      this.#awaitingOf.delete(name);
    }
    const incarnation = this.#incarnationOf.get(topic);
    if (incarnation === undefined) return;
    this.#incarnationOf.delete(topic);
    this.#topicOf.delete(incarnation);
    this.#keyOf.delete(incarnation);
  }

  /** Another state took the place of the group's. No reader hears of it before it has applied what was shown. */
  replace(state: State, shownIndex: number): void {
    this.#state = state;
    this.#shownIndex = shownIndex;
    this.#moved.clear();
    this.applied(state.appliedIndex);
  }

  /** The state is at this index. */
  applied(index: number): void {
    if (index >= this.#shownIndex) this.show();
  }

  /** Tells readers of a state that was replaced to read again, or that their stream is gone. */
  show(): void {
    const state = this.#state;
    this.#shownIndex = Infinity;
    state.listener = this;
    this.observer.rebase(state.group);
    for (const [incarnation, topic] of [...this.#topicOf]) {
      const head = this.#headOf(incarnation);
      if (head === 'damaged') continue;
      const reply = this.#reply;
      reply.reset(topic);
      if (head === undefined || head.incarnation !== incarnation) {
        this.#sendRemoved(topic);
        continue;
      }
      planTail(state, head, head.tail, 0, reply);
      reply.kind = REPLY_TAIL;
      reply.flags |= REPLY_BODY_OMITTED;
      if (head.closed) {
        reply.flags |= REPLY_CLOSED;
        this.unwatch(topic);
      }
      this.#sink.send(reply);
    }
    for (const topic of this.#awaited.keys()) this.#sendCode(topic, 'STREAM_NOT_FOUND');
  }

  /** Tells readers that no event follows soon: their next read says why. */
  refuse(code: ErrorCode): void {
    for (const topic of [...this.#incarnationOf.keys(), ...this.#awaited.keys()]) this.#sendCode(topic, code);
  }

  #sendCode(topic: number, code: ErrorCode): void {
    this.#reply.refuse(topic, code);
    this.#reply.kind = REPLY_TAIL;
    this.#sink.send(this.#reply);
  }

  /** A damaged head says nothing until the state is repaired. */
  #headOf(incarnation: number): Head | 'damaged' | undefined {
    const key = this.#keyOf.get(incarnation) as Uint8Array;
    try {
      return this.#state.find(key, 0, key.length);
    } catch (error) {
      if (error instanceof RowDamage) return 'damaged';
      throw error;
    }
  }

  changed(head: Head, from: number): void {
    if (this.observer.active) this.observer.changed(head);
    if (this.#awaited.size > 0) this.#tellMade(head);
    if (this.#topicOf.size === 0 || !this.#topicOf.has(head.incarnation)) return;
    if (!this.#moved.has(head)) this.#moved.set(head, from);
  }

  /** Readers that awaited the stream look again, and find it. */
  #tellMade(head: Head): void {
    const topic = this.#awaitingOf.get(toHex(head.key));
    if (topic === undefined) return;
    this.unwatch(topic);
    this.#sendCode(topic, 'STREAM_NOT_FOUND');
  }

  removed(head: Head): void {
    if (this.observer.active) this.observer.removed(head);
    const topic = this.#topicOf.get(head.incarnation);
    if (topic === undefined) return;
    this.#moved.delete(head);
    this.#sendRemoved(topic);
  }

  #sendRemoved(topic: number): void {
    this.unwatch(topic);
    const reply = this.#reply;
    reply.reset(topic);
    reply.kind = REPLY_TAIL;
    reply.flags = REPLY_DELETED;
    this.#sink.send(reply);
  }

  /** Sends one event for every stream that moved. Called once per turn, after apply. */
  flush(): void {
    this.observer.flush();
    if (this.#moved.size === 0) return;
    for (const [head, from] of this.#moved) {
      const topic = this.#topicOf.get(head.incarnation);
      if (topic === undefined) continue;
      const reply = this.#reply;
      reply.reset(topic);
      const plan = planTail(this.#state, head, from, TAIL_EVENT_BYTES_MAX, reply);
      reply.kind = REPLY_TAIL;
      if (head.closed) {
        reply.flags |= REPLY_CLOSED;
        this.unwatch(topic);
      }
      if (plan === undefined) reply.flags |= REPLY_BODY_OMITTED;
      else reply.body = plan.body;
      this.#sink.send(reply);
    }
    this.#moved.clear();
  }
}
