/** Streams to look at: what there is, and what is in it. */
import type { Flag, Values } from '../flags.ts';
import { CLIENT_FLAGS, type Context, type Verb, openStreams, textFlag } from '../context.ts';
import { Interrupted, UsageError, printable } from '../../nodes/failure.ts';
import { OUTPUT, formatFacts, formatTable, wantsJson } from '../output.ts';
import { formatBytes } from '../../nodes/findings.ts';
import { type Listed, listStreams } from '../streams/listing.ts';
import { type StreamFacts, factsOf, follow, lastLines, readAll, readFrom } from '../streams/reading.ts';
import { SINCE, WRITTEN_SINCE, recordSince, sinceMsOf } from '../streams/since.ts';
import { type StreamClient, expectStatus } from '../streams/stream-client.ts';
import { type NamedStream, bucketedPath, parseStreamName } from '../streams/stream-name.ts';

export const STREAM = textFlag('BUCKET/STREAM', 'the stream', { required: true });
const LIMIT: Flag = { kind: 'integer', about: 'at most so many lines, or records of a JSON stream', min: 1 };
const LINE_END = 0x0a;
const LIST = [
  { head: 'stream' },
  { head: 'type' },
  { head: 'state' },
  { head: 'size', isNumber: true },
  { head: 'created' },
  { head: 'last write' },
] as const;

export const streamLs: Verb = {
  name: 'stream ls',
  about: 'list the streams of a bucket by name',
  words: ['bucket'],
  examples: [
    'millracectl stream ls demo',
    'millracectl stream ls demo --prefix 2026- --output json',
    'millracectl stream ls demo --since 10m',
  ],
  onlyShows: true,
  flags: {
    bucket: textFlag('BUCKET', 'the bucket', { required: true }),
    prefix: textFlag('TEXT', 'only names that begin so'),
    since: WRITTEN_SINCE,
    limit: { kind: 'integer', about: 'at most so many', min: 1 },
    ...OUTPUT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values } = context;
    const bucket = values.required('bucket');
    if (bucket.includes('/')) throw new UsageError(`${bucket}: expected a bucket; --prefix chooses streams of it`);
    const limit = values.has('limit') ? values.integer('limit') : Infinity;
    const prefix = values.text('prefix') ?? '';
    const writtenSinceMs = sinceMsOf(context);
    const pages = listStreams(await openStreams(context), bucket, { prefix, limit, writtenSinceMs });
    // Page by page: a bucket may have millions.
    if (wantsJson(values)) {
      let count = 0;
      for await (const page of pages)
        for (const { raw } of page) await context.out.write(`${count++ === 0 ? '[' : ','}\n${JSON.stringify(raw)}`);
      return context.say(count === 0 ? '[]' : '\n]');
    }
    const widths: number[] = [];
    for await (const page of pages) {
      const lines = formatTable(LIST, page.map(rowOf), widths);
      await context.out.write(lines.map((line) => `${line}\n`).join(''));
    }
  },
};

function rowOf({ stream, contentType, status, tail, createdMs, lastWriteMs }: Listed): string[] {
  return [
    printable(stream),
    printable(contentType),
    status.toLowerCase(),
    formatBytes(tail),
    timeOf(createdMs),
    timeOf(lastWriteMs),
  ];
}

function timeOf(ms: number | undefined): string {
  return ms === undefined ? '-' : new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}

export const streamCat: Verb = {
  name: 'stream cat',
  about: 'write all that a stream holds to stdout: its bytes, or a line for each record of a JSON stream',
  words: ['stream'],
  examples: [
    'millracectl stream cat demo/log > log.txt',
    'millracectl stream cat demo/log --offset 4096',
    'millracectl stream cat demo/events --record 1000 --limit 20',
    'millracectl stream cat demo/events --since 10m --time-field created_at',
  ],
  onlyShows: true,
  flags: {
    stream: STREAM,
    offset: textFlag('OFFSET', 'where to begin, as a node gave it (the first byte that is kept)'),
    record: { kind: 'integer', value: 'N', about: 'the record of a JSON stream to begin with, counted from 0' },
    ...SINCE,
    limit: LIMIT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values } = context;
    const client = await openStreams(context);
    const name = parseStreamName(values.required('stream'));
    onlyOneOf('stream cat', values, ['offset', 'record', 'since']);
    const facts = await factsOf(client, name);
    const { floor, tail } = facts;
    const record = values.has('record') ? values.integer('record') : await recordSince(context, client, name, facts);
    const from = offsetOf(context) ?? floor;
    // A node says what is wrong with it.
    if (from > tail || from < floor) expectStatus(await readOnce(client, name, from), name.text, 200);
    const write = lineWriter(context);
    const pieces =
      record === undefined ? readAll(client, name, from, tail) : readFrom(client, name, `record=${record}`, tail);
    for await (const { bytes } of pieces) if (await write(bytes)) return;
  },
};

function onlyOneOf(verb: string, values: Values, names: readonly string[]): void {
  const [one, other] = names.filter((name) => values.isSet(name));
  if (other !== undefined) throw new UsageError(`${verb}: give --${one} or --${other}, not both`);
}

/** Writes pieces up to --limit lines; the promise is true when there were as many. */
function lineWriter({ values, out }: Context): (bytes: Buffer) => Promise<boolean> {
  let left = values.has('limit') ? values.integer('limit') : Infinity;
  return async (bytes) => {
    let end = left === Infinity ? bytes.length : 0;
    while (left > 0 && end < bytes.length) {
      end = bytes.indexOf(LINE_END, end) + 1 || bytes.length;
      if (bytes[end - 1] === LINE_END) left--;
    }
    await out.write(bytes.subarray(0, end));
    return left === 0;
  };
}

const readOnce = (client: StreamClient, { path }: NamedStream, from: number): ReturnType<StreamClient['call']> =>
  client.call({ method: 'GET', path: `${path}?offset=${from}`, mayRepeat: true });

export function offsetOf({ values }: Context): number | undefined {
  const written = values.text('offset');
  if (written === undefined) return undefined;
  const offset = /^\d{1,20}$/.test(written) ? Number(written) : Number.NaN;
  if (!Number.isSafeInteger(offset)) throw new UsageError(`--offset ${written}: expected an offset that a node gave`);
  return offset;
}

const LINES = 10;

export const streamTail: Verb = {
  name: 'stream tail',
  about:
    'show the last lines, or records of a JSON stream; --follow goes on with what comes, also when a node restarts',
  words: ['stream'],
  examples: [
    'millracectl stream tail demo/log -n 100',
    'millracectl stream tail -f demo/events --limit 100',
    'millracectl stream tail -f demo/events --since 2026-01-31T12:00Z',
  ],
  onlyShows: true,
  flags: {
    stream: STREAM,
    lines: { kind: 'integer', about: 'how many', fallback: LINES, short: 'n' },
    follow: { kind: 'switch', about: 'go on until the stream is closed, or Ctrl-C', short: 'f' },
    ...SINCE,
    limit: LIMIT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, progress } = context;
    const client = await openStreams(context);
    const name = parseStreamName(values.required('stream'));
    onlyOneOf('stream tail', values, ['lines', 'since']);
    const facts = await factsOf(client, name);
    const record = await recordSince(context, client, name, facts);
    const pieces =
      record === undefined
        ? lastLines(client, name, facts, values.integer('lines'))
        : readFrom(client, name, `record=${record}`, facts.tail);
    const write = lineWriter(context);
    let next = facts.tail;
    for await (const piece of pieces) {
      if (await write(piece.bytes)) return;
      ({ next } = piece);
    }
    if (!values.isSet('follow')) return;
    try {
      for await (const { bytes } of follow(client, name, next)) {
        progress.end();
        if (await write(bytes)) return;
      }
    } catch (error) {
      // Ctrl-C is how it ends.
      if (!(error instanceof Interrupted)) throw error;
    }
  },
};

export const streamStat: Verb = {
  name: 'stream stat',
  about: 'show what a stream is: type, size, records, lifetime, closure, attributes',
  words: ['stream'],
  examples: ['millracectl stream stat demo/log', 'millracectl stream stat demo/log --output json'],
  onlyShows: true,
  flags: { stream: STREAM, ...OUTPUT, ...CLIENT_FLAGS },
  run: async (context) => {
    const client = await openStreams(context);
    const name = parseStreamName(context.values.required('stream'));
    const facts = await factsOf(client, name);
    const attributes = await attributesOf(client, name);
    const shown = describe(name, facts, attributes);
    if (wantsJson(context.values)) return context.say(JSON.stringify(shown));
    for (const line of formatFacts(shown)) context.say(line);
  },
};

/** A stream that the bucketed routes cannot name shows none. */
async function attributesOf(client: StreamClient, name: NamedStream): Promise<unknown> {
  const answer = await client.call({ method: 'GET', path: `${bucketedPath(name)}/attrs`, mayRepeat: true });
  return answer.status === 200 ? (JSON.parse(answer.body.toString('utf8')) as unknown) : {};
}

/** Headers by the names that a stream's facts have in JSON; what a stream does not have is left out. */
const HEADERS: readonly (readonly [name: string, header: string])[] = [
  ['ttl_seconds', 'stream-ttl'],
  ['expires_at', 'stream-expires-at'],
  ['forked_from', 'stream-forked-from'],
  ['snapshot_offset', 'stream-snapshot-offset'],
  ['snapshot_digest', 'stream-snapshot-digest'],
  ['cold_hot_start_offset', 'stream-cold-hot-start-offset'],
  ['etag', 'etag'],
];

function describe(
  { bucket, stream }: NamedStream,
  { contentType, tail, floor, records, isClosed, headers }: StreamFacts,
  attributes: unknown,
): Record<string, unknown> {
  const told = HEADERS.flatMap(([name, header]): [string, unknown][] => {
    const value = headers[header];
    return typeof value === 'string' ? [[name, value]] : [];
  });
  return {
    bucket,
    stream,
    content_type: contentType,
    closed: isClosed,
    tail_offset: tail,
    retained_offset: floor,
    ...(records === undefined ? {} : { first_record: records.first, next_record: records.next }),
    ...Object.fromEntries(told),
    attributes,
  };
}
