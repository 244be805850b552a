/** `bench`: how fast the cluster of the command appends, reads and tells its readers, as one client host sees it. */
import { randomBytes } from 'node:crypto';
import { Agent } from 'node:http';
import { Agent as TlsAgent } from 'node:https';
import type { Flag } from '../flags.ts';
import { CLIENT_FLAGS, type Verb, openStreams, seconds, textFlag } from '../context.ts';
import { Interrupted, printable, reasonOf } from '../../nodes/failure.ts';
import { formatBytes } from '../../nodes/findings.ts';
import { OUTPUT, formatTable, wantsJson } from '../output.ts';
import { offsetText, readPiece } from '../streams/reading.ts';
import { type StreamClient, expectStatus } from '../streams/stream-client.ts';
import { type NamedStream, streamName } from '../streams/stream-name.ts';

/** A benchmark fills no disk: the two parts that append end early here. */
const WRITTEN_BYTES_MAX = 1024 ** 3 / 2;
/** Streams of a tool that was killed go away by themselves. */
const TTL_SECONDS = 3600;
const HEADERS = { 'content-type': 'application/octet-stream', 'stream-ttl': String(TTL_SECONDS) };
const count = (about: string, fallback: number, max: number): Flag => ({
  kind: 'integer',
  about,
  fallback,
  min: 1,
  max,
});

export const bench: Verb = {
  name: 'bench',
  about: 'measure appends, reads and live readers on streams of its own, which it removes; at most 1 GiB is written',
  examples: ['millracectl bench', 'millracectl bench --writers 64 --size 4KiB --phase-secs 30s --json'],
  flags: {
    bucket: textFlag('BUCKET', 'where its streams are made (bench)'),
    writers: count('requests at a time', 16, 512),
    streams: count('streams that they use', 16, 1024),
    size: { kind: 'size', about: 'bytes of an append', fallback: 1024, min: 1, max: 1024 * 1024 },
    'phase-secs': { ...seconds(5, 'length of each of the three parts'), max: 600 },
    ...OUTPUT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, progress, say, err, signal } = context;
    const writers = values.integer('writers');
    const sockets = { keepAlive: true, maxSockets: writers * 2 };
    const agents = { 'http:': new Agent(sockets), 'https:': new TlsAgent(sockets) };
    const client = await openStreams(context, agents);
    const cleaner = await openStreams({ ...context, signal: new AbortController().signal }, agents);
    const run = randomBytes(4).toString('hex');
    const names = Array.from({ length: values.integer('streams') }, (_, i) =>
      streamName(values.text('bucket') ?? 'bench', `${run}-${i}`),
    );
    const load = { client, names, writers, ms: values.ms('phase-secs'), body: randomBytes(values.bytes('size')) };
    const results: (Measured & { readonly phase: string })[] = [];
    try {
      for (const { path, text } of names)
        expectStatus(await client.call({ method: 'PUT', path, headers: HEADERS, mayRepeat: true }), text, 200, 201);
      for (const [name, phase] of Object.entries(PHASES)) {
        progress.waiting(`${name} for ${load.ms / 1000} s`);
        results.push({ phase: name, ...(await measure(phase, load)) });
      }
    } finally {
      await removed(cleaner, names).catch((error: unknown) =>
        err.say(`its streams go away by themselves within an hour, for now they stay: ${printable(reasonOf(error))}`),
      );
      for (const agent of Object.values(agents)) agent.destroy();
      progress.end();
    }
    if (signal.aborted) throw new Interrupted();
    if (wantsJson(values)) return say(JSON.stringify(results));
    const rows = results.map(({ phase, calls, seconds: took, bytes, p50_ms: p50, p99_ms: p99, max_ms: max }) => [
      ...[phase, (calls / took).toFixed(0), formatBytes(bytes / took)],
      ...[p50, p99, max].map((ms) => ms.toFixed(1)),
    ]);
    for (const line of formatTable(COLUMNS, rows)) say(line);
  },
};

async function removed(client: StreamClient, names: readonly NamedStream[]): Promise<void> {
  for (const { path, text } of names)
    expectStatus(await client.call({ method: 'DELETE', path, mayRepeat: true }), text, 204, 404, 410);
}

interface Load {
  readonly client: StreamClient;
  readonly names: readonly NamedStream[];
  readonly writers: number;
  readonly ms: number;
  readonly body: Buffer;
}

/** One call of a worker; returns the bytes that it moved. */
type Phase = (load: Load, name: NamedStream) => Promise<number>;
const PHASES: Readonly<Record<string, Phase>> = { append, read, tail };

async function append({ client, body }: Load, { path, text }: NamedStream): Promise<number> {
  const call = { method: 'POST', path, headers: HEADERS, body, mayRepeat: true } as const;
  expectStatus(await client.call(call), text, 204);
  return body.length;
}

async function read({ client }: Load, name: NamedStream): Promise<number> {
  return (await readPiece(client, name, 'offset=-1')).bytes.length;
}

/** From the beginning of an append until a reader that waits has it. */
async function tail(load: Load, name: NamedStream): Promise<number> {
  const { next } = await readPiece(load.client, name, 'offset=now');
  const waiting = readPiece(load.client, name, `offset=${offsetText(next)}&live=long-poll`);
  const [{ bytes }] = await Promise.all([waiting, append(load, name)]);
  return bytes.length;
}

interface Measured {
  readonly calls: number;
  readonly seconds: number;
  readonly bytes: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
}

/** Calls until the time is over, or a phase that writes has written what a benchmark may. */
export async function measure(phase: Phase, load: Load): Promise<Measured> {
  const { names, writers, ms, body } = load;
  const startMs = performance.now();
  const took: number[] = [];
  let bytes = 0;
  let left = phase === read ? Infinity : WRITTEN_BYTES_MAX;
  const work = async (worker: number): Promise<void> => {
    for (let i = worker; performance.now() - startMs < ms; i += writers) {
      const name = names[i % names.length];
      // Taken before the call: hundreds may be under way.
      left -= body.length;
      if (name === undefined || left < 0) return;
      const callMs = performance.now();
      const moved = await phase(load, name);
      bytes += moved;
      took.push(performance.now() - callMs);
    }
  };
  await Promise.all(Array.from({ length: writers }, (_, worker) => work(worker)));
  const all = Float64Array.from(took).sort();
  const at = (part: number): number => Math.round((all[Math.floor(part * (all.length - 1))] ?? 0) * 1000) / 1000;
  const lengths = { calls: all.length, seconds: (performance.now() - startMs) / 1000, bytes };
  return { ...lengths, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}

const COLUMNS = [
  { head: 'phase' },
  ...['calls/s', 'bytes/s', 'p50 ms', 'p99 ms', 'max ms'].map((head) => ({ head, isNumber: true }) as const),
];
