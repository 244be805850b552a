// The readers of the fan-out scenario, all in one separate process: `fan-out-readers PORT PATH READERS EVENTS SKIP`.
// Sends {ready} over IPC when every reader has its response head, and {result} when every reader has every event or the
// parent sends {giveUp}.

import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { summarize } from '../stats.ts';
import { nowUs } from './fan-out-event.ts';
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

const [portText, path, ...numbers] = process.argv.slice(2);
const port = Number(portText);
const [readerCount, eventCount, skipCount] = numbers.map(Number) as [number, number, number];
assert(path !== undefined && eventCount > skipCount, 'usage: fan-out-readers PORT PATH READERS EVENTS SKIP');

/** Latencies of the events after the first `skipCount`, which only warm everything up. */
const samplesMs = new Float64Array(readerCount * (eventCount - skipCount));
let sampleCount = 0;
let delivered = 0;
let opened = 0;
let disconnected = 0;
const readers: SseReader[] = [];

function tell(message: ReadersMessage): void {
  process.send?.(message);
}

function report(): void {
  tell({
    result: {
      delivered,
      expected: readerCount * eventCount,
      gaps: readers.reduce((sum, reader) => sum + reader.gaps, 0),
      repeats: readers.reduce((sum, reader) => sum + reader.repeats, 0),
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
    const reader = new SseReader(() => {
      resolve();
      if (++opened === readerCount) tell({ ready: true });
    }, onEvent);
    readers.push(reader);
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.write(`GET ${path}?offset=-1&live=sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n`);
    socket.on('data', (chunk: Buffer) => {
      reader.feed(chunk);
      if (reader.failure !== '') tell({ error: `a reader was refused: ${reader.failure}` });
    });
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
