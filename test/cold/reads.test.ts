// A real server whose bytes move to the cold store at once: every way of reading gives what was written, across the
// border and back, with a directory and with a real S3 server.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { type ColdStore, STORE_KINDS, objectsIn } from '../support/cold-store.ts';

const MIB = 1024 * 1024;

const FLUSH = 'flush_interval = "50ms"\nflush_size = 1\n';

for (const kind of STORE_KINDS) {
  describe(`reads of cold bytes: ${kind.name}`, { skip: kind.skip ?? false }, () => {
    let store: ColdStore;
    let server: TestServer;
    before(async () => {
      store = await kind.start();
      server = new TestServer({ toml: store.toml + FLUSH });
      await server.start();
    });
    after(async () => {
      await server.dispose();
      await store.stop();
    });

    it('bytes: from every offset, in one go and in steps, hot, cold and across', async () => {
      const url = `${server.url}/bytes/s`;
      await create(server, 'bytes', url, 'application/octet-stream');
      let content = Buffer.alloc(0);
      for (const size of [1, 100, 5000, MIB, 3 * MIB + 1, 70_000]) {
        const body = randomBytes(size);
        await post(url, body, 'application/octet-stream');
        content = Buffer.concat([content, body]);
      }
      await allCold(server);
      assert.equal((await readAll(url, 0)).compare(content), 0, 'all cold');
      const hot = randomBytes(5000);
      await post(url, hot, 'application/octet-stream');
      content = Buffer.concat([content, hot]);
      for (const start of [
        0,
        1,
        5100,
        5101,
        MIB,
        3 * MIB,
        content.length - 5001,
        content.length - 5000,
        content.length,
      ]) {
        assert.equal((await readAll(url, start)).compare(content.subarray(start)), 0, `from ${start}`);
      }
      assert.equal(
        (await readAll(url, content.length - 200_000, 7777)).compare(content.subarray(-200_000)),
        0,
        'in steps',
      );
      assert.ok(((await server.metrics())['cold_store_reads'] as number) > 0, 'some came from the store');
    });

    it('JSON: records by offset and by ordinal', async () => {
      const url = `${server.url}/json/s`;
      await create(server, 'json', url, 'application/json');
      const values = Array.from({ length: 500 }, (_, i) => ({ i, text: 'x'.repeat(i) }));
      for (let i = 0; i < values.length; i += 50) {
        await post(url, Buffer.from(JSON.stringify(values.slice(i, i + 50))), 'application/json');
        if (i === 250) await allCold(server);
      }
      await allCold(server);
      await post(url, Buffer.from('["hot"]'), 'application/json');
      const all = [...values, 'hot'];
      assert.deepEqual(JSON.parse(await (await fetch(`${url}?offset=-1`)).text()), all);
      for (const record of [0, 1, 49, 50, 299, 499, 500]) {
        const answer = await fetch(`${url}?record=${record}&max_records=3`);
        assert.deepEqual(JSON.parse(await answer.text()), all.slice(record, record + 3), `record ${record}`);
      }
      assert.deepEqual(JSON.parse(await (await fetch(`${url}?tail_records=400`)).text()), all.slice(-400));
    });

    it('event streams and long-polls start in the cold and go on live', async () => {
      const url = `${server.url}/live/s`;
      await create(server, 'live', url, 'text/plain');
      const first = 'cold '.repeat(100_000);
      await post(url, Buffer.from(first), 'text/plain');
      await allCold(server);
      const poll = await fetch(`${url}?offset=-1&live=long-poll`);
      assert.equal(await poll.text(), first);
      const abort = new AbortController();
      const sse = await fetch(`${url}?offset=-1&live=sse`, { signal: abort.signal });
      const waiting = fetch(`${url}?offset=${first.length}&live=long-poll`);
      let text = '';
      const events = sse.body?.pipeThrough(new TextDecoderStream()) as ReadableStream<string>;
      const reader = events.getReader();
      let appended = '';
      for (let i = 0; i < 20; i++) {
        await post(url, Buffer.from(`<${i}>`), 'text/plain');
        appended += `<${i}>`;
      }
      while (dataOf(text).length < first.length + appended.length) {
        const { value, done } = await reader.read();
        assert.ok(!done, 'the stream goes on');
        text += value;
      }
      assert.equal(dataOf(text), first + appended);
      assert.ok(appended.startsWith(await (await waiting).text()));
      abort.abort();
    });

    it('many readers of the same bytes cause few reads of the store', async () => {
      const url = `${server.url}/many/s`;
      await create(server, 'many', url, 'application/octet-stream');
      const body = randomBytes(100_000);
      await post(url, body, 'application/octet-stream');
      await allCold(server);
      const readsBefore = (await server.metrics())['cold_store_reads'] as number;
      const answers = await Promise.all(Array.from({ length: 50 }, () => readAll(url, 0)));
      for (const answer of answers) assert.equal(answer.compare(body), 0);
      const reads = ((await server.metrics())['cold_store_reads'] as number) - readsBefore;
      assert.ok(reads <= 4, `${reads} reads`);
    });
  });
}

it('an altered or missing object fails its reads with a sentence, and nothing else', async () => {
  const toml = `[storage.cold]\nbackend = "dir"\n${FLUSH}cache.max_size = 0\n`;
  const server = new TestServer({ toml });
  try {
    await server.start();
    const urls: string[] = [];
    for (const name of ['altered', 'short', 'gone', 'good']) {
      const url = `${server.url}/${name}/s`;
      await create(server, name, url, 'text/plain');
      await post(url, Buffer.from(name.repeat(1000)), 'text/plain');
      urls.push(url);
    }
    await allCold(server);
    const root = join(server.dataDir, 'cold');
    const objects = objectsIn(root);
    const objectOf = (name: string): string => {
      const path = objects.find((entry) => new RegExp(`/${name}/[^/]+/[^/]+$`).test(entry));
      assert.ok(path !== undefined, `${name} in ${objects.join(' ')}`);
      return path;
    };
    const stored = readFileSync(objectOf('altered'));
    const middle = stored.length >> 1;
    stored[middle] = (stored[middle] as number) ^ 1;
    writeFileSync(objectOf('altered'), stored);
    writeFileSync(objectOf('short'), readFileSync(objectOf('short')).subarray(0, 100));
    rmSync(objectOf('gone'));
    for (const [i, sentence] of [/BLAKE3 differs/, /ends at byte 100/, /is missing/].entries()) {
      const answer = await fetch(`${urls[i] ?? ''}?offset=-1`);
      const text = await answer.text();
      assert.equal(answer.status, 502, text);
      assert.match(
        text,
        /^an object in the cold store is missing, truncated, altered, or encrypted for a key that is not here: g[0-9a-f]{4}/,
      );
      assert.match(text, sentence);
    }
    assert.equal(await (await fetch(`${urls[3] ?? ''}?offset=-1`)).text(), 'good'.repeat(1000));
    assert.equal((await server.metrics())['cold_read_bad_objects'], 3);
  } finally {
    await server.dispose();
  }
});

async function create(server: TestServer, bucket: string, url: string, type: string): Promise<void> {
  await fetch(`${server.url}/${bucket}`, { method: 'PUT' });
  const answer = await fetch(url, { method: 'PUT', headers: { 'Content-Type': type } });
  assert.equal(answer.status, 201, await answer.text());
}

async function post(url: string, body: Uint8Array<ArrayBuffer>, type: string): Promise<void> {
  const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': type }, body });
  assert.ok(answer.ok, `${answer.status} ${await answer.text()}`);
}

async function readAll(url: string, from: number, maxBytes = 0): Promise<Buffer> {
  const parts: Buffer[] = [];
  let offset = from;
  for (;;) {
    const limit = maxBytes === 0 ? '' : `&max_bytes=${maxBytes}`;
    const answer = await fetch(`${url}?offset=${offset}${limit}`);
    assert.equal(answer.status, 200, await answer.clone().text());
    const part = Buffer.from(await answer.arrayBuffer());
    parts.push(part);
    const next = Number(answer.headers.get('stream-next-offset'));
    assert.equal(next, offset + part.length);
    offset = next;
    if (answer.headers.get('stream-up-to-date') === 'true') return Buffer.concat(parts);
    assert.ok(part.length > 0, 'an answer that does not reach the tail goes on');
  }
}

function dataOf(text: string): string {
  return text
    .split('\n\n')
    .slice(0, -1)
    .filter((block) => block.startsWith('event: data'))
    .map((block) =>
      block
        .split('\n')
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.replace(/^data: ?/, ''))
        .join('\n'),
    )
    .join('');
}

async function allCold(server: TestServer): Promise<void> {
  await until('no byte is hot', async () => (await server.metrics())['cold_hot_bytes'] === 0);
}
