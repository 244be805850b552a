/**
 * Live readers: at most one topic per stream and life of a node, as the main thread keeps it. Events must follow each
 * other without a gap, carry what reads show, and have come to the tail when the cluster is at rest.
 */
import { REPLY_BODY_OMITTED, REPLY_CLOSED, REPLY_DELETED, type Reply } from '../../src/protocol/reply.ts';
import type { SimStream } from './clients.ts';
import type { SimProcess } from './process.ts';
import { unwatchRequest, watchRequest } from './requests.ts';
import type { World } from './world.ts';

interface Topic {
  readonly id: number;
  readonly stream: SimStream;
  readonly process: SimProcess;
  /** Where the reader is: bytes, or records; -1 before the answer of the read. */
  at: number;
  over: boolean;
}

export class Watching {
  readonly counts = { topics: 0, events: 0 };
  readonly #world: World;
  readonly #topics = new Map<SimProcess, Map<number, Topic>>();
  #ids = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Starts watching through a node, or ends it when the node watches the stream already. */
  toggle(stream: SimStream, process: SimProcess): void {
    let topics = this.#topics.get(process);
    if (topics === undefined) {
      topics = new Map();
      this.#topics.set(process, topics);
      const others = process.onTail;
      process.onTail = (reply) => {
        others?.(reply);
        this.#onTail(process, reply);
      };
    }
    for (const topic of topics.values()) {
      if (topic.stream !== stream) continue;
      if (!topic.over && topic.at >= 0) {
        topic.over = true;
        process.request(unwatchRequest(stream, topic.id), false, () => undefined);
      }
      if (!topic.over) return;
      topics.delete(topic.id);
      return;
    }
    this.#watch(stream, process, topics);
  }

  #watch(stream: SimStream, process: SimProcess, topics: Map<number, Topic>): void {
    const topic: Topic = { id: ++this.#ids, stream, process, at: -1, over: false };
    topics.set(topic.id, topic);
    this.counts.topics++;
    const floor = stream.history.floorOf(process.id);
    process.requestInOrder(watchRequest(stream, topic.id), (reply) => {
      if (reply.code !== 0 || reply.has(REPLY_CLOSED)) {
        topic.over = true;
        return;
      }
      topic.at = stream.json ? reply.recordNext : reply.nextOffset;
      if (stream.use === 'plain') stream.history.tailSeen(topic.at, process.id, floor);
    });
  }

  #onTail(process: SimProcess, reply: Reply): void {
    const topic = this.#topics.get(process)?.get(reply.id);
    if (topic === undefined || topic.over) return;
    this.counts.events++;
    const { stream } = topic;
    const fail = (what: string): never => {
      throw this.#world.failure(`live reader: ${what} in ${stream.name} on n${process.id}`);
    };
    if (reply.has(REPLY_DELETED)) {
      topic.over = true;
      if (stream.use === 'plain') fail('is told of a removal');
      return;
    }
    // A reader reads again and is refused: this one waits instead.
    if (reply.code !== 0) return;
    const start = stream.json ? reply.recordStart : reply.startOffset;
    const next = stream.json ? reply.recordNext : reply.nextOffset;
    if (topic.at < 0) fail('an event comes before the answer');
    if (next < topic.at) fail(`goes back from ${topic.at} to ${next}`);
    if (!reply.has(REPLY_BODY_OMITTED)) {
      if (start !== topic.at) fail(`gap from ${topic.at} to ${start}`);
      if (stream.use === 'plain') this.#read(stream, start, reply.body ?? new Uint8Array(0), next);
    }
    topic.at = next;
    if (reply.has(REPLY_CLOSED)) topic.over = true;
  }

  #read({ json, history }: SimStream, start: number, body: Uint8Array, next: number): void {
    if (json) history.readRecords(start, body, next);
    else history.readText(start, body, next);
  }

  /** Later events are ignored. */
  stop(): void {
    this.#topics.clear();
  }

  /** At the end: no reader waits for an event that never came. */
  finish(): void {
    for (const [process, topics] of this.#topics) {
      if (process.dead) continue;
      for (const { stream, at, over } of topics.values()) {
        if (over || stream.use !== 'plain') continue;
        const { tail } = stream.history;
        if (at !== tail)
          throw this.#world.failure(`live reader of ${stream.name} on n${process.id} is at ${at} of ${tail}`);
      }
    }
  }
}
