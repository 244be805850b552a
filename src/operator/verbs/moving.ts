/** Streams in and out: see src/operator/moving. */
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CLIENT_FLAGS, type Context, type Verb, askingSource, openStreams, textFlag } from '../context.ts';
import { Failure, NotThere, UsageError, reasonOf } from '../../nodes/failure.ts';
import { type ExportedStream, fileNameOf, writeIndex } from '../moving/export-folder.ts';
import { type Exported, exportToFile } from '../moving/export.ts';
import { lifetimeIn } from '../moving/import-source.ts';
import { importStream } from '../moving/import-target.ts';
import { sourcesOf } from '../moving/sources.ts';
import { OUTPUT, wantsJson } from '../output.ts';
import { formatBytes } from '../../nodes/findings.ts';
import { listStreams } from '../streams/listing.ts';
import { factsOf, readAll } from '../streams/reading.ts';
import type { StreamClient } from '../streams/stream-client.ts';
import { parseStreamName, streamName } from '../streams/stream-name.ts';

export const exportVerb: Verb = {
  name: 'export',
  about: 'write a stream to a file or stdout, or all streams of a bucket to a folder; repeat it to go on',
  words: ['source'],
  onlyShows: (values) => values.text('to') === undefined,
  examples: [
    'millracectl export demo/events > events.jsonl',
    'millracectl export demo/log --to log.txt',
    'millracectl export demo --to ./demo --prefix 2026-',
  ],
  flags: {
    source: textFlag('BUCKET[/STREAM]', 'what to write', { required: true }),
    to: textFlag('FILE|DIR', 'where; a stream without it goes to stdout'),
    prefix: textFlag('TEXT', 'of a bucket, only the streams whose names begin so'),
    ...OUTPUT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values } = context;
    const source = values.required('source');
    const to = values.text('to');
    const client = await openStreams(context);
    if (!source.includes('/')) {
      if (to === undefined) throw new UsageError('export of a bucket needs --to DIR: each stream gets a file');
      return await exportBucket(context, client, source, to);
    }
    if (values.text('prefix') !== undefined) throw new UsageError('export: --prefix is for a bucket');
    const name = parseStreamName(source);
    const facts = await factsOf(client, name);
    const { floor, tail } = facts;
    if (to === undefined) {
      for await (const { bytes } of readAll(client, name, floor, tail)) await context.out.write(bytes);
      return;
    }
    const tell = (bytes: number): void => context.progress.step(bytes, tail - floor, 'bytes written');
    const { brought, before } = await exportToFile(client, name, facts, to, tell);
    context.progress.end();
    if (wantsJson(values))
      context.say(JSON.stringify({ stream: name.raw, file: to, bytes: brought, bytes_before: before }));
    else context.say(`${name.text}: ${formatBytes(brought)} written to ${to}${behind(before)}`);
  },
};

const behind = (before: number): string => (before === 0 ? '' : `, behind ${formatBytes(before)} that were there`);

async function exportBucket(context: Context, client: StreamClient, bucket: string, folder: string): Promise<void> {
  const { values, progress, say } = context;
  makeFolder(folder);
  const exported: ExportedStream[] = [];
  const sum = { brought: 0, before: 0 };
  for await (const page of listStreams(client, bucket, { prefix: values.text('prefix') ?? '', limit: Infinity })) {
    for (const { stream } of page) {
      const tell = (bytes: number): void =>
        progress.step(exported.length, exported.length + 1, `streams written, ${formatBytes(sum.brought + bytes)}`);
      const { entry, done } = await exportOne(client, bucket, stream, folder, tell);
      exported.push(entry);
      sum.brought += done.brought;
      sum.before += done.before;
    }
  }
  if (exported.length === 0) throw new NotThere(`bucket ${bucket} has no such streams; nothing was written`);
  await writeIndex(folder, { bucket, streams: exported });
  progress.end();
  if (wantsJson(values))
    say(JSON.stringify({ bucket, folder, streams: exported.length, bytes: sum.brought, bytes_before: sum.before }));
  else
    say(
      `bucket ${bucket}: ${exported.length} streams, ${formatBytes(sum.brought)} written to ${folder}${behind(sum.before)}`,
    );
}

async function exportOne(
  client: StreamClient,
  bucket: string,
  stream: string,
  folder: string,
  tell: (bytes: number) => void,
): Promise<{ entry: ExportedStream; done: Exported }> {
  const name = streamName(bucket, stream);
  const facts = await factsOf(client, name);
  const { contentType, isClosed, headers } = facts;
  const file = fileNameOf(stream, contentType);
  const done = await exportToFile(client, name, facts, join(folder, file), tell);
  return { entry: { stream, contentType, file, isClosed, createHeaders: lifetimeIn(headers) }, done };
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (!statSync(folder).isDirectory()) throw new Error('it is a file');
  } catch (error) {
    throw new Failure(`${folder} cannot be used: ${reasonOf(error)}`);
  }
}

export const importVerb: Verb = {
  name: 'import',
  about: 'bring streams in, each exactly once: repeat it if it was cut off, or to bring what has come since',
  words: ['from'],
  examples: [
    'millracectl import events.jsonl --to demo/events',
    'millracectl import app.log --to demo/log --content-type text/plain',
    'millracectl import http://10.0.0.9:4437/v1/stream/demo/log',
    'millracectl import ./demo --to copy',
  ],
  flags: {
    from: textFlag('SOURCE', 'FILE, - (stdin), URL of a stream, or folder of an export', { required: true }),
    to: textFlag('BUCKET[/STREAM]', 'where to; folders and URLs bring names along'),
    'content-type': textFlag('TYPE', 'of a file or stdin (application/json: a record in each line)'),
    'source-id': textFlag('NAME', 'names a file or stdin in place of its path, for repeats'),
    'from-token-file': textFlag(
      'FILE',
      'file with the bearer token of the server of a URL; or MILLRACE_FROM_TOKEN, the token',
    ),
    close: { kind: 'switch', about: 'close the stream behind a file or stdin' },
    ...OUTPUT,
    ...CLIENT_FLAGS,
  },
  run: async (context) => {
    const { values, progress, say } = context;
    const client = await openStreams(context);
    const sources = await sourcesOf({
      from: values.required('from'),
      to: values.text('to'),
      contentType: values.text('content-type'),
      identity: values.text('source-id'),
      closes: values.isSet('close'),
      http: askingSource(context),
      input: context,
    });
    const results: object[] = [];
    for (const [i, { name, source }] of sources.entries()) {
      const unit = source.isJson ? 'records' : 'bytes';
      const tell = (position: number): void => {
        if (sources.length > 1) progress.step(i, sources.length, `streams; ${name.text}: ${position} ${unit}`);
        else progress.step(position, source.total ?? position, unit);
      };
      const { brought, before, isClosed } = await importStream(client, name, source, tell);
      results.push({ stream: name.raw, unit, brought, before, closed: isClosed });
      if (wantsJson(values)) continue;
      progress.end();
      const there = before === 0 ? '' : `, ${before} were there`;
      say(`${name.text}: ${brought} ${unit} imported${there}${isClosed ? ', closed' : ''}`);
    }
    progress.end();
    if (wantsJson(values)) say(JSON.stringify(results));
  },
};
