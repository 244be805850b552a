// A small limit of open files and more clients than it has room for: the node serves on, and no core is busy with
// nothing.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { connectionBounds, reservedFiles } from '../../src/server/file-limit.ts';
import { loadConfig } from '../../src/config/load.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { withServer } from '../support/server.ts';

const FILES = 320;
const CLIENTS = 300;
/** A loop that spins takes all of it; an idle node a hundredth. */
const WINDOW_MS = 1000;
const TICKS_PER_SECOND = 100;

/** Seconds of processor time that the process has had. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

async function connectIdle(t: TestContext, port: number): Promise<void> {
  const client = await RawClient.connect(port);
  client.socket.on('error', () => undefined);
  t.after(() => client.destroy());
}

test(`${CLIENTS} idle connections at a limit of ${FILES} open files`, async (t) => {
  const wrapper = ['sh', '-c', `ulimit -n ${FILES}; exec "$@"`, 'sh'];
  await withServer({ process: true, wrapper }, async (server) => {
    await server.logged(/the limit of 320 open files, of which the node keeps 224 for itself, leaves 96/);
    await Promise.all(Array.from({ length: CLIENTS }, () => connectIdle(t, server.port)));
    // The admin plane answers, whatever clients do.
    const read = async (): Promise<Record<string, number>> => (await server.metrics()) as Record<string, number>;
    let shown = await read();
    const refused = (): number =>
      (shown['http_connections_refused_per_address'] ?? 0) + (shown['http_connections_refused'] ?? 0);
    while (refused() + (shown['http_connections'] ?? 0) < CLIENTS) shown = await read();
    assert.ok(refused() >= CLIENTS - 96, `${refused()} were closed`);
    const beforeSeconds = cpuSeconds(server.pid);
    await delay(WINDOW_MS);
    const used = cpuSeconds(server.pid) - beforeSeconds;
    assert.ok(used < WINDOW_MS / 2000, `${used} s of processor time in a second without work`);
    await server.logged(/connections beyond a bound are closed as they come/);
    // Files are left for the work: a new stream, its bytes, a clean end.
    assert.equal((await requestOnce(server.adminPort, 'GET', '/__svc/ready')).status, 200);
    assert.equal(await server.stop(), 0);
  });
});

test('what the limit leaves, what is asked for, and when it is said that they do not fit', () => {
  const config = (...flags: readonly string[]): ReturnType<typeof loadConfig> => loadConfig(['--cores', '2', ...flags]);
  const plain = config();
  const room = 20_000 - reservedFiles(plain);
  assert.deepEqual(connectionBounds(plain, 20_000), { all: room, perAddress: room / 2, warning: undefined });
  const wanted = { ...plain, server: { ...plain.server, maxConnections: 1000, maxConnectionsPerAddress: undefined } };
  assert.deepEqual(connectionBounds(wanted, 20_000), { all: 1000, perAddress: 500, warning: undefined });
  const short = connectionBounds(wanted, 1024);
  assert.equal(short.all, 1024 - reservedFiles(plain));
  assert.match(short.warning ?? '', /server\.max_connections is 1000: raise it \(LimitNOFILE/);
  const tiny = connectionBounds(plain, 100);
  assert.deepEqual([tiny.all, tiny.perAddress], [16, 8]);
  assert.ok(tiny.warning !== undefined);
  assert.deepEqual(connectionBounds(plain, Infinity).all, 1_000_000);
});
