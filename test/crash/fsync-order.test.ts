// No acknowledgement leaves the socket before the disk has confirmed what it acknowledges: seen from outside, with
// strace.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { withCluster } from '../support/cluster.ts';
import { RawClient } from '../support/raw-client.ts';
import { removeFolder, run, temporaryFolder, withServer, within, type TestServer } from '../support/server.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { earlyAcknowledgements, parseTrace, type Question, type TraceFacts } from './trace.ts';

const APPENDS = 60;
/** A slow disk takes so long, and a thread waits for its syncs after some of them. */
const SYNC_US = 5000;
const SLOW_APPENDS = 150;
const CALLS = 'pwrite64,pwritev,pwritev2,writev,write,fdatasync,fsync,msync,sendto,sendmsg';
/** strace shows so much of each buffer: the payload must be inside. */
const SHOWN_BYTES = 262_144;
const TOOL_TIMEOUT_MS = 120_000;
const O_DSYNC = 0o10000;

async function ensureStrace(): Promise<void> {
  if ((await run(['sh', '-c', 'command -v strace']).exited) === 0) return;
  const hint = 'this test needs strace: apt-get install strace';
  assert.equal(process.getuid?.(), 0, hint);
  const install = run(['sh', '-c', 'apt-get install -y strace || (apt-get update && apt-get install -y strace)']);
  assert.equal(await within(install.exited, TOOL_TIMEOUT_MS, 'apt-get'), 0, `${hint}\n${install.output()}`);
}

/** Descriptors on segments of the log that were opened with O_DSYNC. */
function dsyncDescriptors(server: TestServer): Set<number> {
  const found = new Set<number>();
  for (const name of readdirSync(`/proc/${server.pid}/fd`)) {
    const [link, info] = [`/proc/${server.pid}/fd/${name}`, `/proc/${server.pid}/fdinfo/${name}`];
    // Sockets come and go while the list is read; data files stay open.
    if (!existsSync(info) || !isLogFile(link, server.dataDir)) continue;
    const flags = /^flags:\s+(\d+)/m.exec(readFileSync(info, 'utf8'))?.[1] ?? '0';
    if ((Number.parseInt(flags, 8) & O_DSYNC) !== 0) found.add(Number(name));
  }
  return found;
}

function isLogFile(link: string, dataDir: string): boolean {
  try {
    const path = readlinkSync(link);
    return path.startsWith(dataDir) && path.includes('/log/segment-');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Runs `body` with strace attached to all threads of the server; the result is the trace. */
async function traced(server: TestServer, body: () => Promise<void>, more: readonly string[] = []): Promise<string> {
  const scratch = temporaryFolder('strace');
  const file = join(scratch, 'trace.txt');
  const flags = ['-f', '-tt', '-yy', '-s', String(SHOWN_BYTES), '-e', `trace=${CALLS}`, ...more, '-o', file];
  const strace = run(['strace', ...flags, '-p', String(server.pid)]);
  try {
    const attached = new Promise<void>((resolve) => {
      strace.child.stderr?.on('data', () => {
        if (/attached/.test(strace.output())) resolve();
      });
    });
    const failed = strace.exited.then((code) => {
      throw new Error(`strace ended with ${code}: ${strace.output()}`);
    });
    failed.catch(() => undefined);
    await within(Promise.race([attached, failed]), TOOL_TIMEOUT_MS, 'strace attaching');
    await body();
    strace.child.kill('SIGINT');
    await within(strace.exited, TOOL_TIMEOUT_MS, 'strace detaching');
    return readFileSync(file, 'utf8');
  } finally {
    strace.child.kill('SIGKILL');
    removeFolder(scratch);
  }
}

async function append(client: RawClient, i: number): Promise<Question> {
  const payload = `fsync-probe-${String(i).padStart(4, '0')}-end`;
  const producer = i % 3 === 0 ? { 'Producer-Id': `p${i}`, 'Producer-Epoch': 0, 'Producer-Seq': 0 } : {};
  const path = i % 2 === 0 ? `/order/s${i % 7}` : `/v1/stream/order/s${i % 7}`;
  const response = await client.request('POST', path, { 'Content-Type': 'text/plain', ...producer }, payload);
  assert.equal(response.status, i % 3 === 0 ? 200 : 204, response.body.toString('utf8'));
  return { payload, answer: `HTTP/1.1 ${response.status}` };
}

/** A leader with one shard follows below. */
for (const cores of IS_THOROUGH ? [1, 2] : [2]) {
  test(`no acknowledgement before the fsync that covers it, --cores ${cores}`, async () => {
    await ensureStrace();
    await withServer({ process: true, cores }, async (server) => {
      const client = await RawClient.connect(server.port);
      for (let i = 0; i < 7; i++) {
        const created = await client.request('PUT', `/order/s${i}`, { 'Content-Type': 'text/plain' });
        assert.equal(created.status, 201);
      }
      const questions: Question[] = [];
      const trace = await traced(server, async () => {
        for (let i = 0; i < APPENDS; i++) questions.push(await append(client, i));
        // The client may see an answer before strace sees the call that sent it return: one more exchange covers the
        // last.
        for (let i = 0; i < 2; i++) await client.request('HEAD', '/order/s0');
      });
      client.destroy();
      const facts: TraceFacts = { dsyncFds: dsyncDescriptors(server), logPath: '/log/segment-', port: server.port };
      const calls = parseTrace(trace);
      const findings = earlyAcknowledgements(calls, questions, facts);
      assert.equal(findings.length, 0, findings.join('\n'));
      const syncs = calls.filter(
        (call) => call.name === 'fdatasync' || call.name === 'fsync' || call.name === 'msync',
      ).length;
      process.stdout.write(
        `fsync order, --cores ${cores}: ${questions.length} acknowledgements, each after write and sync of its record ` +
          `(${calls.length} calls seen, ${syncs} syncs, descriptors of the log ${facts.dsyncFds.size > 0 ? 'O_DSYNC' : 'not O_DSYNC'})\n`,
      );
    });
  });
}

test('no acknowledgement before the fsync that covers it, on a slow disk, whose syncs have a thread', async () => {
  await ensureStrace();
  await withCluster({ process: true, cores: 1, groups: 1 }, async (cluster) => {
    const server = cluster.node(await cluster.leaderOf(0));
    const { port } = server;
    const client = await RawClient.connect(port);
    for (let i = 0; i < 7; i++) await client.request('PUT', `/order/s${i}`, { 'Content-Type': 'text/plain' });
    const questions: Question[] = [];
    const asking = async (): Promise<void> => {
      for (let i = 0; i < SLOW_APPENDS; i++) questions.push(await append(client, i));
      for (let i = 0; i < 2; i++) await client.request('HEAD', '/order/s0');
    };
    const trace = await traced(server, asking, ['-e', `inject=fdatasync:delay_exit=${SYNC_US}`]);
    client.destroy();
    const calls = parseTrace(trace);
    const findings = earlyAcknowledgements(calls, questions, { dsyncFds: new Set(), logPath: '/log/segment-', port });
    assert.equal(findings.length, 0, findings.join('\n'));
    const ofLog = calls.filter(({ file }) => file.includes('/log/segment-'));
    const writers = new Set(ofLog.filter(({ name }) => name === 'pwrite64').map(({ thread }) => thread));
    const behind = ofLog.filter(({ name, thread }) => name === 'fdatasync' && !writers.has(thread));
    assert(behind.length > 0, 'a thread of its own syncs');
    process.stdout.write(
      `fsync order, slow disk: ${questions.length} acknowledgements, ${behind.length} syncs by a thread\n`,
    );
  });
});
