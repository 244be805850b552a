// Objects in parts, against a store in memory that fails as it is told: each is whole or absent, and its parts go away.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, it } from 'node:test';
import { type S3Options, S3Store } from '../../../src/cold/store/s3-store.ts';
import { StoreError } from '../../../src/cold/store/store.ts';
import { until } from '../../support/until.ts';

const MIB = 1024 * 1024;
/** The parts of the store under test. */
const PART_BYTES = 16 * MIB;

/** A request of a client, in one word. */
type Step = 'put' | 'create' | 'part' | 'complete' | 'abort';

class PartsStore {
  readonly objects = new Map<string, Buffer>();
  readonly open = new Map<string, Map<number, Buffer>>();
  readonly steps: Step[] = [];
  /** The step that fails, and how: with a status, or without an answer. */
  fault: { readonly at: Step; readonly how: number | 'silent' } | undefined;
  /** A request has come that gets no answer. */
  onSilence: () => void = () => undefined;
  #lastId = 0;
  readonly server = createServer((req, res) => void this.#take(req, res));

  async #take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const url = new URL(req.url ?? '/', 'http://fake');
    const id = url.searchParams.get('uploadId') ?? '';
    const step = stepOf(req.method, url.searchParams);
    this.steps.push(step);
    if (this.fault?.at === step) {
      if (this.fault.how === 'silent') return this.onSilence();
      res.writeHead(this.fault.how).end('<Error><Code>AccessDenied</Code></Error>');
      return;
    }
    const key = url.pathname.slice('/cold/'.length);
    const parts = this.open.get(id);
    if (step === 'put') this.objects.set(key, Buffer.concat(chunks));
    else if (step === 'part') parts?.set(Number(url.searchParams.get('partNumber')), Buffer.concat(chunks));
    else if (step === 'complete') this.objects.set(key, Buffer.concat([...(parts?.values() ?? [])]));
    if (step === 'complete' || step === 'abort') this.open.delete(id);
    if (step === 'create') this.open.set(`u${++this.#lastId}`, new Map());
    const tag = { create: 'InitiateMultipartUploadResult', complete: 'CompleteMultipartUploadResult' }[String(step)];
    const xml = tag === undefined ? '' : `<${tag}><UploadId>u${this.#lastId}</UploadId></${tag}>`;
    res.writeHead(200, { etag: '"e"', 'content-type': 'application/xml' }).end(xml);
  }
}

function stepOf(method: string | undefined, params: URLSearchParams): Step {
  if (params.has('uploads')) return 'create';
  if (params.has('partNumber')) return 'part';
  if (method === 'DELETE') return 'abort';
  return params.has('uploadId') ? 'complete' : 'put';
}

/** Far more than any test takes. The test ends the wait for an answer that does not come. */
const TIMEOUT_MS = 600_000;

async function open(t: TestContext): Promise<{ fake: PartsStore; store: S3Store }> {
  const fake = new PartsStore();
  fake.server.listen(0, '127.0.0.1');
  await once(fake.server, 'listening');
  const { port } = fake.server.address() as AddressInfo;
  const options: S3Options = {
    ...{ bucket: 'cold', region: undefined, endpoint: `http://127.0.0.1:${port}`, pathStyle: true },
    credentials: { accessKeyId: 'a', secretAccessKey: 'b', sessionToken: undefined },
    encryption: 'none',
    ...{ kmsKeyId: undefined, timeoutMs: TIMEOUT_MS, maxRetries: 0, connections: 4 },
  };
  const store = new S3Store(options, 'r');
  t.after(() => {
    store.close();
    fake.server.close();
    fake.server.closeAllConnections();
  });
  return { fake, store };
}

/** Mebibytes of different bytes; then the error, if there is one. */
async function* mebibytes(count: number, error?: Error): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < count; n++) yield await Promise.resolve(new Uint8Array(MIB).fill(n));
  if (error !== undefined) throw error;
}

const { signal } = new AbortController();
const isDenied = (error: unknown): boolean => error instanceof StoreError && error.failure === 'denied';
const isUnreachable = (error: unknown): boolean => error instanceof StoreError && error.failure === 'unreachable';

it('joins small pieces into parts, and the parts into one object', async (t) => {
  const { fake, store } = await open(t);
  await store.putPieces('large', mebibytes(33), signal);
  assert.deepEqual(fake.steps, ['create', 'part', 'part', 'part', 'complete']);
  const body = fake.objects.get('r/large');
  assert.equal(body?.length, 33 * MIB);
  assert.equal(body?.[PART_BYTES], 16);
  assert.equal(body?.at(-1), 32);
  assert.equal(fake.open.size, 0);
});

it('puts an object of one part with one request, also an empty one', async (t) => {
  const { fake, store } = await open(t);
  await store.putPieces('small', mebibytes(2), signal);
  await store.putPieces('empty', mebibytes(0), signal);
  assert.deepEqual(fake.steps, ['put', 'put']);
  assert.deepEqual([fake.objects.get('r/small')?.length, fake.objects.get('r/empty')?.length], [2 * MIB, 0]);
});

it('passes on the error of the pieces, and leaves neither object nor parts', async (t) => {
  const { fake, store } = await open(t);
  const mine = new Error('the node is gone');
  await assert.rejects(store.putPieces('large', mebibytes(20, mine), signal), (error) => error === mine);
  await assert.rejects(store.putPieces('small', mebibytes(1, mine), signal), (error) => error === mine);
  assert.deepEqual(fake.steps, ['create', 'part', 'abort']);
  assert.deepEqual([fake.objects.size, fake.open.size], [0, 0]);
});

for (const at of ['create', 'part', 'complete'] as const) {
  it(`a store that refuses (${at}) or does not answer ends the upload, and its parts go away`, async (t) => {
    const { fake, store } = await open(t);
    const waits: AbortController[] = [];
    t.mock.method(AbortSignal, 'timeout', (ms: number) => {
      assert.equal(ms, TIMEOUT_MS);
      const wait = new AbortController();
      waits.push(wait);
      return wait.signal;
    });
    fake.fault = { at, how: 403 };
    await assert.rejects(store.putPieces('refused', mebibytes(20), signal), isDenied);
    fake.fault = { at, how: 'silent' };
    fake.onSilence = () => waits.at(-1)?.abort();
    await assert.rejects(store.putPieces('silent', mebibytes(20), signal), isUnreachable);
    assert.deepEqual([fake.objects.size, fake.open.size], [0, 0]);
  });
}

it('an interruption ends the request under way, and waits until the parts are gone', async (t) => {
  const { fake, store } = await open(t);
  const interrupted = new AbortController();
  fake.fault = { at: 'part', how: 'silent' };
  const upload = store.putPieces('large', mebibytes(20), interrupted.signal);
  void until('a part is under way', () => fake.steps.includes('part')).then(() => interrupted.abort());
  await assert.rejects(upload, isUnreachable);
  assert.deepEqual(fake.steps, ['create', 'part', 'abort']);
  assert.deepEqual([fake.objects.size, fake.open.size], [0, 0]);
});

it('an abort that fails does not hide why the upload failed', async (t) => {
  const { fake, store } = await open(t);
  fake.fault = { at: 'abort', how: 403 };
  const mine = new Error('the node is gone');
  await assert.rejects(store.putPieces('large', mebibytes(20, mine), signal), (error) => error === mine);
  assert.equal(fake.open.size, 1);
});
