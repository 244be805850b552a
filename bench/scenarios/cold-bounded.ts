// The memory of a node while 20 MB/s of appends pass through it into an S3 server on the same machine: hot bytes, LMDB
// and memory, second by second. One minute; ten with --seconds 600.

import { setTimeout as sleep } from 'node:timers/promises';
import { Ceph, cephMissing } from '../../test/support/ceph.ts';
import { HttpExchange } from '../load/exchange.ts';
import { createStreams } from '../load/streams.ts';
import { check, type ScenarioReport } from '../report.ts';
import { summarize } from '../stats.ts';
import { type ColdNode, startColdNode } from '../targets/cold-node.ts';
import { streamPath } from '../targets/target.ts';
import type { Context, Scenario } from './scenario.ts';

const NAME = 'cold-bounded';
const BUCKET = 'bench';
const BYTES_PER_SECOND = 20_000_000;
const LANES = 32;
/** Appends per second of each connection. */
const LANE_RATE = 10;
const BODY_BYTES = BYTES_PER_SECOND / LANES / LANE_RATE;
const DURATION_MS_MIN = 60_000;
/** Ceph keeps that much in memory; more goes to a file. */
const MEMORY_BYTES_MAX = 3e9;
const SAMPLE_MS = 1000;
/** Width of the printed curve. */
const COLUMNS = 12;
/** The default of storage.cold.max_hot_size_per_group, times the default number of groups. */
const HOT_BYTES_MAX = 16 * 64 * 1024 * 1024;
/** A load that was not brought proves nothing. */
const RATE_SHARE_MIN = 0.95;
const CONTENT_TYPE = 'application/octet-stream';
const MB = 1e6;

interface Tally {
  readonly samples: number[];
  refused: number;
}

interface Sample {
  readonly seconds: number;
  readonly hotBytes: number;
  readonly databaseBytes: number;
  readonly anonymousMiB: number;
}

/** Appends at its pace; when an answer is late, the next appends follow at once until the pace is reached again. */
async function lane(node: ColdNode, path: string, endMs: number, tally: Tally): Promise<void> {
  const exchange = await HttpExchange.open(node.port);
  const body = Buffer.alloc(BODY_BYTES, path);
  const everyMs = 1000 / LANE_RATE;
  for (let dueMs = performance.now() + Math.random() * everyMs; dueMs < endMs; dueMs += everyMs) {
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const sentMs = performance.now();
    const { status } = await exchange.request('POST', path, CONTENT_TYPE, body);
    if (status < 300) tally.samples.push(performance.now() - sentMs);
    else if (status === 503) tally.refused++;
    else throw new Error(`POST ${path} answered ${status}`);
    if (performance.now() > endMs) break;
  }
  exchange.close();
}

async function watch(node: ColdNode, sinceMs: number, endMs: number, context: Context): Promise<Sample[]> {
  const samples: Sample[] = [];
  while (performance.now() < endMs) {
    await sleep(Math.min(SAMPLE_MS, endMs - performance.now()));
    const hotBytes = (await node.metrics())['cold_hot_bytes'] ?? 0;
    const seconds = (performance.now() - sinceMs) / 1000;
    samples.push({ seconds, hotBytes, databaseBytes: node.databaseBytes(), anonymousMiB: node.memory().anonymousMiB });
    context.say(`${NAME}: ${seconds.toFixed(0)} s, ${(hotBytes / MB).toFixed(1)} MB hot`);
  }
  return samples;
}

function curve(samples: readonly Sample[]): string[] {
  const step = Math.max(1, samples.length / COLUMNS);
  const some = samples.filter((_, i) => Math.floor((i + 1) / step) !== Math.floor(i / step));
  const line = (name: string, value: (sample: Sample) => number): string =>
    `${name.padEnd(16)}${some.map((sample) => value(sample).toFixed(0).padStart(6)).join('')}`;
  return [
    line('second', ({ seconds }) => seconds),
    line('hot, MB', ({ hotBytes }) => hotBytes / MB),
    line('LMDB, MB', ({ databaseBytes }) => databaseBytes / MB),
    line('memory, MiB', ({ anonymousMiB }) => anonymousMiB),
  ];
}

async function measure(context: Context, node: ColdNode, durationMs: number): Promise<ScenarioReport> {
  const paths = Array.from({ length: LANES }, (_, i) => streamPath(`bounded-${i}`));
  await createStreams(node.port, paths);
  const tally: Tally = { samples: [], refused: 0 };
  const sinceMs = performance.now();
  const endMs = sinceMs + durationMs;
  const [samples] = await Promise.all([
    watch(node, sinceMs, endMs, context),
    ...paths.map((path) => lane(node, path, endMs, tally)),
  ]);
  const seconds = (performance.now() - sinceMs) / 1000;
  await node.allCold();
  const drainedS = (performance.now() - sinceMs) / 1000 - seconds;
  const bytesPerSecond = (tally.samples.length * BODY_BYTES) / seconds;
  const count = tally.samples.length;
  const hotMax = Math.max(...samples.map(({ hotBytes }) => hotBytes));
  const half = samples.slice(samples.length >> 1);
  const [first = 0, last = 0] = [half[0]?.databaseBytes, half.at(-1)?.databaseBytes];
  return {
    scenario: NAME,
    title: `${BYTES_PER_SECOND / MB} MB/s of appends of ${BODY_BYTES} B to ${LANES} streams into S3 (Ceph), ${durationMs / 1000} s`,
    rateUnit: 'MB/s',
    rows: [
      {
        target: 'millrace',
        ratePerSecond: count / seconds,
        bytesPerSecond,
        ...summarize(Float64Array.from(tally.samples)),
        requests: count + tally.refused,
        failed: tally.refused,
        failures: tally.refused === 0 ? '' : `${tally.refused} times back-pressure`,
      },
    ],
    checks: [
      check('rate / 20 MB/s', bytesPerSecond / BYTES_PER_SECOND, 'x', { atLeast: RATE_SHARE_MIN }),
      check('most hot bytes / configured bound', hotMax / HOT_BYTES_MAX, '', { atMost: 1 }),
    ],
    notes: [
      ...curve(samples),
      `LMDB grew by ${((last - first) / MB).toFixed(0)} MB in the second half, in which ` +
        `${((bytesPerSecond * seconds) / 2 / MB).toFixed(0)} MB passed; at the end everything was cold after ${drainedS.toFixed(1)} s`,
    ],
  };
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = cephMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const durationMs = context.smoke ? context.durationMs : Math.max(DURATION_MS_MIN, context.durationMs);
  const total = (BYTES_PER_SECOND * durationMs) / 1000;
  const gib = 4 + Math.ceil((1.5 * total) / 2 ** 30);
  const ceph = await Ceph.start({ bucket: BUCKET, ...(total > MEMORY_BYTES_MAX ? { store: 'bluestore', gib } : {}) });
  let node: ColdNode | undefined;
  try {
    node = await startColdNode(context.start, ceph.coldToml(BUCKET));
    return [await measure(context, node, durationMs)];
  } finally {
    await node?.stop();
    await ceph.stop();
  }
}

export const coldBounded: Scenario = { name: NAME, summary: '20 MB/s into an S3 server: what stays on the node', run };
