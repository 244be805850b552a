// A stream that is half in the cold store looks like any other: the same tests against a directory and a real S3
// server, on a single node and on a follower in a cluster: both of each in `npm run check`, the first over a directory
// and the second over S3 in `npm test`. The test chooses the border: nothing is flushed unless requested.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { after, before, describe, it } from 'node:test';
import { type ColdStore, STORE_KINDS, STORE_ROOT } from '../support/cold-store.ts';
import { multipart } from '../support/multipart.ts';
import { JSON_TYPE, TEXT, assertHeaders, offsetOf } from '../support/suite.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { until } from '../support/until.ts';
import { type Site, SITE_KINDS, type SiteKind, ask, call, expect, flush } from './site.ts';
import { readEvents } from './tier-events.ts';

const SETTINGS = `
flush_interval = "1h"
gc_interval = "50ms"
gc_grace = "0ms"
compaction_enabled = false
sweep_interval = "200ms"
sweep_grace = "1s"
cache.max_size = "1 MiB"
`;
/** Foreign objects, some with names close to ours: none of them may be touched. */
const FOREIGN = [
  'elsewhere/g0000-0000000000000000/tiers/i1/0000000000000000-000000000001',
  `${STORE_ROOT}/README.txt`,
  `${STORE_ROOT}/g0000/old`,
  `${STORE_ROOT}/g0000-0123456789abcdef/tiers/i1/0123456789abcdef-000000000001`,
];

const lengthOf = (data: string): number => data.length;
const countOf = (data: string): number => (JSON.parse(data) as unknown[]).length;

for (const [storeNumber, storeKind] of STORE_KINDS.entries()) {
  describe(`tiers: ${storeKind.name}`, { skip: storeKind.skip ?? false }, () => {
    let store: ColdStore;
    before(async () => {
      store = await storeKind.start();
      for (const key of FOREIGN) await store.put(key, Buffer.from(key));
    });
    after(async () => {
      await store?.stop();
    });
    for (const [i, siteKind] of SITE_KINDS.entries())
      if (IS_THOROUGH || i === storeNumber) testsOf(siteKind, () => store);
  });
}

/** The store is empty but for foreign objects before and afterwards. */
function testsOf(siteKind: SiteKind, storeOf: () => ColdStore): void {
  describe(siteKind.name, () => {
    let store: ColdStore;
    let site: Site;
    before(async () => {
      store = storeOf();
      site = await siteKind.start(store, SETTINGS);
    });
    after(async () => {
      await site?.dispose();
      for (const key of await store.keys()) if (!FOREIGN.includes(key)) await store.remove(key);
    });

    /** Objects of one bucket; all are under the root. */
    const objects = async (bucket: string): Promise<string[]> =>
      (await store.keys()).filter((key) => !FOREIGN.includes(key) && key.split('/').at(-3) === bucket);

    async function fill(path: string, headers: Record<string, string>, cold: string[], hot: string[]): Promise<void> {
      await expect(site, 201, `PUT ${path}`, { headers });
      for (const body of cold) await expect(site, 204, `POST ${path}`, { headers, body });
      await flush(site, path);
      for (const body of hot) await expect(site, 204, `POST ${path}`, { headers, body });
    }

    it('bytes: GET by offset and in steps, HEAD, long-poll, events from 0 into the present', async () => {
      const path = '/bytes/s';
      const cold = ['a', 'b'.repeat(100), 'c'.repeat(5000), '0123456789'.repeat(60_000), 'd'.repeat(700)];
      const hot = ['e', 'f'.repeat(9000)];
      await fill(path, TEXT, cold, hot);
      const [border, whole] = [cold.join('').length, [...cold, ...hot].join('')];
      assertHeaders(await expect(site, 200, `HEAD ${path}`), {
        'stream-next-offset': String(whole.length).padStart(20, '0'),
        'stream-cold-hot-start-offset': String(border),
      });
      for (const start of [
        0,
        1,
        101,
        5100,
        5101,
        300_000,
        border - 1,
        border,
        border + 1,
        whole.length - 1,
        whole.length,
      ]) {
        assert((await readAll(path, start, '')) === whole.slice(start), `from ${start}`);
      }
      assert((await readAll(path, border - 30_000, '&max_bytes=7777')) === whole.slice(border - 30_000), 'in steps');
      await expect(site, 416, `GET ${path}?offset=${whole.length + 1}`);
      const first = await expect(site, 200, `GET ${path}?offset=0&live=long-poll`);
      assert(whole.startsWith(first.text) && first.text !== '');
      const tag = (await expect(site, 200, `GET ${path}?offset=0&max_bytes=100`)).headers.get('etag') as string;
      await expect(site, 304, `GET ${path}?offset=0&max_bytes=100`, { headers: { 'If-None-Match': tag } });
      const { url } = await site.nodeOf(path);
      const late = ['g'.repeat(500), 'h'];
      const shown = await readEvents(`${url}${path}?offset=-1&live=sse`, whole.length, lengthOf, async () => {
        for (const body of late) await expect(site, 204, `POST ${path}`, { headers: TEXT, body });
        return whole.length + late.join('').length;
      });
      assert(shown.join('') === whole + late.join(''));
      await flush(site, path);
      await expect(site, 204, `POST ${path}`, { headers: { 'Stream-Closed': 'true' } });
      const closed = await expect(site, 200, `GET ${path}?offset=${whole.length}`);
      assert.equal(closed.text, late.join(''));
      assertHeaders(closed, { 'stream-closed': 'true', 'stream-up-to-date': 'true' });
      assert((await objects('bytes')).length >= 3);
      await expect(site, 204, `DELETE ${path}`);
      await expect(site, 404, `GET ${path}?offset=0`);
      await until('the objects are gone', async () => (await objects('bytes')).length === 0);
    });

    it('JSON: by offset, by ordinal, from the end, as envelopes, as events', async () => {
      const path = '/json/s';
      const values = Array.from({ length: 300 }, (_, i) => ({ i, text: 'x'.repeat((i * 37) % 3000) }));
      const bodies = Array.from({ length: 30 }, (_, i) => JSON.stringify(values.slice(10 * i, 10 * i + 10)));
      await fill(path, JSON_TYPE, bodies.slice(0, 20), bodies.slice(20));
      assert.deepEqual(JSON.parse((await expect(site, 200, `GET ${path}?offset=-1`)).text), values);
      for (const record of [0, 1, 9, 10, 198, 199, 200, 201, 299, 300]) {
        const answer = await expect(site, 200, `GET ${path}?record=${record}&max_records=3`);
        assert.deepEqual(JSON.parse(answer.text), values.slice(record, record + 3), `record ${record}`);
        assertHeaders(answer, {
          'stream-record-start': String(record),
          'stream-record-next': String(Math.min(record + 3, 300)),
        });
      }
      assert.deepEqual(JSON.parse((await expect(site, 200, `GET ${path}?tail_records=150`)).text), values.slice(150));
      const envelopes = await expect(site, 200, `GET ${path}?record=197&max_records=6&record_view=envelope`);
      assert.deepEqual(
        JSON.parse(envelopes.text),
        values.slice(197, 203).map((value, i) => ({ record: 197 + i, value })),
      );
      await expect(site, 412, `POST ${path}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': '299' }, body: '1' });
      await expect(site, 204, `POST ${path}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': '300' }, body: '1' });
      const { url } = await site.nodeOf(path);
      const shown = await readEvents(`${url}${path}?offset=-1&live=sse`, 301, countOf, async () => {
        await expect(site, 204, `POST ${path}`, { headers: JSON_TYPE, body: '["live"]' });
        return 302;
      });
      const all = [...values, 1, 'live'];
      assert.deepEqual(
        shown.flatMap((text) => JSON.parse(text) as unknown[]),
        all,
      );
      const between = offsetOf(await expect(site, 200, `GET ${path}?record=150&max_records=1`));
      const rest = await expect(site, 200, `GET ${path}?offset=${between}`);
      assert.deepEqual(JSON.parse(rest.text), all.slice(151));
    });

    it('snapshot, retention and bootstrap on both sides of the border; the floor gives objects back', async () => {
      const path = '/floor/s';
      const message = (i: number): string => `${i}:`.padEnd(100_000, String(i % 10));
      const cold = Array.from({ length: 12 }, (_, i) => message(i));
      await fill(path, TEXT, cold, ['hot', 'tail']);
      const parts = async (): Promise<string[]> =>
        multipart(await expect(site, 200, `GET ${path}/bootstrap`)).map(({ body }) => body);
      assert.deepEqual(await parts(), ['', ...cold, 'hot', 'tail']);
      await expect(site, 400, `PUT ${path}/snapshot/99999`, { headers: TEXT, body: 'inside a message' });
      await expect(site, 204, `PUT ${path}/snapshot/800000`, { headers: TEXT, body: 'eight' });
      assert.deepEqual(await parts(), ['eight', ...cold.slice(8), 'hot', 'tail']);
      const objectsBefore = (await objects('floor')).length;
      assert(objectsBefore >= 5, `${objectsBefore} objects`);
      await expect(site, 204, `PUT ${path}/retention/700000`);
      const gone = await expect(site, 410, `GET ${path}?offset=-1`);
      assert.equal(offsetOf(gone), 700_000);
      assert((await readAll(path, 700_000, '')) === `${cold.slice(7).join('')}hottail`);
      await until('objects below the floor are gone', async () => (await objects('floor')).length <= objectsBefore - 3);
      await expect(site, 204, `PUT ${path}/snapshot/1200003`, { headers: TEXT, body: 'in the hot' });
      await expect(site, 204, `PUT ${path}/retention/1200003`);
      await until('no object is left', async () => (await objects('floor')).length === 0);
      assert.deepEqual(await parts(), ['in the hot', 'tail']);
      assert.equal((await expect(site, 200, `GET ${path}/snapshot/1200003`)).text, 'in the hot');
    });

    it('a truncated, an altered and a missing object: a 5xx that names it, and no effect on others', async () => {
      const names = ['truncated', 'altered', 'missing', 'whole'];
      for (const name of names) await fill(`/${name}/s`, TEXT, [name.repeat(1000)], ['hot']);
      const keyOf = async (name: string): Promise<string> => (await objects(name))[0] as string;
      const originals = new Map<string, Buffer>();
      for (const name of names) originals.set(await keyOf(name), await store.get(await keyOf(name)));
      const altered = Buffer.from(originals.get(await keyOf('altered')) as Buffer);
      altered[altered.length >> 1] = (altered[altered.length >> 1] as number) ^ 1;
      await store.put(await keyOf('truncated'), (originals.get(await keyOf('truncated')) as Buffer).subarray(0, 1000));
      const keys = new Map(await Promise.all(names.map(async (name) => [name, await keyOf(name)] as const)));
      await store.put(keys.get('altered') as string, altered);
      await store.remove(keys.get('missing') as string);
      for (const name of names.slice(0, 3)) {
        const key = (keys.get(name) as string).slice(STORE_ROOT.length + 1);
        for (const query of ['offset=-1', 'offset=10&max_bytes=5', 'offset=0&live=long-poll']) {
          const answer = await expect(site, 502, `GET /${name}/s?${query}`);
          assert.match(
            answer.text,
            /^an object in the cold store is missing, truncated, altered, or encrypted for a key that is not here: /,
          );
          assert(answer.text.includes(key), `${answer.text} names ${key}`);
        }
        const events = await ask(site, `GET /${name}/s?offset=-1&live=sse`);
        assert(events.status === 502 || /^event: error$/m.test(events.text), `${events.status} ${events.text}`);
        // Hot bytes can be read, and the stream lives on.
        assert.equal((await expect(site, 200, `GET /${name}/s?offset=${1000 * name.length}`)).text, 'hot');
        await expect(site, 204, `POST /${name}/s`, { headers: TEXT, body: '!' });
        await expect(site, 200, `HEAD /${name}/s`);
      }
      assert.equal((await expect(site, 200, 'GET /whole/s?offset=-1')).text, `${'whole'.repeat(1000)}hot`);
      for (const [key, body] of originals) await store.put(key, body);
      for (const name of names.slice(0, 3)) {
        assert.equal((await expect(site, 200, `GET /${name}/s?offset=-1`)).text, `${name.repeat(1000)}hot!`);
      }
    });

    it('a purge takes its tenant, not the others, and never what is not ours', async () => {
      for (let i = 0; i < 6; i++) await fill(`/doomed/s${i}`, TEXT, [`doomed ${i}`.repeat(100)], ['hot']);
      await fill('/spared/s', TEXT, ['spared'], ['hot']);
      assert.equal((await objects('doomed')).length, 6);
      // Among our own, where the sweep looks for orphans.
      const intruder = `${(await objects('spared'))[0] ?? ''}.bak`;
      await store.put(intruder, Buffer.from('mine'));
      const { adminUrl } = site.nodes.at(-1) as { adminUrl: string };
      const purge = await call(`${adminUrl}/__svc/purge/doomed`, 'DELETE');
      assert.equal(purge.status, 200, purge.text);
      const report = JSON.parse(purge.text) as { removed_streams: number; cold_gc_entries_reclaimed: number };
      assert.equal(report.removed_streams, 6);
      assert.equal(report.cold_gc_entries_reclaimed, 6);
      await until('its objects are gone', async () => (await objects('doomed')).length === 0);
      await expect(site, 404, 'GET /doomed/s0?offset=-1');
      assert.equal((await expect(site, 200, 'GET /spared/s?offset=-1')).text, 'sparedhot');
      for (const bucket of ['bytes', 'json', 'floor', 'truncated', 'altered', 'missing', 'whole', 'spared']) {
        assert.equal((await call(`${adminUrl}/__svc/purge/${bucket}`, 'DELETE')).status, 200, bucket);
      }
      let left: string[] = [];
      await until(
        () => `only what is foreign is left: ${left.join(' ')}`,
        async () => {
          left = await store.keys();
          return left.length <= FOREIGN.length + 1;
        },
      );
      assert.deepEqual([...left].sort(), [...FOREIGN, intruder].sort());
      for (const key of FOREIGN) assert.equal((await store.get(key)).toString(), key);
      for (const node of site.nodes) assert(node.isRunning);
    });

    async function readAll(path: string, from: number, query: string): Promise<string> {
      const parts: string[] = [];
      for (let offset = from; ;) {
        const answer = await expect(site, 200, `GET ${path}?offset=${offset}${query}`);
        parts.push(answer.text);
        assert.equal(offsetOf(answer), offset + answer.text.length);
        offset = offsetOf(answer);
        if (answer.headers.get('stream-up-to-date') === 'true') return parts.join('');
        assert(answer.text !== '', 'an answer that does not reach the tail goes on');
      }
    }
  });
}
