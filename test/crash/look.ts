// Reading everything back after a restart and holding it against the model.
import assert from 'node:assert/strict';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { checkContent, forget, type StreamModel, type Totals } from './model.ts';
import { BUCKET, pathOf } from './writer.ts';

/** Enough to keep the server busy, few enough not to measure connection set-up. */
const CONNECTIONS = 8;

export interface StreamContent {
  readonly content: string;
  readonly closed: boolean;
}

type Reader = Pick<RawClient, 'request'>;

/** Whole content of a stream, JSON as one line per record; undefined when there is no such stream. */
export async function readAll(client: Reader, path: string, isJson: boolean): Promise<StreamContent | undefined> {
  const parts: string[] = [];
  let offset = '-1';
  for (;;) {
    const response = await client.request('GET', `${path}?offset=${offset}`);
    if (response.status === 404 && offset === '-1') return undefined;
    assert.equal(response.status, 200, `GET ${path}?offset=${offset}: ${response.body.toString('utf8').slice(0, 200)}`);
    const text = response.body.toString('utf8');
    if (!isJson) parts.push(text);
    else for (const record of JSON.parse(text) as unknown[]) parts.push(`${JSON.stringify(record)}\n`);
    if (response.headers.get('stream-up-to-date') === 'true') {
      return { content: parts.join(''), closed: response.headers.get('stream-closed') === 'true' };
    }
    const next = response.headers.get('stream-next-offset') ?? '';
    assert(next > offset || offset === '-1', `GET ${path}: a partial read must advance, ${offset} -> ${next}`);
    offset = next;
  }
}

async function look(client: RawClient, stream: StreamModel, totals: Totals): Promise<void> {
  const flat = stream.nextNumber % 2 === 0;
  const state = await readAll(client, pathOf(stream, flat), stream.isJson);
  if (state === undefined) {
    assert(!stream.exists || stream.maybeMissing, `${stream.name} was acknowledged and is gone`);
    forget(stream);
    return;
  }
  assert(stream.exists || stream.maybeMissing, `${stream.name} was deleted (acknowledged) and is back`);
  stream.exists = true;
  stream.maybeMissing = false;
  checkContent(stream, state.content, state.closed, totals);
}

/** Checks all streams, then that the bucket's gauges count exactly what was read. */
export async function lookAtAll(
  ports: { readonly port: number; readonly adminPort: number },
  streams: readonly StreamModel[],
  totals: Totals,
): Promise<void> {
  const waiting = [...streams];
  const worker = async (): Promise<void> => {
    const client = await RawClient.connect(ports.port);
    try {
      for (let stream = waiting.pop(); stream !== undefined; stream = waiting.pop()) await look(client, stream, totals);
    } finally {
      client.destroy();
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  const existing = streams.filter((stream) => stream.exists);
  const retainedBytes = existing.reduce((sum, stream) => sum + stream.tail, 0);
  const usage = await requestOnce(ports.adminPort, 'GET', '/__svc/usage');
  const report = JSON.parse(usage.body.toString('utf8')) as {
    readonly buckets: Readonly<Record<string, { readonly retained_bytes: number; readonly stream_count: number }>>;
  };
  const entry = report.buckets[BUCKET] ?? { retained_bytes: 0, stream_count: 0 };
  assert.equal(entry.stream_count, existing.length, 'usage: stream_count after the restart');
  assert.equal(entry.retained_bytes, retainedBytes, 'usage: retained_bytes after the restart');
}
