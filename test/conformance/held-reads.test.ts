// Answers from the main thread's memory (gateway/read-cache.ts) over HTTP: every kind of read gives the same answer
// whether its bytes came from the shard or were held, and what makes them unreadable is seen by the next request.
import assert from 'node:assert/strict';
import { type HeaderList, type RawResponse, requestOnce } from '../support/raw-client.ts';
import { JSON_TYPE, type Suite, TEXT, offsetOf, serverSuite } from '../support/suite.ts';
import { until } from '../support/until.ts';

const GROUPS = 4;
const COLD = '[storage.cold]\nbackend = "dir"\nflush_interval = "50ms"\nflush_size = "1 B"\n';
const CLOSE = { 'Stream-Closed': 'true' } as const;

/** Above what travels in the ring, and above one step of an event stream. */
const LARGE_BYTES = 300 * 1024;
const TEXT_BODY = Array.from({ length: LARGE_BYTES / 8 }, (_, i) => `${String(i).padStart(7, '0')}\n`).join('');
const RECORDS = 2000;
const JSON_BODY = `[${Array.from({ length: RECORDS }, (_, i) => `{"n":${i},"text":"record ${i}"}`).join(',')}]`;

interface Kind {
  readonly of: 'text' | 'json';
  readonly query: string;
  readonly headers?: HeaderList;
  /** Its position moves with the tail, or it brings too little: the shard answers it as a whole. */
  readonly isNeverHeld?: true;
}

const KINDS: readonly Kind[] = [
  { of: 'text', query: '' },
  { of: 'text', query: 'offset=-1' },
  { of: 'text', query: 'offset=8' },
  { of: 'text', query: 'offset=-1&max_bytes=5000' },
  { of: 'text', query: 'offset=200000&max_bytes=70000' },
  { of: 'text', query: 'offset=-1&live=long-poll' },
  { of: 'text', query: 'offset=-1&live=sse' },
  { of: 'text', query: 'offset=-1&live=sse&max_bytes=9000' },
  { of: 'text', query: 'offset=-1', headers: { 'accept-encoding': 'gzip' } },
  { of: 'text', query: 'offset=-1', headers: { 'if-none-match': '"another"' } },
  { of: 'text', query: 'offset=-1&max_bytes=100', isNeverHeld: true },
  { of: 'text', query: 'offset=-1&max_bytes=0', isNeverHeld: true },
  { of: 'text', query: 'offset=now', isNeverHeld: true },
  { of: 'json', query: 'offset=-1' },
  { of: 'json', query: 'offset=-1&max_bytes=9000' },
  { of: 'json', query: 'offset=-1', headers: { 'accept-encoding': 'gzip' } },
  { of: 'json', query: 'record=0' },
  { of: 'json', query: 'record=7' },
  { of: 'json', query: 'record=7&max_records=1000' },
  { of: 'json', query: 'record=7&record_view=envelope' },
  { of: 'json', query: 'record=7&max_records=1000', headers: { 'accept-encoding': 'gzip' } },
  { of: 'json', query: 'offset=-1&live=long-poll' },
  { of: 'json', query: 'record=7&live=long-poll' },
  { of: 'json', query: 'offset=-1&live=sse' },
  { of: 'json', query: 'record=7&live=sse' },
  { of: 'json', query: 'tail_records=1500', isNeverHeld: true },
];

/** Removes the difference between two equal answers: the cursor names the time. */
function comparable({ status, headers, body }: RawResponse): unknown {
  const told = [...headers].filter(([name]) => name !== 'date' && name !== 'stream-cursor');
  return { status, told, body: body.toString('latin1').replaceAll(/"streamCursor":"\d+"/g, '') };
}

function define({ server, test, expect, freshBucket }: Suite): void {
  const get = async (path: string, query: string, headers: HeaderList = {}): Promise<RawResponse> =>
    await requestOnce(server.port, 'GET', query === '' ? path : `${path}?${query}`, headers);
  const hits = async (): Promise<number> => {
    const metrics = JSON.parse((await expect(200, 'GET /__svc/metrics')).text) as Record<string, number>;
    return metrics['read_cache_hits'] ?? 0;
  };
  const make = async (path: string, of: 'text' | 'json'): Promise<void> => {
    const [headers, body] = of === 'text' ? [TEXT, TEXT_BODY] : [JSON_TYPE, JSON_BODY];
    await expect(201, `PUT ${path}`, { headers, body });
  };
  /** Reads until the answer is held, which it is for the third time at the latest. */
  const warm = async (path: string, query = 'offset=-1'): Promise<string> => {
    const before = await hits();
    let text = '';
    for (let i = 0; i < 3; i++) text = (await expect(200, `GET ${path}?${query}`)).text;
    assert((await hits()) > before, `${path}?${query} is held`);
    return text;
  };

  test('every kind of read gives the same answer from memory, of a stream that ended', async () => {
    const bucket = freshBucket();
    for (const of of ['text', 'json'] as const) {
      await make(`/${bucket}/${of}`, of);
      // So that event streams end.
      await expect(204, `POST /${bucket}/${of}`, { headers: CLOSE });
    }
    for (const { of, query, headers, isNeverHeld } of KINDS) {
      const first = await get(`/${bucket}/${of}`, query, headers);
      assert.equal(first.status, 200, query);
      await get(`/${bucket}/${of}`, query, headers);
      const before = await hits();
      const third = await get(`/${bucket}/${of}`, query, headers);
      assert.deepEqual(comparable(third), comparable(first), `${of} ${query}`);
      const isHit = (await hits()) > before;
      // Reads of one kind may be those of another kind before.
      if (isNeverHeld !== true) assert(isHit, `${of} ${query} is held`);
    }
  });

  test('304 needs no bytes, from memory either', async () => {
    const path = `/${freshBucket()}/s`;
    await make(path, 'text');
    await warm(path);
    const etag = (await expect(200, `GET ${path}?offset=-1`)).headers.get('etag') ?? '';
    const same = await expect(304, `GET ${path}?offset=-1`, { headers: { 'If-None-Match': etag } });
    assert.equal(same.text, '');
  });

  test('an append and a close are seen at once; what a bound ended is still held', async () => {
    const path = `/${freshBucket()}/s`;
    await make(path, 'text');
    await warm(path);
    const part = await warm(path, 'offset=-1&max_bytes=9000');
    await expect(204, `POST ${path}`, { headers: TEXT, body: 'more' });
    const longer = await expect(200, `GET ${path}?offset=-1`);
    assert.equal(longer.text, `${TEXT_BODY}more`);
    assert.equal(longer.headers.get('stream-up-to-date'), 'true');
    const before = await hits();
    assert.equal((await expect(200, `GET ${path}?offset=-1&max_bytes=9000`)).text, part);
    assert.equal(await hits(), before + 1);
    await warm(path);
    await expect(204, `POST ${path}`, { headers: CLOSE });
    const closed = await expect(200, `GET ${path}?offset=-1`);
    assert.equal(closed.headers.get('stream-closed'), 'true');
    assert.equal(offsetOf(closed), LARGE_BYTES + 4);
  });

  test('deleted, and made again with other bytes under the same name', async () => {
    const path = `/${freshBucket()}/s`;
    await make(path, 'text');
    await warm(path);
    await expect(204, `DELETE ${path}`);
    await expect(404, `GET ${path}?offset=-1`);
    const other = TEXT_BODY.replaceAll('0', 'x');
    await expect(201, `PUT ${path}`, { headers: TEXT, body: other });
    assert.equal((await expect(200, `GET ${path}?offset=-1`)).text, other);
    assert.equal(await warm(path), other);
    // Without a request in between that finds nothing.
    await expect(204, `DELETE ${path}`);
    await make(path, 'text');
    assert.equal((await expect(200, `GET ${path}?offset=-1`)).text, TEXT_BODY);
  });

  test('below the retention floor nothing is readable, behind it the rest is', async () => {
    const path = `/${freshBucket()}/s`;
    await make(path, 'text');
    await expect(204, `POST ${path}`, { headers: TEXT, body: TEXT_BODY });
    const rest = await warm(path, `offset=${LARGE_BYTES}`);
    await warm(path);
    const at = String(LARGE_BYTES).padStart(20, '0');
    await expect(204, `PUT ${path}/snapshot/${at}`, { headers: TEXT, body: 'state' });
    await expect(204, `PUT ${path}/retention/${at}`);
    await expect(410, `GET ${path}?offset=0`);
    assert.equal((await expect(200, `GET ${path}?offset=${LARGE_BYTES}`)).text, rest);
  });

  test('purged and expired', async () => {
    const bucket = freshBucket();
    await make(`/${bucket}/s`, 'json');
    await warm(`/${bucket}/s`);
    await expect(200, `DELETE /__svc/purge/${bucket}`, { base: server.adminUrl });
    await expect(404, `GET /${bucket}/s?offset=-1`);
    const path = `/${freshBucket()}/s`;
    const expires = new Date(Date.now() + 3000).toISOString();
    await expect(201, `PUT ${path}`, { headers: { ...TEXT, 'Stream-Expires-At': expires }, body: TEXT_BODY });
    await until('it has expired', async () => {
      const { status, text } = await requestText(server.port, `${path}?offset=-1`);
      if (status === 200) assert.equal(text, TEXT_BODY);
      else assert.equal(status, 404);
      return status === 404;
    });
  });

  test('a fork has its own bytes, before and after its source is gone', async () => {
    const bucket = freshBucket();
    await make(`/${bucket}/source`, 'text');
    await warm(`/${bucket}/source`);
    const headers = { ...TEXT, 'Stream-Forked-From': `/${bucket}/source` };
    await expect(201, `PUT /${bucket}/fork`, { headers, body: 'own' });
    assert.equal(await warm(`/${bucket}/fork`), `${TEXT_BODY}own`);
    assert.equal((await expect(200, `GET /${bucket}/source?offset=-1`)).text, TEXT_BODY);
    await expect(204, `DELETE /${bucket}/source`);
    await expect(410, `GET /${bucket}/source?offset=-1`);
    assert.equal((await expect(200, `GET /${bucket}/fork?offset=-1`)).text, `${TEXT_BODY}own`);
  });

  test('names that mean something to objects are names', async () => {
    for (const name of ['constructor', 'hasOwnProperty', 'toString']) {
      const path = `/${freshBucket()}/${name}`;
      await make(path, 'text');
      assert.equal(await warm(path), TEXT_BODY);
    }
  });
}

async function requestText(port: number, path: string): Promise<{ status: number; text: string }> {
  const { status, body } = await requestOnce(port, 'GET', path);
  return { status, text: body.toString() };
}

serverSuite('reads from memory', { cores: 2, groups: GROUPS }, define);
serverSuite('reads from memory, with bytes that move to the cold store', { groups: GROUPS, toml: COLD }, define);
