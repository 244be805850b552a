// Reads on the bucketed routes: catch-up, ETag, long-poll, SSE, HEAD, lifetime.
import assert from 'node:assert/strict';
import { assertHeaders, offsetOf, serverSuite, TEXT } from '../support/suite.ts';
import { until } from '../support/until.ts';

const CLOSE = { 'Stream-Closed': 'true' } as const;

serverSuite(
  'bucketed routes: reads',
  { cores: 2, longPollTimeout: '300ms' },
  ({ server, test, expect, ask, freshBucket }) => {
    const filled = async (content = 'hello world'): Promise<string> => {
      const path = `/${freshBucket()}/s`;
      await expect(201, `PUT ${path}`, { headers: TEXT, body: content });
      return path;
    };

    test('offsets: start, positions padded or not, tail, now', async () => {
      const path = await filled();
      for (const query of ['', '?offset=-1', '?offset=0', '?offset=00000000000000000000']) {
        const all = await expect(200, `GET ${path}${query}`);
        assert.equal(all.text, 'hello world');
        assertHeaders(all, { 'content-type': 'text/plain', 'stream-up-to-date': 'true', 'stream-closed': null });
        assert.equal(offsetOf(all), 11);
      }
      for (const query of ['6', '00000000000000000006'])
        assert.equal((await expect(200, `GET ${path}?offset=${query}`)).text, 'world');
      for (const query of ['11', 'now']) {
        const tail = await expect(200, `GET ${path}?offset=${query}`);
        assert.equal(tail.text, '');
        assert.equal(offsetOf(tail), 11);
        assertHeaders(tail, { 'stream-up-to-date': 'true' });
      }
    });

    test('a malformed offset is 400, one beyond the tail 416 with the tail', async () => {
      const path = await filled();
      for (const bad of ['abc', '1.5', '-2', '5_0', '1e2', '0x1', '9007199254740992', '1%20', '%00', '1'.repeat(30)]) {
        await expect(400, `GET ${path}?offset=${bad}`);
      }
      await expect(400, `GET ${path}?offset=1&offset=2`);
      assert.equal(offsetOf(await expect(416, `GET ${path}?offset=12`)), 11);
      await expect(400, `GET ${path}?offset=0&live=carrier-pigeon`);
      await expect(400, `GET ${path}?live=sse`);
      await expect(404, `GET ${path}-absent?offset=0`);
    });

    test('the closed state shows at the tail only', async () => {
      const path = await filled();
      await expect(204, `POST ${path}`, { headers: CLOSE });
      assertHeaders(await expect(200, `GET ${path}`), { 'stream-closed': 'true', 'stream-up-to-date': 'true' });
      assertHeaders(await expect(200, `GET ${path}?offset=now`), { 'stream-closed': 'true' });
      const part = await expect(200, `GET ${path}?offset=0&max_bytes=5`);
      assert.equal(part.text, 'hello');
      assert.equal(offsetOf(part), 5);
      assertHeaders(part, { 'stream-closed': null, 'stream-up-to-date': null });
    });

    test('ETag: equal for equal answers, new after an append, a close, another range; If-None-Match gives 304', async () => {
      const path = await filled();
      const first = (await expect(200, `GET ${path}`)).headers.get('etag') ?? '';
      assert.match(first, /^"[^"]+"$/);
      assertHeaders(await expect(200, `GET ${path}`), { etag: first });
      const same = await expect(304, `GET ${path}`, { headers: { 'If-None-Match': first } });
      assert.equal(same.text, '');
      assertHeaders(same, { etag: first });
      await expect(304, `GET ${path}`, { headers: { 'If-None-Match': `"other", ${first}` } });
      await expect(200, `GET ${path}`, { headers: { 'If-None-Match': '"other"' } });
      const tags = new Set([first, (await expect(200, `GET ${path}?offset=3`)).headers.get('etag')]);
      await expect(204, `POST ${path}`, { headers: TEXT, body: '!' });
      tags.add((await expect(200, `GET ${path}`, { headers: { 'If-None-Match': first } })).headers.get('etag'));
      await expect(204, `POST ${path}`, { headers: CLOSE });
      tags.add((await expect(200, `GET ${path}`)).headers.get('etag'));
      assert.equal(tags.size, 4);
    });

    test('a large stream is read in parts that join to the whole', async () => {
      const path = `/${freshBucket()}/s`;
      const parts = Array.from({ length: 5 }, (_, i) => String(i).repeat(700_000));
      await expect(201, `PUT ${path}`, { headers: TEXT });
      for (const part of parts) await expect(204, `POST ${path}`, { headers: TEXT, body: part });
      let content = '';
      for (let isUpToDate = false; !isUpToDate;) {
        const answer = await expect(200, `GET ${path}?offset=${content.length}`);
        assert(answer.text.length > 0 || content.length === 3_500_000);
        content += answer.text;
        assert.equal(offsetOf(answer), content.length);
        isUpToDate = answer.headers.get('stream-up-to-date') === 'true';
      }
      assert(content === parts.join(''), 'the parts must join to what was appended');
    });

    test('long-poll: at once when there are bytes, 204 after the wait, woken by an append and by a close', async () => {
      const path = await filled();
      assert.equal((await expect(200, `GET ${path}?offset=6&live=long-poll`)).text, 'world');
      const waited = await expect(204, `GET ${path}?offset=11&live=long-poll`);
      assert.equal(offsetOf(waited), 11);
      assertHeaders(waited, { 'stream-up-to-date': 'true' });
      assert.match(waited.headers.get('stream-cursor') ?? '', /^\d+$/);
      await expect(204, `GET ${path}?offset=11&live=long-poll&timeout_ms=1`);
      const woken = expect(200, `GET ${path}?offset=now&live=long-poll&timeout_ms=60000`);
      // The reader may come after the append: then it waits for the next one.
      const done = woken.then(() => true);
      let sent: Promise<unknown>;
      do {
        sent = expect(204, `POST ${path}`, { headers: TEXT, body: '+' });
      } while (!(await Promise.race([done, sent.then(() => false)])));
      // An append still under way would move the tail behind the HEAD below.
      await sent;
      assert.match((await woken).text, /^\++$/);
      const tail = offsetOf(await expect(200, `HEAD ${path}`));
      const closing = expect(204, `GET ${path}?offset=${tail}&live=long-poll&timeout_ms=60000`);
      await expect(204, `POST ${path}`, { headers: CLOSE });
      assertHeaders(await closing, { 'stream-closed': 'true' });
      assertHeaders(await expect(204, `GET ${path}?offset=${tail}&live=long-poll&timeout_ms=60000`), {
        'stream-closed': 'true',
      });
    });

    test('SSE: data and control events, appended bytes arrive, the close ends the answer', async () => {
      const path = await filled('one');
      const response = await fetch(`${server.url}${path}?offset=-1&live=sse`);
      assert.equal(response.status, 200);
      assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
      assert.equal(response.headers.get('cache-control'), 'no-cache');
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const decoder = new TextDecoder();
      let text = '';
      const readUntil = async (pattern: RegExp): Promise<void> => {
        while (!pattern.test(text)) {
          const { done, value } = await reader.read();
          assert(!done, `the event stream ended before ${pattern}: ${text}`);
          text += decoder.decode(value, { stream: true });
        }
      };
      await readUntil(/event: ?data\ndata: ?one\nid: 0{19}3\n\nevent: ?control\ndata: ?(\{.*\})\nid: 0{19}3\n\n/);
      const control = JSON.parse(/event: ?control\ndata: ?(\{.*\})\n/.exec(text)?.[1] ?? '') as Record<string, unknown>;
      assert.equal(control['streamNextOffset'], '00000000000000000003');
      assert.equal(control['upToDate'], true);
      assert.match(String(control['streamCursor']), /^\d+$/);
      await expect(204, `POST ${path}`, { headers: TEXT, body: 'two\nlines' });
      await readUntil(/data: ?two\ndata: ?lines\nid: 0{18}12\n\nevent: ?control\n/);
      await expect(204, `POST ${path}`, { headers: CLOSE });
      await readUntil(/"streamClosed":true/);
      for (let ended = false; !ended;) ended = (await reader.read()).done;
    });

    test('SSE of bytes that are no text is base64', async () => {
      const path = `/${freshBucket()}/s`;
      const bytes = Uint8Array.from([0, 255, 10, 13, 128]);
      await expect(201, `PUT ${path}`, {
        headers: { 'Content-Type': 'application/octet-stream', ...CLOSE },
        body: bytes,
      });
      const answer = await expect(200, `GET ${path}?offset=-1&live=sse`);
      assertHeaders(answer, { 'stream-sse-data-encoding': 'base64' });
      assert.match(answer.text, new RegExp(`data: ?${Buffer.from(bytes).toString('base64').replaceAll('+', '\\+')}\n`));
    });

    test('quiet readers stay connected longer than the idle timeout of the HTTP library', async () => {
      const path = await filled('');
      const stream = await fetch(`${server.url}${path}?offset=-1&live=sse`);
      const reader = (stream.body as ReadableStream<Uint8Array>).getReader();
      const comment = (async (): Promise<void> => {
        const decoder = new TextDecoder();
        // Decisions: a comment every 15 s.
        for (let text = ''; !/^:/m.test(text);) {
          const { done, value } = await reader.read();
          assert(!done, 'a quiet event stream must stay open');
          text += decoder.decode(value, { stream: true });
        }
        await reader.cancel();
      })();
      const quiet = expect(204, `GET ${path}?offset=0&live=long-poll&timeout_ms=13000`);
      await Promise.all([quiet, comment]);
    });

    test('HEAD shows type, tail and lifetime, and is never cached', async () => {
      const path = `/${freshBucket()}/s`;
      await expect(201, `PUT ${path}`, { headers: { ...TEXT, 'Stream-TTL': '3600' }, body: 'abc' });
      const head = await expect(200, `HEAD ${path}`);
      assert.equal(offsetOf(head), 3);
      assertHeaders(head, {
        'content-type': 'text/plain',
        'stream-ttl': '3600',
        'cache-control': 'no-store',
        'stream-closed': null,
      });
      assert.equal(head.text, '');
      await expect(404, `HEAD ${path}-absent`);
    });

    const expires = async (path: string): Promise<void> => {
      await until(`${path} expires`, async () => (await ask(`HEAD ${path}`)).status === 404);
    };

    test('an expired stream is 404 everywhere and can be created again', async () => {
      const bucket = freshBucket();
      const at = new Date(Date.now() + 1000).toISOString();
      await expect(201, `PUT /${bucket}/ttl`, { headers: { ...TEXT, 'Stream-TTL': '1' }, body: 'old' });
      await expect(201, `PUT /${bucket}/at`, { headers: { ...TEXT, 'Stream-Expires-At': at }, body: 'old' });
      for (const name of ['ttl', 'at']) {
        const path = `/${bucket}/${name}`;
        await expires(path);
        await expect(404, `GET ${path}`);
        await expect(404, `GET ${path}/attrs`);
        await expect(404, `POST ${path}`, { headers: TEXT, body: 'x' });
        assert.equal(offsetOf(await expect(201, `PUT ${path}`, { headers: TEXT })), 0);
      }
    });

    test('Stream-TTL slides: a stream that is read lives on, one that is only looked at does not', async () => {
      const bucket = freshBucket();
      for (const name of ['read', 'left'])
        await expect(201, `PUT /${bucket}/${name}`, { headers: { ...TEXT, 'Stream-TTL': '2' } });
      await until('the stream without reads expires', async () => {
        if ((await ask(`HEAD /${bucket}/left`)).status === 404) return true;
        await expect(200, `GET /${bucket}/read?offset=-1`);
        return false;
      });
      await expect(200, `GET /${bucket}/read?offset=-1`);
    });
  },
);
