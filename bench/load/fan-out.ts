// One fan-out run: readers in a child process, the publisher here, so that receiving a thousand copies never delays
// the sending of the next event.

import { setTimeout as sleep } from 'node:timers/promises';
import { siblingModule } from '../paths.ts';
import { startChild } from '../processes.ts';
import type { LoadResult } from '../stats.ts';
import { encodeEvent, nowUs } from './fan-out-event.ts';
import type { FanOutProtocol, ReadersMessage, ReadersResult } from './fan-out-readers.ts';
import { HttpExchange } from './exchange.ts';
import { runLanes } from './streams.ts';
import { streamPath } from '../targets/target.ts';

/** For all readers to connect and get their response head. */
const READY_TIMEOUT_MS = 30_000;
/** After the last event: an event that has not arrived by then counts as lost for a live reader. */
const DRAIN_TIMEOUT_MS = 10_000;

export interface FanOutRun {
  readonly port: number;
  /** How the readers follow the stream. */
  readonly protocol: FanOutProtocol;
  readonly stream: string;
  readonly readers: number;
  readonly eventsPerSecond: number;
  readonly eventBytes: number;
  /** Events measured; before them come `warmUpEvents` that are checked for order but not timed. */
  readonly events: number;
  readonly warmUpEvents: number;
  readonly cpus: string | undefined;
}

export interface FanOutResult extends LoadResult {
  /** Empty when every reader got every event, once and in order. */
  readonly violations: string;
}

export async function runFanOut(run: FanOutRun): Promise<FanOutResult> {
  const total = run.events + run.warmUpEvents;
  await runLanes(run.port, [[{ method: 'PUT', path: streamPath(run.stream), contentType: 'text/plain' }]]);
  const script = siblingModule(import.meta.url, 'fan-out-readers');
  const args = [script, run.protocol, run.port, run.stream, run.readers, total, run.warmUpEvents].map(String);
  const child = startChild(process.execPath, args, run.cpus, true);
  try {
    const inbox = receive(child.process, child.exited);
    await within(
      inbox.ready,
      READY_TIMEOUT_MS,
      () => new Error(`not all ${run.readers} readers are connected; does the limit of open files allow them?`),
    );
    const seconds = await publish(run, total);
    const drained = await Promise.race([inbox.result, sleep(DRAIN_TIMEOUT_MS, undefined, { ref: false })]);
    if (drained === undefined) child.process.send('report what you have');
    const result = drained ?? (await within(inbox.result, READY_TIMEOUT_MS, () => new Error('the readers hang')));
    return toLoadResult(result, seconds);
  } finally {
    await child.stop();
  }
}

/** Fixed rate; an answer later than the next slot delays it (a stream has one writer), which shows in the rate. */
async function publish(run: FanOutRun, total: number): Promise<number> {
  // Not before the readers are there: servers close a connection on which nothing comes meanwhile.
  const publisher = await HttpExchange.open(run.port);
  const intervalMs = 1000 / run.eventsPerSecond;
  const startMs = performance.now();
  for (let sequence = 0; sequence < total; sequence++) {
    const waitMs = startMs + sequence * intervalMs - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const answer = await publisher.request(
      'POST',
      streamPath(run.stream),
      'text/plain',
      encodeEvent(sequence, nowUs(), run.eventBytes),
    );
    if (answer.status !== 204 && answer.status !== 200) throw new Error(`append answered ${answer.status}`);
  }
  publisher.close();
  return (performance.now() - startMs) / 1000;
}

function receive(
  child: NodeJS.EventEmitter,
  exited: Promise<number>,
): { ready: Promise<true>; result: Promise<ReadersResult> } {
  let fail: (error: Error) => void = () => {};
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  void exited.then((code) => fail(new Error(`the readers' process ended with code ${code}`)));
  let onReady: (value: true) => void = () => {};
  let onResult: (value: ReadersResult) => void = () => {};
  const ready = new Promise<true>((resolve) => (onReady = resolve));
  const result = new Promise<ReadersResult>((resolve) => (onResult = resolve));
  child.on('message', (message: ReadersMessage) => {
    if ('ready' in message) onReady(true);
    else if ('result' in message) onResult(message.result);
    else fail(new Error(message.error));
  });
  const either = { ready: Promise.race([ready, failed]), result: Promise.race([result, failed]) };
  // A failure before the run waits for it is that of the run, and not of the process.
  for (const promise of [either.ready, either.result]) promise.catch(() => {});
  return either;
}

async function within<T>(promise: Promise<T>, timeoutMs: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => (timer = setTimeout(() => reject(late()), timeoutMs)));
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function toLoadResult(result: ReadersResult, seconds: number): FanOutResult {
  const missing = result.expected - result.delivered;
  const violations = [
    missing === 0 ? '' : `${missing} of ${result.expected} deliveries missing`,
    result.gaps === 0 ? '' : `${result.gaps} events skipped`,
    result.repeats === 0 ? '' : `${result.repeats} events repeated or late`,
    result.disconnected === 0 ? '' : `${result.disconnected} readers disconnected`,
  ].filter((text) => text !== '');
  return {
    ratePerSecond: result.delivered / seconds,
    bytesPerSecond: Number.NaN,
    p50Ms: result.p50Ms,
    p99Ms: result.p99Ms,
    p999Ms: result.p999Ms,
    maxMs: result.maxMs,
    requests: result.expected,
    failed: Math.max(0, missing),
    failures: violations.join(', '),
    violations: violations.join(', '),
  };
}
