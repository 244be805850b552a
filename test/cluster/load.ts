// Clients of a cluster under faults: writers that go on with another node when theirs is gone, and live readers that do
// the same. All of them work until `stop` is set.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { createRandom, type Random } from '../support/random.ts';
import { RawClient, type HeaderList, type RawResponse } from '../support/raw-client.ts';
import type { TestCluster } from '../support/cluster.ts';
import { newAppend, type SentAppend, type StreamHistory } from './history.ts';

/** A stopped node answers nothing; a client gives up after this long. Above the 5 s that a write may wait. */
const REQUEST_TIMEOUT_MS = 7000;
/** Pause before the next attempt when no node takes a connection. */
const RETRY_MS = 20;
/**
 * A writer pauses for up to this long after an append: about as long as an append takes, so that a fault meets some
 * that are under way, and not as many as the machine can take.
 */
const PAUSE_MS_MAX = 10;
const TEXT = { 'Content-Type': 'text/plain' } as const;

/** Only that says that nothing was done. */
export const NOTHING_DONE =
  /no leader is known|mailbox is full|IngressBodyBytesLimitReached|nothing was written|may hold; retry|for a majority of the nodes/;

/**
 * How long each group of a bucket's streams acknowledged nothing, as its clients saw it: what they waited for silent
 * nodes is part of it.
 */
class Silences {
  readonly #bucket: string;
  readonly #lastMs: number[];
  #longestMs = 0;

  constructor(bucket: string, groups: number) {
    this.#bucket = bucket;
    this.#lastMs = Array.from({ length: groups }, () => performance.now());
  }

  acknowledged(stream: StreamHistory): void {
    this.#note(fnv1a64mod(this.#bucket, stream.name, this.#lastMs.length));
  }

  longestMs(): number {
    for (const group of this.#lastMs.keys()) this.#note(group);
    return this.#longestMs;
  }

  #note(group: number): void {
    const nowMs = performance.now();
    this.#longestMs = Math.max(this.#longestMs, nowMs - (this.#lastMs[group] as number));
    this.#lastMs[group] = nowMs;
  }
}

export interface Load {
  stop: boolean;
  readonly cluster: TestCluster;
  /** The node that may refuse with 507, because its disk is full. */
  readonly fullNode: number | undefined;
  readonly silences: Silences;
  /** Statuses of all answers. */
  readonly statuses: Map<number, number>;
}

export function newLoad(cluster: TestCluster, bucket: string, fullNode?: number): Load {
  const silences = new Silences(bucket, cluster.groupIds.length);
  return { stop: false, cluster, fullNode, statuses: new Map(), silences };
}

export class LostConnection extends Error {}

/** One connection to some node; the next request opens another one after a loss. */
export class RovingClient {
  readonly #load: Load;
  readonly #random: Random;
  #client: RawClient | undefined;
  #node = 0;

  constructor(load: Load, seed: number) {
    this.#load = load;
    this.#random = createRandom(seed);
  }

  get node(): number {
    return this.#node;
  }

  /**
   * The answer; undefined when it never came: the outcome is unknown. Any 5xx but a refusal with Retry-After is a
   * failure.
   */
  async request(
    method: string,
    path: string,
    headers: HeaderList = {},
    body: string | Buffer = '',
  ): Promise<RawResponse | undefined> {
    const client = await this.#connected();
    if (client === undefined) throw new LostConnection('no node takes a connection');
    const timer = setTimeout(() => client.destroy(), REQUEST_TIMEOUT_MS);
    let response: RawResponse;
    try {
      response = await client.request(method, path, headers, body);
    } catch {
      this.leave();
      return undefined;
    } finally {
      clearTimeout(timer);
    }
    const { status } = response;
    this.#load.statuses.set(status, (this.#load.statuses.get(status) ?? 0) + 1);
    const text = `${method} ${path} on node ${this.#node}: ${status} ${response.body.toString('utf8').slice(0, 200)}`;
    assert(status < 500 || status === 503 || (status === 507 && this.#node === this.#load.fullNode), text);
    if (status >= 500) {
      assert(response.headers.has('retry-after'), `${text}: no Retry-After`);
      this.leave();
    }
    return response;
  }

  /** Continues with another node. */
  leave(): void {
    this.#client?.destroy();
    this.#client = undefined;
  }

  async #connected(): Promise<RawClient | undefined> {
    if (this.#client?.isOpen === true) return this.#client;
    // Also nodes that are stopped or dead: a client cannot know.
    this.#node = this.#random.pick(this.#load.cluster.ids);
    try {
      this.#client = await RawClient.connect(this.#load.cluster.node(this.#node).port);
      return this.#client;
    } catch {
      await pause(RETRY_MS);
      return undefined;
    }
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Appends to its streams in turn, as a producer or plainly, and notes what it is told. */
export async function write(
  load: Load,
  id: number,
  streams: readonly StreamHistory[],
  asProducer: boolean,
  seed: number,
): Promise<void> {
  const client = new RovingClient(load, seed);
  const random = createRandom(seed + 1);
  const numbers = new Map<string, number>();
  while (!load.stop) {
    const stream = random.pick(streams);
    const number = numbers.get(stream.name) ?? 0;
    numbers.set(stream.name, number + 1);
    const padBytes = random.chance(0.05) ? random.int(3000, 20_000) : random.int(0, 200);
    const append = newAppend(stream, id, number, padBytes);
    if (asProducer) await produce(load, client, stream, append);
    else await appendOnce(client, stream, append);
    if (append.outcome === 'acknowledged') load.silences.acknowledged(stream);
    await pause(random.int(0, PAUSE_MS_MAX));
  }
  client.leave();
}

async function appendOnce(client: RovingClient, stream: StreamHistory, append: SentAppend): Promise<void> {
  let answer: RawResponse | undefined;
  try {
    answer = await client.request('POST', stream.path, TEXT, append.text);
  } catch (error) {
    if (!(error instanceof LostConnection)) throw error;
    append.outcome = 'refused';
    return;
  }
  if (answer === undefined) return;
  if (answer.status >= 500) {
    if (NOTHING_DONE.test(answer.body.toString('utf8'))) append.outcome = 'refused';
    return;
  }
  assert.equal(answer.status, 204, `POST ${stream.path}: ${answer.status} ${answer.body.toString('utf8')}`);
  acknowledge(append, answer);
}

/** Repeats until it is told that the append took effect. */
async function produce(load: Load, client: RovingClient, stream: StreamHistory, append: SentAppend): Promise<void> {
  const headers = {
    ...TEXT,
    'Producer-Id': `p${append.writer}`,
    'Producer-Epoch': 0,
    'Producer-Seq': append.number,
  };
  for (;;) {
    let answer: RawResponse | undefined;
    try {
      answer = await client.request('POST', stream.path, headers, append.text);
    } catch (error) {
      if (!(error instanceof LostConnection)) throw error;
    }
    if (answer !== undefined && answer.status < 500) {
      const text = `POST ${stream.path} seq ${append.number}: ${answer.status} ${answer.body.toString('utf8')}`;
      assert(answer.status === 200 || answer.status === 204, text);
      return acknowledge(append, answer);
    }
    if (load.stop) return undefined;
  }
}

function acknowledge(append: SentAppend, answer: RawResponse): void {
  append.outcome = 'acknowledged';
  append.end = Number(answer.headers.get('stream-next-offset'));
}

/** Follows a stream by long-polls on changing nodes; what it was shown. A stretch that is shown must never change. */
export async function follow(load: Load, stream: StreamHistory, seed: number): Promise<string> {
  const client = new RovingClient(load, seed);
  const random = createRandom(seed + 1);
  const parts: string[] = [];
  let offset = 0;
  while (!load.stop) {
    if (random.chance(0.02)) client.leave();
    let answer: RawResponse | undefined;
    try {
      answer = await client.request('GET', `${stream.path}?offset=${offset}&live=long-poll&timeout_ms=500`);
    } catch (error) {
      if (!(error instanceof LostConnection)) throw error;
    }
    if (answer === undefined) continue;
    if (answer.status === 503) {
      await pause(RETRY_MS);
      continue;
    }
    // Another node may be behind the one that answered before; it never says that there is nothing.
    assert(answer.status === 200 || answer.status === 204, `GET ${stream.path}: ${answer.status}`);
    if (answer.status === 204) continue;
    parts.push(answer.body.toString('utf8'));
    offset += answer.body.length;
    assert.equal(Number(answer.headers.get('stream-next-offset')), offset, `${stream.path}: the next offset`);
  }
  client.leave();
  return parts.join('');
}

/** Follows by event streams; comes back where it was, on any node. */
export async function followEvents(load: Load, stream: StreamHistory, seed: number): Promise<string> {
  const random = createRandom(seed);
  let shown = '';
  let offset = '-1';
  while (!load.stop) {
    const abort = new AbortController();
    // A stopped node would block the reader forever: event streams send a comment only every 15 s.
    const timer = setTimeout(() => abort.abort(), random.int(1000, 6000));
    try {
      const base = load.cluster.node(random.pick(load.cluster.ids)).url;
      const response = await fetch(`${base}${stream.path}?offset=${offset}&live=sse`, { signal: abort.signal });
      if (response.status !== 200 || response.body === null) {
        assert.equal(response.status, 503, `event stream of ${stream.path}: ${response.status}`);
        await response.body?.cancel();
        await pause(RETRY_MS);
        continue;
      }
      let text = '';
      let pending = '';
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        const events = (text + chunk).split('\n\n');
        text = events.pop() as string;
        for (const event of events) {
          const lines = event.split('\n');
          const data = lines
            .filter((line) => line.startsWith('data:'))
            .map((line) => line.replace(/^data: ?/, ''))
            .join('\n');
          if (lines.includes('event: data')) pending += data;
          if (!lines.includes('event: control')) continue;
          offset = (JSON.parse(data) as { streamNextOffset: string }).streamNextOffset;
          shown += pending;
          pending = '';
          assert.equal(shown.length, Number(offset), `${stream.path}: what was shown reaches the offset that was told`);
        }
        if (load.stop) break;
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      await pause(RETRY_MS);
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }
  return shown;
}
