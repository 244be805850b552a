// Writers of a cluster under faults, which go on with another node when theirs is gone. They work until `stop` is called.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { didNothing } from '../support/patient.ts';
import { createRandom, type Random } from '../support/random.ts';
import { RawClient, type HeaderList, type RawResponse } from '../support/raw-client.ts';
import type { TestCluster } from '../support/cluster.ts';
import { type SentAppend, type StreamHistory, bodyOf, newAppend, typeOf } from './history.ts';

/** A stopped node answers nothing; a client gives up after this long. Above the 5 s that a write may wait. */
const REQUEST_TIMEOUT_MS = 7000;
/** And this much longer for a large body. */
const BYTES_PER_MS = 1000;
/** Pause before the next attempt when no node takes a connection. */
export const RETRY_MS = 20;
/**
 * A writer pauses for up to this long after an append: some five times as long as an append takes, so that a fault
 * meets one or two that are under way, and not as many as the machine can take.
 */
export const PAUSE_MS_MAX = 50;

/** The longest time in which a group acknowledged nothing, since the window was opened. */
export interface SilenceWindow {
  readonly sinceMs: number;
  longestMs: number;
}

/**
 * How long each group of a bucket's streams acknowledged nothing, as its clients saw it: what they waited for silent
 * nodes is part of it.
 */
export class Silences {
  readonly #bucket: string;
  readonly #lastMs: number[];
  readonly #windows = new Set<SilenceWindow>();

  constructor(bucket: string, groups: number) {
    this.#bucket = bucket;
    this.#lastMs = Array.from({ length: groups }, () => performance.now());
  }

  acknowledged(stream: StreamHistory): void {
    const group = fnv1a64mod(this.#bucket, stream.name, this.#lastMs.length);
    this.#note(group);
    this.#lastMs[group] = performance.now();
  }

  open(): SilenceWindow {
    const window: SilenceWindow = { sinceMs: performance.now(), longestMs: 0 };
    this.#windows.add(window);
    return window;
  }

  /** The window's result in ms. */
  close(window: SilenceWindow): number {
    for (const group of this.#lastMs.keys()) this.#note(group);
    this.#windows.delete(window);
    return window.longestMs;
  }

  /** Every group has acknowledged a write since then. */
  isOverSince(ms: number): boolean {
    return this.#lastMs.every((lastMs) => lastMs > ms);
  }

  #note(group: number): void {
    const lastMs = this.#lastMs[group] as number;
    for (const window of this.#windows) {
      window.longestMs = Math.max(window.longestMs, performance.now() - Math.max(lastMs, window.sinceMs));
    }
  }
}

export interface Load {
  /** Aborted: clients end. */
  readonly over: AbortSignal;
  stop(): void;
  readonly cluster: TestCluster;
  /** The node that may refuse with 507, because its disk is full. */
  fullNode: number | undefined;
  readonly silences: Silences;
  /** Statuses of all answers. */
  readonly statuses: Map<number, number>;
}

export function newLoad(cluster: TestCluster, bucket: string, fullNode?: number): Load {
  const silences = new Silences(bucket, cluster.groupIds.length);
  const over = new AbortController();
  return { over: over.signal, stop: () => over.abort(), cluster, fullNode, statuses: new Map(), silences };
}

export class LostConnection extends Error {}

/** One connection to some node; the next request opens another one after a loss. */
export class RovingClient {
  readonly #load: Load;
  readonly #random: Random;
  readonly #nodes: readonly number[];
  #client: RawClient | undefined;
  #node = 0;

  /** `nodes`: only these; all when left out. */
  constructor(load: Load, seed: number, nodes: readonly number[] = load.cluster.ids) {
    this.#load = load;
    this.#random = createRandom(seed);
    this.#nodes = nodes;
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
    const timer = setTimeout(() => client.destroy(), REQUEST_TIMEOUT_MS + body.length / BYTES_PER_MS);
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
    this.#node = this.#random.pick(this.#nodes);
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
  while (!load.over.aborted) {
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

export async function appendOnce(client: RovingClient, stream: StreamHistory, append: SentAppend): Promise<void> {
  let answer: RawResponse | undefined;
  try {
    answer = await client.request('POST', stream.path, typeOf(stream), bodyOf(stream, append));
  } catch (error) {
    if (!(error instanceof LostConnection)) throw error;
    append.outcome = 'refused';
    return;
  }
  if (answer === undefined) return;
  if (answer.status >= 500) {
    if (didNothing(answer)) append.outcome = 'refused';
    return;
  }
  assert.equal(answer.status, 204, `POST ${stream.path}: ${answer.status} ${answer.body.toString('utf8')}`);
  acknowledge(append, answer);
}

/** Repeats until it is told that the append took effect. */
export async function produce(
  load: Load,
  client: RovingClient,
  stream: StreamHistory,
  append: SentAppend,
): Promise<void> {
  const headers = {
    ...typeOf(stream),
    'Producer-Id': `p${append.writer}`,
    'Producer-Epoch': 0,
    'Producer-Seq': append.number,
  };
  const body = bodyOf(stream, append);
  for (;;) {
    let answer: RawResponse | undefined;
    try {
      answer = await client.request('POST', stream.path, headers, body);
    } catch (error) {
      if (!(error instanceof LostConnection)) throw error;
    }
    if (answer !== undefined && answer.status < 500) {
      const text = `POST ${stream.path} seq ${append.number}: ${answer.status} ${answer.body.toString('utf8')}`;
      assert(answer.status === 200 || answer.status === 204, text);
      return acknowledge(append, answer);
    }
    if (load.over.aborted) return undefined;
    await pause(RETRY_MS);
  }
}

function acknowledge(append: SentAppend, answer: RawResponse): void {
  append.outcome = 'acknowledged';
  append.end = Number(answer.headers.get('stream-next-offset'));
}
