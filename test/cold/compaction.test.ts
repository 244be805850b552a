// A real server with the directory backend: a stream that grew slowly is in few objects, and a reader requests few of
// them, also after a restart and while its chunks are merged.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { RawClient } from '../support/raw-client.ts';
import { type TestServer, withServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { objectsIn } from '../support/cold-store.ts';

const APPENDS = 400;
/** Ends of chunks that a lone append leaves: of each tier below 16 KiB, and what was not looked at yet. */
const CHUNKS_MAX = 60;

const TOML = `
[storage.cold]
backend = "dir"
flush_interval = "100ms"
gc_interval = "100ms"
gc_grace = "500ms"
compaction_gc_grace = "500ms"
cache.max_size = 0
`;

const eventOf = (i: number): string => `{"event":${i}}`;

async function metrics(server: TestServer): Promise<Record<string, number>> {
  return (await server.metrics()) as Record<string, number>;
}

function objects(server: TestServer): string[] {
  return objectsIn(join(server.dataDir, 'cold'));
}

/** Reads everything there is; how many events it was. */
async function readBack(client: RawClient): Promise<number> {
  let offset = '-1';
  let count = 0;
  for (;;) {
    const answer = await client.request('GET', `/agents/timeline?offset=${offset}`);
    assert.equal(answer.status, 200, answer.body.toString());
    for (const { event } of JSON.parse(answer.body.toString()) as { event: number }[]) assert.equal(event, count++);
    if (answer.headers.get('stream-up-to-date') === 'true') return count;
    offset = answer.headers.get('stream-next-offset') ?? '';
  }
}

test('hundreds of events that came one by one lie in few objects, and are read with few requests', async () => {
  await withServer({ cores: 1, groups: 1, toml: TOML }, async (server) => {
    const headers = { 'Content-Type': 'application/json' };
    const client = await RawClient.connect(server.port);
    const admin = await RawClient.connect(server.adminPort);
    assert.equal((await client.request('PUT', '/agents/timeline', headers)).status, 201);
    for (let i = 0; i < APPENDS; i++) {
      assert.equal((await client.request('POST', '/agents/timeline', headers, Buffer.from(eventOf(i)))).status, 204);
      // As if there were a second between them. 204: the flusher was faster.
      const flushed = await admin.request('POST', '/__svc/flush-cold/agents/timeline');
      assert([200, 204].includes(flushed.status), flushed.body.toString());
      if (i % 200 === 100) assert.equal(await readBack(client), i + 1, 'while chunks are merged');
    }
    await until('compaction rests', async () => {
      const { cold_compaction_candidates: candidates, cold_compaction_running: running } = await metrics(server);
      return candidates === 0 && running === 0;
    });
    await until('the old objects are gone', async () => (await metrics(server))['cold_gc_queue_length'] === 0);
    const before = await metrics(server);
    process.stdout.write(
      `compaction: ${before['cold_flush_publishes']} flushes, ${before['cold_compaction_publishes']} merges, ` +
        `${objects(server).length} objects\n`,
    );
    assert((before['cold_flush_publishes'] as number) > APPENDS * 0.9);
    assert(objects(server).length <= CHUNKS_MAX, `${objects(server).length} objects`);
    assert.equal(objects(server).length, before['cold_objects']);
    assert.equal(before['cold_compaction_errors'], 0);
    assert.equal(before['cold_compaction_bad_sources'], 0);
    assert.equal(await readBack(client), APPENDS);
    const reads = ((await metrics(server))['cold_store_reads'] as number) - (before['cold_store_reads'] as number);
    assert(reads > 0 && reads <= CHUNKS_MAX, `${reads} requests`);
    client.destroy();
    admin.destroy();
    await server.end();
    await server.start();
    const again = await RawClient.connect(server.port);
    assert.equal(await readBack(again), APPENDS);
    again.destroy();
  });
});
