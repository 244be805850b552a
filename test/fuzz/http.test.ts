// Thousands of hostile requests against a real server: no crash, no 5xx that blames the server, no stream made by a
// path that must not reach one, no leak, and a normal append works after everything.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { createRandom, seedFromEnvironment, type Random } from '../support/random.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { withServer, type TestServer } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { attackAll, isFromHttpLibrary, type Outcome } from './attacker.ts';
import { chunkedBody, halfSent, neverReads, slowSender } from './hangers-on.ts';
import { FUZZ_BUCKET } from './attack.ts';
import { forbiddenPaths } from './hostile-paths.ts';
import { randomAttack } from './hostile.ts';

const ATTACKS_PER_PASS = IS_THOROUGH ? 4000 : 1000;
const LANES = 64;
/** Attacks between two looks at whether the server still works. */
const ATTACKS_PER_CHECK = 500;
const MIB = 1024 * 1024;
/**
 * Growth between two equal passes that is still noise: arenas of the allocator and a heap that was not collected yet.
 */
const GROWTH_BYTES_MAX = 96 * MIB;
const IDLE_TIMEOUT_MS = 30_000;
const IDLE_POLL_MS = 100;
const NEVER_READERS = 40;
const HALF_SENDERS = 60;
const SLOW_SENDERS = 40;

/** The stream of an honest client, which must stay exactly as that client left it. */
class Honest {
  readonly #server: TestServer;
  #content = '';
  #count = 0;

  constructor(server: TestServer) {
    this.#server = server;
  }

  async create(): Promise<void> {
    const { port } = this.#server;
    assert.equal((await requestOnce(port, 'PUT', '/honest/normal', { 'Content-Type': 'text/plain' })).status, 201);
    for (const [name, type] of [
      ['json', 'application/json'],
      ['s1', 'text/plain'],
      ['s2', 'text/plain'],
    ] as const) {
      assert.equal((await requestOnce(port, 'PUT', `/${FUZZ_BUCKET}/${name}`, { 'Content-Type': type })).status, 201);
    }
  }

  /** A normal append must work, and nothing else may have touched the stream. */
  async check(after: string): Promise<void> {
    assert(this.#server.isRunning, `the server died after ${after}`);
    const text = `line ${this.#count++}\n`;
    const client = await RawClient.connect(this.#server.port);
    const appended = await client.request('POST', '/honest/normal', { 'Content-Type': 'text/plain' }, text);
    assert.equal(appended.status, 204, `a normal append after ${after}: ${appended.body.toString('utf8')}`);
    this.#content += text;
    const read = await client.request('GET', '/honest/normal?offset=-1');
    assert.equal(read.body.toString('utf8'), this.#content, `the honest stream after ${after}`);
    client.destroy();
  }
}

interface Tally {
  readonly statuses: Map<number, number>;
  readonly library: Map<number, number>;
  closed: number;
  silent: number;
}

function count(outcomes: readonly Outcome[], tally: Tally): void {
  for (const outcome of outcomes) {
    if (outcome.end === 'closed') tally.closed++;
    if (outcome.end === 'silent') tally.silent++;
    for (const status of outcome.statuses) {
      tally.statuses.set(status, (tally.statuses.get(status) ?? 0) + 1);
      if (status < 500 || status === 503 || status === 507) continue;
      const sent = JSON.stringify(outcome.attack.bytes.subarray(0, 400).toString('latin1'));
      assert(
        isFromHttpLibrary(outcome, status),
        `${status} for ${outcome.attack.label}: ${sent}\n${outcome.text.slice(0, 400)}`,
      );
      tally.library.set(status, (tally.library.get(status) ?? 0) + 1);
    }
    const silentText = `no answer to a whole request, ${outcome.attack.label}`;
    assert(!(outcome.attack.complete && outcome.end === 'silent'), silentText);
  }
}

const shown = (counts: ReadonlyMap<number, number>): string =>
  [...counts]
    .sort(([a], [b]) => a - b)
    .map(([status, times]) => `${status}x${times}`)
    .join(' ') || 'none';

async function bucketsOf(server: TestServer): Promise<Map<string, number>> {
  const usage = JSON.parse((await requestOnce(server.adminPort, 'GET', '/__svc/usage')).body.toString('utf8')) as {
    readonly buckets: Readonly<Record<string, { readonly stream_count: number }>>;
  };
  return new Map(Object.entries(usage.buckets).map(([name, entry]) => [name, entry.stream_count]));
}

async function streamsOf(server: TestServer, bucket: string): Promise<string[]> {
  const listing = await requestOnce(server.port, 'GET', `/${bucket}/streams`);
  assert.equal(listing.status, 200, listing.body.toString('utf8'));
  const page = JSON.parse(listing.body.toString('utf8')) as {
    readonly streams: readonly { readonly stream_id: string }[];
  };
  return page.streams.map((stream) => stream.stream_id);
}

async function attackForbiddenPaths(server: TestServer, tally: Tally): Promise<void> {
  const waiting = forbiddenPaths();
  const outcomes = await attackAll(server.port, LANES, () => waiting.pop());
  count(outcomes, tally);
  for (const { attack: what, statuses, text } of outcomes) {
    const accepted = statuses.filter((status) => status >= 200 && status < 300);
    const reached = accepted.length > 0 && !/^(GET|HEAD) "\/__svc\/metrics"/.test(what.label);
    assert(!reached, `${what.label} must be refused, got ${statuses.join()}: ${text.slice(0, 200)}`);
  }
  assert.deepEqual(
    await streamsOf(server, FUZZ_BUCKET),
    ['json', 's1', 's2'],
    'a hostile path made or removed a stream',
  );
  const buckets = await bucketsOf(server);
  assert.deepEqual(
    [...buckets]
      .filter(([, streams]) => streams > 0)
      .map(([name]) => name)
      .sort(),
    [FUZZ_BUCKET, 'honest'],
  );
}

async function attackWithBodies(server: TestServer): Promise<string> {
  const results: string[] = [];
  for (const path of [`/${FUZZ_BUCKET}/s2`, `/v1/stream/${FUZZ_BUCKET}/s2`]) {
    const chunked = await chunkedBody(server.port, path, 34 * MIB);
    assert([0, 413].includes(chunked), `a chunked body over 32 MiB answers 413 or is cut off, not ${chunked}`);
    const declared = await requestOnce(
      server.port,
      'POST',
      path,
      { 'Content-Type': 'text/plain' },
      Buffer.alloc(33 * MIB),
    ).then(
      (response) => response.status,
      () => 0,
    );
    assert([0, 413].includes(declared), `a declared body over 32 MiB answers 413 or is cut off, not ${declared}`);
    results.push(`chunked ${chunked || 'cut off'}, declared ${declared || 'cut off'}`);
  }
  return results.join('; ');
}

/** A stream much larger than any socket buffer, for readers that never read. */
async function createBigStream(server: TestServer): Promise<void> {
  const client = await RawClient.connect(server.port);
  await client.request('PUT', `/${FUZZ_BUCKET}/big`, { 'Content-Type': 'text/plain' });
  for (let i = 0; i < 16; i++) {
    const response = await client.request(
      'POST',
      `/${FUZZ_BUCKET}/big`,
      { 'Content-Type': 'text/plain' },
      Buffer.alloc(MIB, 'b'),
    );
    assert.equal(response.status, 204);
  }
  client.destroy();
}

async function startHangersOn(server: TestServer): Promise<{ readonly sockets: Socket[]; drip(): void }> {
  const { port } = server;
  const sockets: Socket[] = [];
  const reads = ['?offset=-1', '?offset=-1&live=sse', '?offset=now&live=sse', '?offset=-1&live=long-poll'];
  for (let i = 0; i < NEVER_READERS; i++)
    sockets.push(await neverReads(port, `/${FUZZ_BUCKET}/big${reads[i % reads.length]}`));
  for (let i = 0; i < HALF_SENDERS; i++)
    sockets.push(await halfSent(port, `/${FUZZ_BUCKET}/s1`, 1000 + (i * MIB) / 4, 500));
  const slow = Buffer.from(
    `POST /${FUZZ_BUCKET}/s1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 500\r\n\r\n${'s'.repeat(500)}`,
  );
  const slows = await Promise.all(Array.from({ length: SLOW_SENDERS }, () => slowSender(port, slow)));
  sockets.push(...slows.map((sender) => sender.socket));
  return { sockets, drip: () => slows.forEach((sender) => sender.drip()) };
}

async function onePass(server: TestServer, honest: Honest, random: Random, tally: Tally): Promise<void> {
  const hangersOn = await startHangersOn(server);
  for (let sent = 0; sent < ATTACKS_PER_PASS; sent += ATTACKS_PER_CHECK) {
    let left = ATTACKS_PER_CHECK;
    count(await attackAll(server.port, LANES, () => (left-- > 0 ? randomAttack(random) : undefined)), tally);
    hangersOn.drip();
    // Feeds the event streams that are never read.
    await requestOnce(
      server.port,
      'POST',
      `/${FUZZ_BUCKET}/big`,
      { 'Content-Type': 'text/plain' },
      Buffer.alloc(MIB / 4, 'f'),
    );
    await honest.check(`${sent + ATTACKS_PER_CHECK} attacks, SEED=${random.seed}`);
  }
  for (const socket of hangersOn.sockets) socket.destroy();
  await nextTurn();
}

/** A server without clients must have none of these. */
const GAUGES = ['sse_readers', 'long_poll_waiters', 'http_inflight_body_bytes', 'pending_requests'] as const;

/** Waits until the server has released everything its clients held, then takes the lowest figure it settles at. */
async function memoryAtRest(server: TestServer): Promise<{ residentBytes: number; anonymousBytes: number }> {
  const deadlineMs = performance.now() + IDLE_TIMEOUT_MS;
  for (let held = 1; held > 0;) {
    const answer = await requestOnce(server.adminPort, 'GET', '/__svc/metrics');
    const metrics = JSON.parse(answer.body.toString('utf8')) as Readonly<Record<string, number>>;
    held = GAUGES.reduce((sum, name) => sum + (metrics[name] ?? Number.NaN), 0);
    const shownGauges = GAUGES.map((name) => `${name} ${metrics[name]}`).join(', ');
    assert(
      held === 0 || performance.now() < deadlineMs,
      `all clients have gone, but the server still holds: ${shownGauges}`,
    );
    if (held > 0) await delay(IDLE_POLL_MS);
  }
  let best = server.memory();
  let unchanged = 0;
  // The process has no event for "idle": it is idle when its memory no longer falls from one look to the next.
  while (unchanged < 10 && performance.now() < deadlineMs) {
    await delay(IDLE_POLL_MS);
    const now = server.memory();
    unchanged = now.anonymousBytes < best.anonymousBytes ? 0 : unchanged + 1;
    if (now.anonymousBytes < best.anonymousBytes) best = now;
  }
  return best;
}

const mib = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`;

for (const cores of IS_THOROUGH ? [1, 2] : [2]) {
  test(`hostile requests, --cores ${cores}`, async () => {
    const random = createRandom(seedFromEnvironment());
    process.stdout.write(`fuzz, --cores ${cores}: SEED=${random.seed}\n`);
    await withServer({ process: true, cores }, async (server) => {
      const honest = new Honest(server);
      const tally: Tally = { statuses: new Map(), library: new Map(), closed: 0, silent: 0 };
      await honest.create();
      const atStart = server.memory();
      await attackForbiddenPaths(server, tally);
      await honest.check('forbidden paths');
      const bodies = await attackWithBodies(server);
      await honest.check('bodies over the limit');
      await createBigStream(server);
      await onePass(server, honest, random, tally);
      const afterFirst = await memoryAtRest(server);
      await attackWithBodies(server);
      await onePass(server, honest, random, tally);
      const afterSecond = await memoryAtRest(server);
      process.stdout.write(
        `fuzz, --cores ${cores}: ${2 * ATTACKS_PER_PASS + forbiddenPaths().length} attacks; statuses ${shown(tally.statuses)}; ` +
          `5xx by the HTTP library itself: ${shown(tally.library)}; ${tally.closed} closed without an answer, ${tally.silent} left waiting; ` +
          `over 32 MiB: ${bodies}; anonymous memory ${mib(atStart.anonymousBytes)} at start, ${mib(afterFirst.anonymousBytes)} after the ` +
          `first pass, ${mib(afterSecond.anonymousBytes)} after the second (resident ${mib(afterSecond.residentBytes)})\n`,
      );
      const growth = afterSecond.anonymousBytes - afterFirst.anonymousBytes;
      assert(growth < GROWTH_BYTES_MAX, `the second of two equal passes cost ${mib(growth)}: a leak`);
    });
  });
}
