// A cluster full of everything that a backup has to keep, made at random, and what clients and operators can see of it.
import assert from 'node:assert/strict';
import type { Random } from '../support/random.ts';
import { PatientClient } from '../support/patient.ts';
import type { RawResponse } from '../support/raw-client.ts';

export interface Ports {
  readonly port: number;
  readonly adminPort: number;
}

const BUCKETS = ['orders', 'Ünïcode bucket', 'cold_only'];
const PRODUCER_SEQS = 9;

export interface World {
  readonly streams: readonly string[];
  /** Streams with a producer p, whose last sequence was PRODUCER_SEQS - 1 of epoch 2. */
  readonly produced: readonly string[];
}

const path = (bucket: string, stream: string): string => `/${encodeURIComponent(bucket)}/${encodeURIComponent(stream)}`;

/** Fills the node; deletes some of it again. */
export async function fillWorld(
  { port, adminPort }: Ports,
  random: Random,
  streams: number,
  large = 60_000,
): Promise<World> {
  const client = new PatientClient(() => port);
  const admin = new PatientClient(() => adminPort);
  const names: string[] = [];
  const produced: string[] = [];
  const ok = (answer: RawResponse, ...statuses: number[]): RawResponse => {
    assert(statuses.includes(answer.status), `${answer.status} ${answer.body.toString()}`);
    return answer;
  };
  for (let i = 0; i < streams; i++) {
    const bucket = BUCKETS[i % BUCKETS.length] as string;
    const name = path(bucket, `stream ${i} é`);
    const json = random.int(0, 2 - 1) === 0;
    const type = json ? 'application/json' : i % 5 === 0 ? 'text/plain' : 'application/octet-stream';
    const headers: Record<string, string> = { 'content-type': type };
    if (i % 4 === 1)
      headers['stream-attrs'] = JSON.stringify({ title: `T${i}`, metadata: { n: i, deep: [1.0, '1e400'] } });
    if (i % 7 === 2) headers['stream-ttl'] = String(3_000_000_000 + i);
    if (i % 7 === 3) headers['stream-expires-at'] = '2099-01-01T00:00:00Z';
    ok(await client.request('PUT', name, headers), 201);
    const body = (size: number): Buffer => {
      if (!json) return Buffer.alloc(1 + size, `${i}-`);
      return Buffer.from(
        JSON.stringify(Array.from({ length: 1 + (size % 7) }, (_, n) => ({ n, pad: 'x'.repeat(size) }))),
      );
    };
    const appends = random.int(0, 12 - 1);
    for (let n = 0; n < appends; n++) {
      const size = random.int(0, 20 - 1) === 0 ? large : random.int(0, 900 - 1);
      const seq = i % 3 === 0 ? { 'stream-seq': `s${String(n).padStart(4, '0')}` } : {};
      ok(await client.request('POST', name, { 'content-type': type, ...seq }, body(size)), 200, 204);
    }
    if (i % 3 === 1) {
      for (let seq = 0; seq < PRODUCER_SEQS; seq++) {
        const producer = { 'producer-id': 'p', 'producer-epoch': '2', 'producer-seq': String(seq) };
        ok(await client.request('POST', name, { 'content-type': type, ...producer }, body(seq)), 200, 204);
      }
      produced.push(name);
    }
    if (appends > 2 && i % 4 === 2) await publish(client, name, i % 8 === 2, ok);
    if (i % 6 === 5) ok(await client.request('POST', name, { 'stream-closed': 'true' }), 200, 204);
    if (i % 9 === 8) ok(await client.request('DELETE', name), 204);
    else names.push(name);
  }
  const quota = JSON.stringify({ max_streams: 1000, max_retained_bytes: 1e12 });
  ok(
    await admin.request('PUT', '/__svc/quota/orders', { 'content-type': 'application/json' }, Buffer.from(quota)),
    200,
    204,
  );
  client.destroy();
  admin.destroy();
  return { streams: names, produced };
}

/** A snapshot at the tail, a little more behind it, and perhaps the floor up to the snapshot. */
async function publish(
  client: PatientClient,
  name: string,
  advance: boolean,
  ok: (answer: RawResponse, ...statuses: number[]) => RawResponse,
): Promise<void> {
  const tail = (await client.request('HEAD', name)).headers.get('stream-next-offset') as string;
  const type = (await client.request('HEAD', name)).headers.get('content-type') as string;
  ok(
    await client.request(
      'PUT',
      `${name}/snapshot/${tail}`,
      { 'content-type': 'text/x-state' },
      Buffer.alloc(9000, name),
    ),
    200,
    201,
    204,
  );
  const more = type.startsWith('application/json') ? '[1,2]' : 'more';
  ok(await client.request('POST', name, { 'content-type': type }, Buffer.from(more)), 200, 204);
  if (advance) ok(await client.request('PUT', `${name}/retention/${tail}`), 200, 204);
}

/** Everything that a client or an operator can see and a restore must bring back, as text. */
export async function describeWorld({ port, adminPort }: Ports, { streams }: World): Promise<Record<string, unknown>> {
  const client = new PatientClient(() => port);
  const admin = new PatientClient(() => adminPort);
  const seen: Record<string, unknown> = {};
  for (const name of streams) {
    const head = await client.request('HEAD', name);
    const attrs = await client.request('GET', `${name}/attrs`);
    const latest = await client.request('GET', `${name}/snapshot`);
    const at = latest.headers.get('location');
    const snapshot = at === undefined ? undefined : await client.request('GET', at);
    const json = head.headers.get('content-type')?.startsWith('application/json') === true;
    seen[name] = {
      head: pick(head, 'etag', 'date', 'stream-cold-hot-start-offset'),
      attrs: [attrs.status, attrs.body.toString()],
      snapshot: [latest.status, snapshot?.status, snapshot?.body.toString(), snapshot?.headers.get('content-type')],
      bytes: await readAll(client, name, head),
      records: json ? (await client.request('GET', `${name}?tail_records=3&record_view=envelope`)).body.toString() : '',
    };
  }
  for (const bucket of BUCKETS) {
    const listed = await client.request('GET', `/${encodeURIComponent(bucket)}/streams?limit=1000`);
    seen[`list ${bucket}`] = JSON.parse(listed.body.toString());
    const quota = await admin.request('GET', `/__svc/quota/${encodeURIComponent(bucket)}`);
    const { max_streams, max_retained_bytes } = JSON.parse(quota.body.toString()) as Record<string, unknown>;
    // The usage lags behind, and earlier versions did not show it.
    seen[`quota ${bucket}`] = JSON.stringify({ max_streams, max_retained_bytes });
  }
  const usage = JSON.parse((await admin.request('GET', '/__svc/usage')).body.toString()) as Record<string, unknown>;
  seen['usage'] = usage['buckets'] ?? usage;
  client.destroy();
  admin.destroy();
  return seen;
}

/** Headers about the stream; the others are about HTTP, and may change from version to version. */
const ABOUT_STREAMS = /^(?:stream-|producer-|content-type$|location$)/;

/** The recorded answers of an earlier version, without headers that are not about streams. */
export function aboutStreams<T>(seen: T): T {
  const isOther = (part: unknown): boolean =>
    Array.isArray(part) && part.length === 2 && typeof part[0] === 'string' && !ABOUT_STREAMS.test(part[0]);
  return JSON.parse(JSON.stringify(seen), (_, value: unknown) =>
    Array.isArray(value) ? value.filter((part) => !isOther(part)) : value,
  ) as T;
}

function pick(answer: RawResponse, ...without: string[]): unknown {
  const headers = [...answer.headers].filter(([name]) => ABOUT_STREAMS.test(name) && !without.includes(name));
  headers.sort(([a], [b]) => (a < b ? -1 : 1));
  return [answer.status, ...headers];
}

async function readAll(client: PatientClient, name: string, head: RawResponse): Promise<string> {
  const parts: string[] = [];
  const below = await client.request('GET', `${name}?offset=0`);
  parts.push(`${below.status}`);
  let offset = below.status === 410 ? (below.headers.get('stream-next-offset') as string) : '0';
  for (;;) {
    const answer = await client.request('GET', `${name}?offset=${offset}`);
    assert.equal(answer.status, 200, `${name} at ${offset}: ${answer.body.toString('latin1').slice(0, 200)}`);
    parts.push(answer.body.toString('latin1'));
    const next = answer.headers.get('stream-next-offset') as string;
    if (next === head.headers.get('stream-next-offset') || next === offset) return parts.join('|');
    offset = next;
  }
}

/** Sequences that were accepted once are duplicates, with the answer of then. */
export async function repeatProducers({ port }: Ports, { produced }: World): Promise<unknown[]> {
  const client = new PatientClient(() => port);
  const answers: unknown[] = [];
  for (const name of produced) {
    const type = (await client.request('HEAD', name)).headers.get('content-type') as string;
    for (const seq of [0, PRODUCER_SEQS - 3, PRODUCER_SEQS - 1, PRODUCER_SEQS + 3]) {
      const headers = { 'content-type': type, 'producer-id': 'p', 'producer-epoch': '2', 'producer-seq': String(seq) };
      const answer = await client.request('POST', name, headers, Buffer.from('["again"]'));
      answers.push([name, seq, pick(answer, 'date'), answer.body.toString()]);
    }
  }
  client.destroy();
  return answers;
}
