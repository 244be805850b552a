// Deletion of objects where a store wants Content-MD5 (Swift, MinIO of 2024 and before), knows no batches, or refuses
// the caller. Answers are those that these stores give; Ceph itself is in object-store.test.ts.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type IncomingMessage, type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, it } from 'node:test';
import { probe } from '../../../src/cold/store/perform.ts';
import { S3Store } from '../../../src/cold/store/s3-store.ts';
import { StoreError } from '../../../src/cold/store/store.ts';

type Kind = 'wants-md5' | 'no-batches' | 'may-not-delete' | 'lists-nothing';

interface Answer {
  readonly status: number;
  readonly body?: string | Buffer;
}

const fault = (status: number, code: string): Answer => ({
  status,
  body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
});

/** A store in memory, as small as the cold tier needs it. */
class FakeStore {
  readonly objects = new Map<string, Buffer>();
  readonly deletes: string[] = [];
  readonly #kind: Kind;
  readonly server: Server;

  constructor(kind: Kind) {
    this.#kind = kind;
    this.server = createServer((req, res) => {
      const chunks: Buffer[] = [];
      req.on('data', (chunk: Buffer) => chunks.push(chunk));
      req.on('end', () => {
        const { status, body } = this.#answer(req, Buffer.concat(chunks));
        res.writeHead(status, { 'content-type': 'application/xml' }).end(body);
      });
    });
  }

  #answer(req: IncomingMessage, body: Buffer): Answer {
    const url = new URL(req.url ?? '/', 'http://fake');
    const key = decodeURIComponent(url.pathname.slice('/cold/'.length));
    if (req.method === 'POST' && url.searchParams.has('delete')) return this.#batch(req, body);
    if (req.method === 'DELETE') return this.#single(key);
    if (req.method === 'PUT') {
      this.objects.set(key, body);
      return { status: 200 };
    }
    if (key === '') return this.#list(url.searchParams.get('prefix') ?? '');
    const found = this.objects.get(key);
    const [, from = 0, to = 0] = /bytes=(\d+)-(\d+)/.exec(req.headers.range ?? '')?.map(Number) ?? [];
    return found === undefined ? fault(404, 'NoSuchKey') : { status: 206, body: found.subarray(from, to + 1) };
  }

  #batch(req: IncomingMessage, body: Buffer): Answer {
    const checksums = Object.keys(req.headers).filter((name) => name.startsWith('x-amz-checksum'));
    this.deletes.push(`batch ${checksums.join()}`);
    if (this.#kind === 'may-not-delete') return fault(403, 'AccessDenied');
    if (this.#kind === 'no-batches') return fault(501, 'NotImplemented');
    const md5 = req.headers['content-md5'];
    if (md5 === undefined) return fault(400, 'InvalidRequest');
    if (md5 !== createHash('md5').update(body).digest('base64')) return fault(400, 'BadDigest');
    for (const [, key = ''] of body.toString().matchAll(/<Key>([^<]*)<\/Key>/g)) this.objects.delete(key);
    return { status: 200, body: '<?xml version="1.0"?><DeleteResult></DeleteResult>' };
  }

  #single(key: string): Answer {
    this.deletes.push('single');
    if (this.#kind === 'may-not-delete') return fault(403, 'AccessDenied');
    return this.objects.delete(key) ? { status: 204 } : fault(404, 'NoSuchKey');
  }

  #list(prefix: string): Answer {
    const keys = this.#kind === 'lists-nothing' ? [] : [...this.objects.keys()].filter((key) => key.startsWith(prefix));
    const contents = keys.map((key) => {
      const bytes = this.objects.get(key)?.length ?? 0;
      return `<Contents><Key>${key}</Key><Size>${bytes}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>`;
    });
    return { status: 200, body: `<?xml version="1.0"?><ListBucketResult>${contents.join('')}</ListBucketResult>` };
  }
}

async function open(t: TestContext, kind: Kind): Promise<{ fake: FakeStore; store: S3Store }> {
  const fake = new FakeStore(kind);
  await new Promise<void>((resolve) => fake.server.listen(0, '127.0.0.1', resolve));
  const { port } = fake.server.address() as AddressInfo;
  const options = {
    bucket: 'cold',
    region: undefined,
    endpoint: `http://127.0.0.1:${port}`,
    pathStyle: true,
    credentials: { accessKeyId: 'a', secretAccessKey: 'b', sessionToken: undefined },
    encryption: 'none',
    kmsKeyId: undefined,
    timeoutMs: 10_000,
    maxRetries: 0,
    connections: 4,
  } as const;
  const store = new S3Store(options, 'r');
  t.after(() => {
    store.close();
    fake.server.close();
    fake.server.closeAllConnections();
  });
  return { fake, store };
}

const KEYS = Array.from({ length: 40 }, (_, i) => `k/${i}`);

for (const kind of ['wants-md5', 'no-batches'] as const) {
  it(`a store that ${kind === 'wants-md5' ? 'wants Content-MD5' : 'knows no batches'} passes the probe and removes`, async (t) => {
    const { fake, store } = await open(t, kind);
    await probe(store);
    assert.equal(fake.objects.size, 0);
    for (const key of KEYS) await store.put(key, new Uint8Array(3));
    await store.remove([...KEYS, 'k/never']);
    assert.equal(fake.objects.size, 0);
    const batches = fake.deletes.filter((one) => one.startsWith('batch'));
    // No newer checksum is sent along, and a store that refused a batch is not sent another.
    assert.deepEqual(batches, kind === 'wants-md5' ? ['batch ', 'batch '] : ['batch ']);
  });
}

it('a client without delete permission is refused once', async (t) => {
  const { fake, store } = await open(t, 'may-not-delete');
  await assert.rejects(store.remove(KEYS), (error) => error instanceof StoreError && error.failure === 'denied');
  assert.deepEqual(fake.deletes, ['batch ']);
});

it('a probe that fails removes what it wrote', async (t) => {
  const { fake, store } = await open(t, 'lists-nothing');
  await assert.rejects(probe(store), /was written but is not listed/);
  assert.equal(fake.objects.size, 0);
});
