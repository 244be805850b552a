// Event streams that are cut: a client that returns with Last-Event-ID misses nothing and sees nothing twice.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { EventSource } from 'eventsource';
import { createRandom } from '../support/random.ts';
import { Relay } from '../support/relay.ts';
import { JSON_TYPE, TEXT, serverSuite } from '../support/suite.ts';

const CLOSE = { 'Stream-Closed': 'true' } as const;
const BYTES = { 'Content-Type': 'application/octet-stream' } as const;
const CUTS = 12;

interface Seen {
  readonly data: string[];
  readonly controls: string[];
  id: string;
}

/** Adds what a parser by the letter of the specification gets from the bytes that arrived before a cut. */
function take(seen: Seen, text: string, isBase64: boolean): void {
  for (const block of text.split('\n\n').slice(0, -1)) {
    const fields = block.split('\n').map((line) => /^(\w*): ?(.*)$/.exec(line) ?? []);
    const values = (name: string): string[] =>
      fields.filter(([, key]) => key === name).map(([, , value = '']) => value);
    const data = values('data').join('\n');
    if (values('event')[0] === 'control') seen.controls.push(data);
    else if (data !== '') seen.data.push(isBase64 ? Buffer.from(data, 'base64').toString('latin1') : data);
    seen.id = values('id').at(-1) ?? seen.id;
  }
}

serverSuite('event streams that are cut', { cores: 1, groups: 2 }, ({ server, test, expect, ask, freshBucket }) => {
  /** Reads to the end of a closed stream over connections that end at random places. */
  const readInPieces = async (path: string, isBase64: boolean): Promise<Seen> => {
    const random = createRandom(0xcafe);
    const seen: Seen = { data: [], controls: [], id: '' };
    for (let round = 0; ; round++) {
      const headers = seen.id === '' ? {} : { 'Last-Event-ID': seen.id };
      const answer = await ask(`GET ${path}`, { headers });
      if (answer.status === 204) {
        assert.equal(answer.headers.get('stream-closed'), 'true');
        return seen;
      }
      assert.equal(answer.status, 200, answer.text);
      const before = seen.id;
      take(seen, round < CUTS ? answer.text.slice(0, random.int(0, answer.text.length)) : answer.text, isBase64);
      assert(round <= CUTS || seen.id !== before, 'a whole answer moves on');
    }
  };

  test('every kind of stream continues exactly where its reader was', async () => {
    const bucket = freshBucket();
    const lines = Array.from({ length: 40 }, (_, i) => `line ${i} €\n`).join('');
    await expect(201, `PUT /${bucket}/text`, { headers: { ...TEXT, ...CLOSE }, body: lines });
    for (const max of [1, 7, 100]) {
      const { data, controls } = await readInPieces(`/${bucket}/text?offset=-1&live=sse&max_bytes=${max}`, false);
      assert.equal(data.join(''), lines);
      assert.equal(controls.filter((control) => control.includes('"streamClosed":true')).length, 1);
    }
    await expect(201, `PUT /${bucket}/bytes`, { headers: { ...BYTES, ...CLOSE }, body: lines });
    const bytes = await readInPieces(`/${bucket}/bytes?offset=-1&live=sse&max_bytes=50`, true);
    assert.equal(Buffer.from(bytes.data.join(''), 'latin1').toString(), lines);
    const records = Array.from({ length: 30 }, (_, n) => ({ n }));
    await expect(201, `PUT /${bucket}/json`, { headers: { ...JSON_TYPE, ...CLOSE }, body: JSON.stringify(records) });
    const values = ({ data }: Seen): unknown[] => data.flatMap((text) => JSON.parse(text) as unknown[]);
    const json = await readInPieces(`/${bucket}/json?offset=-1&live=sse&max_bytes=20`, false);
    assert.deepEqual(values(json), records);
    for (const [start, first] of [
      ['record=0', 0],
      ['record=11', 11],
      ['tail_records=7', 23],
    ] as const) {
      const url = `/${bucket}/json?${start}&live=sse&max_records=2`;
      const plain = await readInPieces(url, false);
      assert.deepEqual(values(plain), records.slice(first), start);
      const envelopes = values(await readInPieces(`${url}&record_view=envelope`, false)) as { record: number }[];
      assert.equal(envelopes.length, 30 - first, start);
    }
  });

  test('Last-Event-ID wins over the position in the URL, and must be an id that the URL gives', async () => {
    const bucket = freshBucket();
    await expect(201, `PUT /${bucket}/s`, { headers: { ...JSON_TYPE, ...CLOSE }, body: '[1,2,3]' });
    const read = async (query: string, id: string): Promise<string> =>
      (await expect(200, `GET /${bucket}/s?${query}&live=sse`, { headers: { 'Last-Event-ID': id } })).text;
    assert.match(await read('offset=-1', '00000000000000000004'), /data:\[3\]\n/);
    assert.match(await read('offset=now', '4'), /data:\[3\]\n/);
    assert.match(await read('record=0', 'record=2'), /data:\[3\]\n/);
    assert.match(await read('tail_records=3', 'record=2'), /data:\[3\]\n/);
    for (const id of ['', ' ']) assert.match(await read('offset=-1', id), /data:\[1,2,3\]\n/);
    for (const id of ['x', '-1', 'now', '1.5', 'record=1', ';closed', '4;open', `1${'0'.repeat(20)}`]) {
      await expect(400, `GET /${bucket}/s?offset=-1&live=sse`, { headers: { 'Last-Event-ID': id } });
    }
    for (const id of ['4', 'record=', 'record=-1', 'record=x']) {
      await expect(400, `GET /${bucket}/s?record=0&live=sse`, { headers: { 'Last-Event-ID': id } });
    }
    // The end of a stream that was there before: nothing is there yet in this one.
    await expect(416, `GET /${bucket}/s?offset=-1&live=sse`, { headers: { 'Last-Event-ID': '999;closed' } });
    // Other reads have no events.
    const headers = { 'Last-Event-ID': 'x' };
    assert.equal((await expect(200, `GET /${bucket}/s?offset=4`, { headers })).text, '[3]');
    assert.equal((await expect(200, `GET /${bucket}/s?offset=4&live=long-poll`, { headers })).text, '[3]');
  });

  test("a browser's EventSource continues after a lost connection, and stops at the end of the stream", async () => {
    const bucket = freshBucket();
    const relay = await Relay.open();
    relay.targetPort = server.port;
    await expect(201, `PUT /${bucket}/s`, { headers: TEXT, body: 'one' });
    const source = new EventSource(`http://127.0.0.1:${relay.port}/${bucket}/s?offset=-1&live=sse`);
    try {
      const seen: string[] = [];
      source.addEventListener('data', (event: { readonly data: unknown }) => seen.push(String(event.data)));
      const upTo = async (count: number): Promise<void> => {
        while (seen.length < count) await once(source, 'data');
      };
      await upTo(1);
      await expect(204, `POST /${bucket}/s`, { headers: TEXT, body: 'two' });
      await upTo(2);
      relay.cut();
      await expect(204, `POST /${bucket}/s`, { headers: TEXT, body: 'three' });
      await upTo(3);
      assert.deepEqual(seen, ['one', 'two', 'three']);
      let closed = false;
      source.addEventListener('control', (event: { readonly data: unknown }) => {
        closed ||= String(event.data).includes('"streamClosed":true');
      });
      await expect(204, `POST /${bucket}/s`, { headers: CLOSE });
      while (!closed) await once(source, 'control');
      // It comes back once more, because the answer ended, and is told by 204 that there is nothing.
      while (source.readyState !== source.CLOSED) await once(source, 'error');
      assert.deepEqual(seen, ['one', 'two', 'three']);
    } finally {
      source.close();
      relay.close();
    }
  });

  test('a browser may send from elsewhere what tracing, caches and EventSource need', async () => {
    const answer = await expect(204, `OPTIONS /${freshBucket()}/s`, { headers: { Origin: 'http://localhost:3000' } });
    const allowed = (answer.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ');
    const forCaches = ['last-event-id', 'if-match', 'if-none-match', 'authorization'];
    for (const name of ['traceparent', 'tracestate', 'x-request-id', ...forCaches]) {
      assert(allowed.includes(name), name);
    }
  });
});
