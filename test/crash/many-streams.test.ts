// Very many streams on disk: the server must come back from SIGKILL and from a clean stop, and serve them. Times are
// printed for people; only readiness and content are asserted. STREAMS=200000 for the figures of
// src/operator/README.md.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { withServer, type TestServer } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const STREAMS = Number(process.env['STREAMS'] ?? (IS_THOROUGH ? 20_000 : 5000));
/** One request on the way per connection: uWebSockets.js closes a connection that pipelines behind a pending answer. */
const CONNECTIONS = 256;
const SAMPLES = 1000;
/** A refused create is tried again; more refusals in a row mean that the server is not working at all. */
const ATTEMPTS_MAX = 100;

const nameOf = (i: number): string => `/many/stream-${i}`;
const bodyOf = (i: number): string => `content of ${i}`;

async function create(client: RawClient, i: number): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const response = await client.request('PUT', nameOf(i), { 'Content-Type': 'text/plain' }, bodyOf(i));
    if (response.status === 201 || response.status === 200) return;
    const refused = response.status === 503 && attempt < ATTEMPTS_MAX;
    assert(refused, `create of stream ${i}: ${response.status} ${response.body.toString('utf8')}`);
  }
}

async function createAll(port: number): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    const client = await RawClient.connect(port);
    while (next < STREAMS) await create(client, next++);
    client.destroy();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
}

async function readSamples(server: TestServer, seed: number): Promise<void> {
  const random = createRandom(seed);
  const client = await RawClient.connect(server.port);
  const numbers = [0, STREAMS - 1, ...Array.from({ length: SAMPLES }, () => random.int(0, STREAMS - 1))];
  for (const i of numbers) {
    const answer = await client.request('GET', `${nameOf(i)}?offset=-1`);
    assert.equal(answer.status, 200, `stream ${i} after the restart`);
    assert.equal(answer.body.toString('utf8'), bodyOf(i));
  }
  client.destroy();
  const usage = JSON.parse((await requestOnce(server.adminPort, 'GET', '/__svc/usage')).body.toString('utf8')) as {
    readonly buckets: Readonly<Record<string, { readonly stream_count: number }>>;
  };
  assert.equal(usage.buckets['many']?.stream_count, STREAMS);
}

test(`restart with ${STREAMS} streams on disk, after SIGKILL and after a clean stop`, async () => {
  const seed = seedFromEnvironment();
  await withServer({ process: true, cores: 1 }, async (server) => {
    const startedAtMs = performance.now();
    await createAll(server.port);
    const createdMs = performance.now() - startedAtMs;
    await server.kill();
    const afterKillMs = await server.start();
    await readSamples(server, seed);
    assert.equal(await server.stop(), 0);
    const afterStopMs = await server.start();
    await readSamples(server, seed);
    const { anonymousBytes, residentBytes } = server.memory();
    process.stdout.write(
      `many streams: ${STREAMS} created in ${Math.round(createdMs)} ms; ready ${Math.round(afterKillMs)} ms after SIGKILL, ` +
        `${Math.round(afterStopMs)} ms after a clean stop; memory ${Math.round(residentBytes / 2 ** 20)} MiB resident, ` +
        `${Math.round(anonymousBytes / 2 ** 20)} MiB anonymous (SEED=${seed})\n`,
    );
  });
});
