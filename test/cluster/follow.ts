// Live readers of a cluster under faults, which go on with another node when theirs is gone. They work until `stop` is
// called or the stream is closed.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { createRandom } from '../support/random.ts';
import type { RawResponse } from '../support/raw-client.ts';
import { Shown, type StreamHistory } from './history.ts';
import { type Load, LostConnection, RETRY_MS, RovingClient, pause } from './load.ts';

/** The stored form of an answer's bytes: records are stored as lines. */
export function stored({ isJson }: Pick<StreamHistory, 'isJson'>, shown: Buffer): Buffer {
  if (!isJson || shown.length === 0) return shown;
  const records = JSON.parse(shown.toString('utf8')) as unknown[];
  return Buffer.from(records.map((record) => `${JSON.stringify(record)}\n`).join(''));
}

/** Follows a stream by long-polls on changing nodes. */
export async function follow(load: Load, stream: StreamHistory, seed: number): Promise<Shown> {
  const client = new RovingClient(load, seed);
  const random = createRandom(seed + 1);
  const shown = new Shown('long-polls');
  while (!load.over.aborted) {
    if (random.chance(0.02)) client.leave();
    let answer: RawResponse | undefined;
    try {
      answer = await client.request('GET', `${stream.path}?offset=${shown.offset}&live=long-poll&timeout_ms=500`);
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
    if (answer.status === 200) {
      shown.take(stored(stream, answer.body));
      assert.equal(Number(answer.headers.get('stream-next-offset')), shown.offset, `${stream.path}: the next offset`);
    }
    if (answer.headers.get('stream-closed') === 'true') break;
  }
  client.leave();
  return shown;
}

interface Control {
  readonly streamNextOffset: string;
  readonly streamClosed?: boolean;
}

/** Follows by event streams; comes back where it was, on any node. */
export async function followEvents(load: Load, stream: StreamHistory, seed: number): Promise<Shown> {
  const random = createRandom(seed);
  const shown = new Shown('events');
  let isClosed = false;
  // A large event may take longer than the reader waits at first.
  let futile = 0;
  while (!load.over.aborted && !isClosed) {
    const abort = new AbortController();
    // A stopped node would block the reader forever: event streams send a comment only every 15 s.
    const timer = setTimeout(() => abort.abort(), random.int(1000, 6000) * ++futile);
    const before = shown.offset;
    try {
      const base = load.cluster.node(random.pick(load.cluster.ids)).url;
      const from = shown.offset === 0 ? '-1' : String(shown.offset).padStart(20, '0');
      const response = await fetch(`${base}${stream.path}?offset=${from}&live=sse`, {
        signal: AbortSignal.any([abort.signal, load.over]),
      });
      if (response.status !== 200 || response.body === null) {
        assert.equal(response.status, 503, `event stream of ${stream.path}: ${response.status}`);
        await response.body?.cancel();
        await pause(RETRY_MS);
        continue;
      }
      isClosed = await takeEvents(load, stream, response.body, shown);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      await pause(RETRY_MS);
    } finally {
      clearTimeout(timer);
      abort.abort();
      if (shown.offset > before) futile = 0;
    }
  }
  return shown;
}

/** True when it was told that the stream is closed. */
async function takeEvents(
  load: Load,
  stream: StreamHistory,
  body: ReadableStream<Uint8Array>,
  shown: Shown,
): Promise<boolean> {
  let text: string[] = [];
  let pending: Buffer[] = [];
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text.push(chunk);
    if (!chunk.includes('\n')) continue;
    const events = text.join('').split('\n\n');
    text = [events.pop() as string];
    for (const event of events) {
      const lines = event.split('\n');
      const data = lines
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.replace(/^data: ?/, ''))
        .join('\n');
      if (lines.includes('event: data')) pending.push(stored(stream, Buffer.from(data)));
      if (!lines.includes('event: control')) continue;
      const { streamNextOffset, streamClosed } = JSON.parse(data) as Control;
      if (pending.length > 0) shown.take(Buffer.concat(pending));
      pending = [];
      const label = `${stream.path}: what was shown reaches the offset that was told`;
      assert.equal(shown.offset, Number(streamNextOffset), label);
      if (streamClosed === true) return true;
    }
    if (load.over.aborted) return false;
  }
  return false;
}
