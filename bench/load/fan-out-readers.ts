// The readers of the fan-out scenario, all in one separate process: `fan-out-readers PROTOCOL PORT
// STREAM READERS EVENTS SKIP`, over SSE, or in a session each.
// Sends {ready} over IPC when every reader has its response head, and {result} when every reader has every event or the
// parent sends {giveUp}.

import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { summarize } from '../stats.ts';
import { nowUs } from './fan-out-event.ts';
import { streamPath } from '../targets/target.ts';
import type { EventOrder } from './fan-out-event.ts';
import { SessionReader, subscribeMessage } from './session-reader.ts';
import { SseReader } from './sse-reader.ts';

/** Sockets opened at once: a listen backlog of 128 must not drop any. */
const CONNECT_AT_ONCE = 64;

export interface ReadersResult {
  readonly delivered: number;
  readonly expected: number;
  readonly gaps: number;
  readonly repeats: number;
  readonly disconnected: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

export type ReadersMessage = { readonly ready: true } | { readonly result: ReadersResult } | { readonly error: string };

export type FanOutProtocol = 'sse' | 'session';

interface Reader {
  /** The first bytes on its connection. */
  readonly greeting: Buffer | string;
  readonly order: EventOrder;
  /** Empty: it was not refused. */
  readonly failure: string;
  /** The bytes are valid during the call. */
  feed(chunk: Buffer): void;
}

const [protocol, portText, stream, ...numbers] = process.argv.slice(2);
const port = Number(portText);
const [readerCount, eventCount, skipCount] = numbers.map(Number) as [number, number, number];
assert(
  stream !== undefined && eventCount > skipCount,
  'usage: fan-out-readers PROTOCOL PORT STREAM READERS EVENTS SKIP',
);

/** Latencies of the events after the first `skipCount`, which only warm everything up. */
const samplesMs = new Float64Array(readerCount * (eventCount - skipCount));
let sampleCount = 0;
let delivered = 0;
let openedCount = 0;
let disconnected = 0;
const readers: Reader[] = [];
/** All sockets read into the same memory: a new buffer for each read would cost more than the read. */
const INPUT = Buffer.alloc(64 * 1024);
const SUBSCRIBE = subscribeMessage(stream);
const GET = `GET ${streamPath(stream)}?offset=-1&live=sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n`;

function tell(message: ReadersMessage): void {
  process.send?.(message);
}

function report(): void {
  tell({
    result: {
      delivered,
      expected: readerCount * eventCount,
      gaps: readers.reduce((sum, reader) => sum + reader.order.gaps, 0),
      repeats: readers.reduce((sum, reader) => sum + reader.order.repeats, 0),
      disconnected,
      ...summarize(samplesMs.subarray(0, sampleCount)),
    },
  });
}

function onEvent(sequence: number, sentUs: number): void {
  delivered++;
  if (sequence >= skipCount && sampleCount < samplesMs.length) samplesMs[sampleCount++] = (nowUs() - sentUs) / 1000;
  if (delivered === readerCount * eventCount) report();
}

function openReader(): Promise<void> {
  return new Promise((resolve) => {
    const opened = (): void => {
      resolve();
      if (++openedCount === readerCount) tell({ ready: true });
    };
    const callback = (bytes: number): boolean => {
      reader.feed(INPUT.subarray(0, bytes));
      if (reader.failure !== '') tell({ error: `a reader was refused: ${reader.failure}` });
      return true;
    };
    const socket = connect({ port, host: '127.0.0.1', noDelay: true, onread: { buffer: INPUT, callback } });
    const reader =
      protocol === 'sse'
        ? new SseReader(GET, opened, onEvent)
        : new SessionReader({ subscribe: SUBSCRIBE, send: (bytes) => void socket.write(bytes), opened, onEvent });
    readers.push(reader);
    socket.write(reader.greeting);
    socket.on('error', (error) => tell({ error: `a reader failed: ${error.message}` }));
    socket.on('close', () => disconnected++);
  });
}

process.on('message', () => {
  report();
});
process.on('disconnect', () => process.exit(0));

for (let first = 0; first < readerCount; first += CONNECT_AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(CONNECT_AT_ONCE, readerCount - first) }, openReader));
}
