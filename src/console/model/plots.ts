/** The plots of the traffic view, and how each value comes from two rounds of metrics. */
import { isObject, type Json } from '../../nodes/report.ts';
import { type Round, type Sample, memberOf, numberIn, numbersIn } from './samples.ts';

export type PlotUnit = 'per second' | 'bytes' | 'bytes per second' | 'milliseconds' | 'count';

/** A node's present answer and the one before it. */
interface Pair {
  readonly now: Json;
  readonly before: Json | undefined;
  readonly seconds: number;
}

export interface Plot {
  readonly id: string;
  readonly title: string;
  readonly unit: PlotUnit;
  /** Says in a sentence what it shows. */
  readonly about: string;
  /** One value per line; `''` is a line of its own for each node. What is undefined has a gap. */
  readonly lines: (pair: Pair) => readonly (readonly [label: string, value: number | undefined])[];
  /** Lines of the nodes are added up; else each node has its own. */
  readonly isSum?: true;
}

type Read = (metrics: Json) => number | undefined;

/** A counter that fell began again: the node was restarted. */
function rate(read: Read): (pair: Pair) => number | undefined {
  return ({ now, before, seconds }) => {
    const [present, past] = [read(now), before === undefined ? undefined : read(before)];
    if (present === undefined || past === undefined || present < past || seconds <= 0) return undefined;
    return (present - past) / seconds;
  };
}

const total =
  (...names: readonly string[]): Read =>
  (metrics) =>
    names.reduce((sum, name) => sum + (numberIn(metrics, 'latency_us', name, 'count') ?? 0), 0);

const alone =
  (value: (pair: Pair) => number | undefined): Plot['lines'] =>
  (pair) => [['', value(pair)]];

const gauge = (name: string): Plot['lines'] => alone(({ now }) => numberIn(now, name));

function statusRate(pair: Pair, digit: string): number | undefined {
  return rate((metrics) => {
    const counts: unknown = metrics['responses_by_status'];
    if (!isObject(counts)) return undefined;
    const fitting = Object.entries(counts).filter(([status]) => status.startsWith(digit));
    return fitting.reduce((sum, [, count]) => sum + (typeof count === 'number' ? count : 0), 0);
  })(pair);
}

/** Estimates from the buckets of the requests between two rounds; a gap where there were none. */
function percentileMs({ now, before }: Pair, operation: string, part: number): number | undefined {
  const bounds = numbersIn(now, 'latency_buckets_us');
  const counts = numbersIn(memberOf(now, 'latency_us', operation), 'buckets');
  const past = numbersIn(memberOf(before, 'latency_us', operation), 'buckets');
  if (before === undefined || counts.length !== bounds.length + 1) return undefined;
  const grown = counts.map((count, i) => Math.max(0, count - (past[i] ?? 0)));
  const wanted = part * grown.reduce((sum, count) => sum + count, 0);
  if (wanted <= 0) return undefined;
  let seen = 0;
  for (const [i, count] of grown.entries()) {
    const [low, high] = [bounds[i - 1] ?? 0, bounds[i] ?? bounds.at(-1) ?? 0];
    if (seen + count >= wanted) return (low + ((high - low) * (wanted - seen)) / count) / 1000;
    seen += count;
  }
  return undefined;
}

/** Adds what shards sent, reads from the main thread's memory, and event streams. */
function bytesOut(metrics: Json): number | undefined {
  const brought = numberIn(metrics, 'read_bytes');
  if (brought === undefined) return undefined;
  return brought + (numberIn(metrics, 'read_cache_hit_bytes') ?? 0) + (numberIn(metrics, 'sse_rendered_bytes') ?? 0);
}

/** Between two rounds: the time that records of the log took, by their number. */
function commitMs({ now, before }: Pair): number | undefined {
  const grown = (name: string): number => (numberIn(now, name) ?? 0) - (numberIn(before, name) ?? 0);
  const batches = grown('wal_batches');
  return before === undefined || batches <= 0 ? undefined : grown('wal_sync_ns') / batches / 1_000_000;
}

/** The tokens and buckets that a node names, as lines are labelled. */
function limitedIn(metrics: Json): string[] {
  return usesIn(metrics).flatMap(({ kind, name, refused }) =>
    refused === 0 ? [] : [`${String(kind)} ${String(name)}`],
  );
}

function refusedOf(metrics: Json, label: string): number | undefined {
  const refused = usesIn(metrics).find(({ kind, name }) => `${String(kind)} ${String(name)}` === label)?.['refused'];
  return typeof refused === 'number' ? refused : undefined;
}

function usesIn({ limited }: Json): Json[] {
  return Array.isArray(limited) ? limited.filter(isObject) : [];
}

export const PLOTS: readonly Plot[] = [
  {
    id: 'appends',
    title: 'Appends',
    unit: 'per second',
    about: 'append requests that each node answered',
    lines: alone(rate(total('append', 'batch', 'close'))),
  },
  {
    id: 'reads',
    title: 'Reads',
    unit: 'per second',
    about: 'reads and long-polls that each node answered',
    lines: alone(rate(total('read', 'long_poll', 'bootstrap'))),
  },
  {
    id: 'bytes',
    title: 'Bytes',
    unit: 'bytes per second',
    about: 'in: of appends that each node applied, as each has them all; out: of reads that it answered',
    lines: (pair) => [
      ['in', rate((metrics) => numberIn(metrics, 'appended_bytes'))(pair)],
      ['out', rate(bytesOut)(pair)],
    ],
  },
  {
    id: 'latency',
    title: 'Append latency',
    unit: 'milliseconds',
    about: 'of appends through each node since the value before, from the request to the answer',
    lines: (pair) => [
      ['p50', percentileMs(pair, 'append', 0.5)],
      ['p99', percentileMs(pair, 'append', 0.99)],
    ],
  },
  {
    id: 'read-latency',
    title: 'Read latency',
    unit: 'milliseconds',
    about: 'of reads through each node since the value before, from the request to the answer',
    lines: (pair) => [
      ['p50', percentileMs(pair, 'read', 0.5)],
      ['p99', percentileMs(pair, 'read', 0.99)],
    ],
  },
  {
    id: 'commit',
    title: 'Commit latency',
    unit: 'milliseconds',
    about: 'mean time of one record of the log, with its fsync',
    lines: alone(commitMs),
  },
  {
    id: 'statuses',
    title: 'HTTP statuses',
    unit: 'per second',
    about: 'answers of all nodes by class',
    lines: (pair) => ['2', '3', '4', '5'].map((digit) => [`${digit}xx`, statusRate(pair, digit)] as const),
    isSum: true,
  },
  {
    id: 'readers',
    title: 'Live readers',
    unit: 'count',
    about: 'long-polls and event streams that wait',
    lines: gauge('live_read_waiters'),
  },
  {
    id: 'limits',
    title: 'Refused by limits',
    unit: 'per second',
    about: 'requests and live readers that a token or a bucket had too many of',
    lines: (pair) => [
      ['all', rate((metrics) => numberIn(metrics, 'limit_refusals'))(pair)],
      ...limitedIn(pair.now).map((name) => [name, rate((metrics) => refusedOf(metrics, name))(pair)] as const),
    ],
    isSum: true,
  },
  {
    id: 'mailbox',
    title: 'Mailbox depth',
    unit: 'bytes',
    about: 'requests that wait for each core',
    lines: ({ now }) => {
      const depths = numbersIn(now, 'mailbox_depths');
      return depths.map((depth, core) => [depths.length === 1 ? '' : `core ${core}`, depth] as const);
    },
  },
  {
    id: 'hot',
    title: 'Hot bytes',
    unit: 'bytes',
    about: 'bytes of streams that are on the node',
    lines: gauge('cold_hot_bytes'),
  },
  {
    id: 'backlog',
    title: 'Cold backlog',
    unit: 'bytes',
    about: 'what a node leads and has not moved to the cold store',
    lines: gauge('cold_flush_backlog_bytes'),
  },
  {
    id: 'entries',
    title: 'Raft entries applied',
    unit: 'per second',
    about: 'by each node; one entry holds the commands of a turn',
    lines: alone(rate((metrics) => numberIn(metrics, 'raft_apply_entries'))),
  },
  {
    id: 'log',
    title: 'Log on disk',
    unit: 'bytes',
    about: 'files of the log, free ones too',
    lines: gauge('log_file_bytes'),
  },
  {
    id: 'volume',
    title: 'Free on the data volume',
    unit: 'bytes',
    about: 'what each node has left before it refuses writes',
    lines: gauge('volume_free_bytes'),
  },
  {
    id: 'memory',
    title: 'Memory',
    unit: 'bytes',
    about: 'resident bytes of the process',
    lines: gauge('process_rss_bytes'),
  },
];

/** The values of one round, by `plot/line`. */
export function valuesOf(round: Round, before: Round | undefined): Map<string, number> {
  const values = new Map<string, number>();
  for (const sample of round) {
    const pair = pairOf(sample, before);
    if (pair === undefined) continue;
    for (const { id, lines, isSum } of PLOTS) {
      for (const [label, value] of lines(pair)) {
        if (value === undefined) continue;
        const node = `node ${sample.nodeId}`;
        const name = `${id}/${isSum === true ? label : label === '' ? node : `${node} ${label}`}`;
        values.set(name, value + (isSum === true ? (values.get(name) ?? 0) : 0));
      }
    }
  }
  return values;
}

function pairOf({ nodeId, atMs, metrics }: Sample, before: Round | undefined): Pair | undefined {
  if (metrics === undefined) return undefined;
  const last = before?.find((one) => one.nodeId === nodeId);
  return { now: metrics, before: last?.metrics, seconds: last === undefined ? 0 : (atMs - last.atMs) / 1000 };
}
