// The usage report beyond one page, and exact over everything that changes it.
import assert from 'node:assert/strict';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { JSON_TYPE, TEXT, producer, serverSuite } from '../support/suite.ts';

interface Report {
  readonly version: number;
  readonly write_unit_bytes: number;
  readonly buckets: Record<string, Record<string, number>>;
}

serverSuite('usage report', { process: true, cores: 2, groups: 4 }, ({ server, test, expect, freshBucket }) => {
  const report = async (): Promise<{ text: string; parsed: Report }> => {
    const { text } = await expect(200, 'GET /__svc/usage', { base: server.adminUrl });
    return { text, parsed: JSON.parse(text) as Report };
  };
  const meters = (bytes: number, records: number, units: number, retained: number, streams: number): object => ({
    committed_append_bytes: bytes,
    committed_records: records,
    committed_write_units: units,
    retained_bytes: retained,
    stream_count: streams,
  });

  test('hundreds of buckets, in byte order, the same for all concurrent requests', async () => {
    const names = Array.from({ length: 600 }, (_, i) => (i % 3 === 0 ? String(i) : `page-${i}`));
    names.push('\u{1F600}', '\uff5e', '__proto__x', 'a"b', 'é');
    let next = 0;
    const create = async (): Promise<void> => {
      while (next < names.length) {
        const i = next++;
        const bucket = encodeURIComponent(names[i] as string).replace('__proto__x', '_proto_');
        // In all groups or in one.
        for (let s = 0; s < (i % 5 === 0 ? 4 : 1); s++)
          await server.client.create(`/${bucket}/s${s}`, TEXT, 'x'.repeat(i % 7));
      }
    };
    await Promise.all(Array.from({ length: 30 }, create));
    const [first, ...others] = await Promise.all([report(), report(), report()]);
    for (const other of others) assert.equal(other.text, first?.text);
    // Objects list number-like names first, so the order is that of the text.
    const listed = [...(first?.text ?? '').matchAll(/"((?:[^"\\]|\\.)*)":\{"committed/g)].map((match) =>
      JSON.parse(`"${match[1]}"`),
    ) as string[];
    const wanted = names.map((name) => name.replace('__proto__x', '_proto_'));
    assert.deepEqual(
      listed,
      wanted.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
    );
    names.forEach((name, i) => {
      const streams = i % 5 === 0 ? 4 : 1;
      const bytes = streams * (i % 7);
      const entry = first?.parsed.buckets[name.replace('__proto__x', '_proto_')];
      assert.deepEqual(entry, meters(bytes, bytes === 0 ? 0 : streams, streams, bytes, streams), name);
    });
    const head = await fetch(`${server.adminUrl}/__svc/usage`, { method: 'HEAD' });
    assert.equal(head.status, 200);
  });

  test('exact over creates, batches, duplicates, refusals, retention, deletion, purge and restarts', async () => {
    const bucket = freshBucket();
    const path = `/${bucket}/s`;
    const check = async (expected: object): Promise<void> => {
      assert.deepEqual((await report()).parsed.buckets[bucket], expected);
    };
    await expect(201, `PUT ${path}`, { headers: JSON_TYPE, body: '[1, 2]' });
    await check(meters(4, 2, 1, 4, 1));
    const body = Uint8Array.from(joinFrames(['[3]', '4', ''].map((text) => new TextEncoder().encode(text))));
    await expect(200, `POST ${path}/append-batch`, { headers: JSON_TYPE, body });
    await check(meters(8, 4, 3, 8, 1));
    const headers = { ...JSON_TYPE, ...producer('p', 0, 0) };
    for (let i = 0; i < 3; i++) {
      await expect(200, `POST ${path}/append-batch`, { headers, body: body.subarray(0, 12) });
      await check(meters(12, 6, 4, 12, 1));
    }
    await expect(400, `POST ${path}`, { headers: JSON_TYPE, body: '[' });
    await expect(400, `POST ${path}`, { headers: TEXT, body: 'x' });
    await expect(412, `POST ${path}`, { headers: { ...JSON_TYPE, 'Stream-Record-Match': '0' }, body: '1' });
    await expect(204, `PUT ${path}/attrs`, { headers: JSON_TYPE, body: '{"title":"t"}' });
    await expect(204, `PUT ${path}/snapshot?record=3`, { headers: TEXT, body: 'snapshot' });
    await check(meters(12, 6, 4, 12, 1));
    await expect(204, `PUT ${path}/retention?record=3`);
    await check(meters(12, 6, 4, 6, 1));
    for (const restart of [() => server.kill(), () => server.stop()]) {
      await restart();
      await server.start();
      await check(meters(12, 6, 4, 6, 1));
    }
    await expect(201, `PUT /${bucket}/other`, { headers: TEXT, body: 'x'.repeat(20_481) });
    await expect(204, `DELETE ${path}`);
    await check(meters(20_493, 7, 7, 20_481, 1));
    await expect(200, `DELETE /__svc/purge/${bucket}`, { base: server.adminUrl });
    await check(meters(20_493, 7, 7, 0, 0));
    await server.kill();
    await server.start();
    await check(meters(20_493, 7, 7, 0, 0));
    await expect(201, `PUT ${path}`, { headers: TEXT });
    await check(meters(20_493, 7, 8, 0, 1));
  });
});
