// One replica of a group without consensus: a State over a sorted map, the log since its last checkpoint, and the
// host's mishaps: a commit that fails, a crash after a commit, a restart that replays.
import assert from 'node:assert/strict';
import { errorCode } from '../../src/base/errors.ts';
import { answerQuery } from '../../src/group/queries.ts';
import {
  type ReplySink,
  REPLY_CLOSED,
  REPLY_COLD,
  REPLY_CREATED,
  REPLY_DUPLICATE,
  REPLY_PRODUCER,
  REPLY_RECORDS,
  REPLY_UP_TO_DATE,
  Reply,
} from '../../src/protocol/reply.ts';
import { Watchers } from '../../src/group/watchers.ts';
import { apply, nextExpiryMs } from '../../src/stream/apply.ts';
import { assembleRead } from '../../src/stream/cold/assemble.ts';
import { ReadCollector } from '../../src/stream/core/collect.ts';
import { isMetered } from '../../src/stream/core/buckets.ts';
import type { Head } from '../../src/stream/core/head.ts';
import { listStreams } from '../../src/stream/operations/list.ts';
import type { ReadPlan } from '../../src/stream/core/collect.ts';
import { planTail } from '../../src/stream/operations/read.ts';
import { State } from '../../src/stream/core/state.ts';
import { COLD_REFS_MAX } from '../../src/base/limits.ts';
import { type ColdPlan, decodeColdPlan } from '../../src/protocol/cold.ts';
import { Command } from '../../src/protocol/command.ts';
import { eachCommand } from '../../src/group/entry.ts';
import { type Request, requestFor } from '../../src/protocol/request.ts';
import type { Outcome } from './model-command.ts';
import { HeldReads } from './held-reads.ts';
import { SortedMapTx } from './sorted-map-tx.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import type { HeadResult } from '../../src/protocol/queries/stream.ts';
import { queryOf } from '../support/asked-query.ts';

/** Not a round number: both bytes of the key's prefix count. */
export const GROUP = 0x0102;

const FLAG_NAMES: readonly (readonly [number, string])[] = [
  [REPLY_CLOSED, 'closed'],
  [REPLY_CREATED, 'created'],
  [REPLY_DUPLICATE, 'duplicate'],
  [REPLY_UP_TO_DATE, 'up-to-date'],
];

/** A reply in the model's terms. */
export function outcomeOf(reply: Reply): Outcome {
  const records = `${reply.recordFirst}/${reply.recordStart}/${reply.recordNext}`;
  return {
    code: errorCode(reply.code),
    next: reply.nextOffset,
    start: reply.startOffset,
    flags: FLAG_NAMES.filter(([flag]) => reply.has(flag)).map(([, name]) => name),
    records: reply.has(REPLY_RECORDS) ? records : '',
    producer: reply.has(REPLY_PRODUCER) ? `${reply.a}/${reply.b}/${reply.c}` : '',
    type: reply.contentType,
  };
}

export interface Headed {
  readonly outcome: Outcome;
  readonly shown: HeadResult | undefined;
}

function bodied(body: Uint8Array): Reply {
  return Object.assign(new Reply(), { body });
}

export interface Answer {
  readonly outcome: Outcome;
  readonly body: Buffer;
  /** The answer came from as many chunks as there may be, so it may hold less than it could. */
  readonly short: boolean;
}

/** The body of a plan, copied: a plan's own is valid until the next read. */
export function filled(plan: ReadPlan): Buffer {
  return Buffer.from(plan.body);
}

class Catcher implements ReplySink {
  readonly answers: Answer[] = [];

  send(reply: Reply): void {
    this.#keep(reply, Buffer.from(reply.body ?? []));
  }

  #keep(reply: Reply, body: Buffer): void {
    this.answers.push({ outcome: outcomeOf(reply), body, short: false });
  }
}

interface Logged {
  readonly index: number;
  readonly data: Uint8Array;
  readonly outcomes: readonly Outcome[];
}

export class Replica {
  readonly tx = new SortedMapTx();
  state = new State(GROUP, this.tx);
  /** Lost when the process ends, as the state is. */
  held = new HeldReads();
  readonly counts = { flushes: 0, failedCommits: 0, restarts: 0, replayed: 0 };
  readonly #command = new Command();
  readonly #catcher = new Catcher();
  /** One for all reads: it holds a mebibyte. */
  readonly #collector = new ReadCollector();
  /** Gets the chunks of cold reads; their refs beyond `needed` are read ahead and not used. */
  fetch: (plan: ColdPlan) => Uint8Array[] = () => [];
  #watchers = new Watchers(this.state, this.#catcher);
  #log: Logged[] = [];

  /** Applies one entry; the answers of its commands in order. */
  applyEntry(index: number, data: Uint8Array): Outcome[] {
    const outcomes = this.#apply(index, data);
    this.#log.push({ index, data, outcomes });
    return outcomes;
  }

  flush(): void {
    this.tx.begin();
    this.state.flush();
    this.tx.commit();
    this.state.flushed();
    this.#log = [];
    this.counts.flushes++;
  }

  /** A full disk: nothing was written, and the state must not believe otherwise. */
  flushInVain(): void {
    this.tx.begin();
    this.state.flush();
    this.tx.rollback();
    this.counts.failedCommits++;
  }

  /** Restart from the store and the log after it, optionally right after a commit whose end was not reported. */
  restart(afterCommit: boolean): void {
    if (afterCommit) {
      this.tx.begin();
      this.state.flush();
      this.tx.commit();
    }
    this.state = new State(GROUP, this.tx);
    this.held = new HeldReads();
    this.#watchers = new Watchers(this.state, this.#catcher);
    this.#log = this.#log.filter(({ index }) => index > this.state.appliedIndex);
    for (const { index, data, outcomes } of this.#log) {
      assert.deepEqual(this.#apply(index, data), outcomes, `entry ${index} answers the same when it is replayed`);
      this.counts.replayed++;
    }
    this.counts.restarts++;
  }

  /** Flushes until no row of a removed stream is left. */
  settle(): void {
    for (let round = 0; round === 0 || this.state.dirty; round++) {
      assert(round < 10_000, 'reclaiming comes to an end');
      this.flush();
    }
  }

  query(request: Request, nowMs: number): Answer {
    const answer = this.#query(request, nowMs, () => undefined);
    this.held.check(request, nowMs, (again, complete) => this.#query(again, nowMs, complete));
    return answer;
  }

  /** HEAD of a stream; `shown` is undefined when it is refused. */
  askHead(bucket: string, stream: string, nowMs: number): Headed {
    const { outcome, body } = this.query(requestFor(QUERIES.head, GROUP, { bucket, stream }), nowMs);
    return { outcome, shown: outcome.code === 'OK' ? QUERIES.head.result.read(bodied(body)) : undefined };
  }

  /** The attributes of a stream as the body. */
  askAttributes(bucket: string, stream: string, nowMs: number): Answer {
    const answer = this.query(requestFor(QUERIES.getAttributes, GROUP, { bucket, stream }), nowMs);
    if (answer.outcome.code !== 'OK') return answer;
    return { ...answer, body: Buffer.from(QUERIES.getAttributes.result.read(bodied(answer.body)).json) };
  }

  #query(request: Request, nowMs: number, complete: (reply: Reply, cold: boolean) => void): Answer {
    const query = queryOf(request);
    const reply = new Reply();
    reply.reset(1);
    answerQuery({ state: this.state, watchers: this.#watchers, query, nowMs }, reply);
    let short = false;
    const cold = reply.has(REPLY_COLD);
    if (cold) {
      const plan = decodeColdPlan(reply.body as Uint8Array);
      const chunks = this.fetch(plan).slice(0, plan.needed);
      assert.equal(assembleRead(plan, chunks, reply, this.#collector), undefined, 'every chunk is good');
      short = plan.needed >= COLD_REFS_MAX;
    }
    complete(reply, cold);
    this.#catcher.send(reply);
    const answer = this.#catcher.answers.pop();
    assert(answer !== undefined && this.#catcher.answers.length === 0, 'one query, one answer');
    return { ...answer, short };
  }

  list(bucket: string, prefix: string, after: string, limit: number, nowMs: number): unknown[] {
    const part = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));
    return listStreams(this.state, part(bucket), part(prefix), part(after), limit, nowMs);
  }

  usage(): string[] {
    const lines: string[] = [];
    this.state.buckets.each(this.tx, new Uint8Array(0), (b) => {
      if (!isMetered(b)) return true;
      lines.push(
        `${b.text} ${b.exists} ${b.appendBytes} ${b.records} ${b.writeUnits} ${b.retainedBytes} ${b.streamCount} ${b.streamsMax} ${b.retainedBytesMax}`,
      );
      return true;
    });
    return lines.sort();
  }

  expiryDue(nowMs: number): boolean {
    return nowMs >= nextExpiryMs(this.state);
  }

  head(bucket: string, stream: string): Head {
    const key = new Uint8Array(Buffer.from(`${bucket}\0${stream}`));
    const head = this.state.find(key, 0, key.length);
    assert(head !== undefined, 'the stream is there');
    return head;
  }

  /** The event for a live reader that has everything before `from`; undefined: too much for one event. */
  tail(bucket: string, stream: string, from: number, budget: number): Buffer | undefined {
    const plan = planTail(this.state, this.head(bucket, stream), from, budget, new Reply());
    return plan === undefined ? undefined : filled(plan);
  }

  #apply(index: number, data: Uint8Array): Outcome[] {
    const outcomes: Outcome[] = [];
    const reply = new Reply();
    this.state.enter(index, 1);
    eachCommand(data, this.#command, () => {
      reply.reset(1);
      apply(this.state, this.#command, reply);
      const outcome = outcomeOf(reply);
      if (reply.body !== undefined) outcome.body = Buffer.from(reply.body).toString();
      if (this.#command.kind === COMMANDS.purge.number)
        outcome.body = String(COMMANDS.purge.result.read(reply).streamsRemoved);
      outcomes.push(outcome);
    });
    return outcomes;
  }
}
