// Nodes inside this process, by the function that the package exports: what starts, what a start that fails says and
// closes again, and that nothing is left when a node has stopped.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { afterEach, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { type NodeOptions, type RunningNode, startNode } from '../../src/server/node.ts';
import { blocksOf, readDocument } from '../support/documents.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { freePort, freePorts } from '../support/ports.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS, until } from '../support/until.ts';

const README_MARK = 'run: test/server/embedded.test.ts';
const TEXT = { 'content-type': 'text/plain' };

/** Two rings, two channels, and the word about its log. */
const MEMORIES_OF_A_SHARD = 5;

/** Nodes of the present test, stopped behind it however it went. */
const started: RunningNode[] = [];
const folders: string[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((node) => node.stop()));
  for (const folder of folders.splice(0)) removeFolder(folder);
});

function newFolder(): string {
  const folder = temporaryFolder('embedded');
  folders.push(folder);
  return join(folder, 'data');
}

/** The least that a node needs to know, on free ports; `more` are further tables, or keys of these. */
function options(dataDir: string, more: Readonly<Record<string, object>> = {}): NodeOptions {
  const { server, raft, ...tables } = more;
  return {
    config: {
      server: { listen: '127.0.0.1:0', admin_listen: '127.0.0.1:0', ...server },
      storage: { data_dir: dataDir },
      runtime: { core_count: 1 },
      raft: { group_count: 4, ...raft },
      ...tables,
    },
  };
}

async function start(given: NodeOptions): Promise<RunningNode> {
  const node = await startNode(given);
  started.push(node);
  return node;
}

async function append(node: RunningNode, body: string): Promise<number> {
  const { port } = node.addresses.client;
  await requestOnce(port, 'PUT', '/b/s', TEXT);
  return (await requestOnce(port, 'POST', '/b/s', TEXT, body)).status;
}

async function read({ addresses }: RunningNode): Promise<string> {
  return (await requestOnce(addresses.client.port, 'GET', '/b/s')).body.toString();
}

/** Handles that keep the process alive, without those of the runner of tests. */
function handles(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => !['PipeWrap', 'TTYWrap', 'Timeout'].includes(kind));
}

/** A socket of the test's own client may close a moment behind the node. */
async function nothingLeft(before: readonly string[]): Promise<void> {
  await until(
    () => `nothing left of the node, but ${String(handles())}`,
    () => handles().length <= before.length,
  );
}

async function refusal(given: NodeOptions): Promise<string> {
  const before = handles();
  const error = await startNode(given).then(
    () => assert.fail('it started'),
    (reason: unknown) => reason,
  );
  assert(error instanceof Error);
  await nothingLeft(before);
  return error.message;
}

test('two nodes in one process have nothing in common', async () => {
  const lines: string[] = [];
  const log = { write: (line: string) => void lines.push(line) };
  const signals = (): unknown[] => process.eventNames().filter((name) => String(name).startsWith('SIG'));
  const heard = signals();
  const [one, two] = [await start({ ...options(newFolder()), log }), await start(options(newFolder()))];
  assert.deepEqual(signals(), heard, 'signals are a matter of the program');
  assert.equal(one.addresses.client.url, `http://127.0.0.1:${one.addresses.client.port}`);
  assert.notEqual(one.addresses.client.port, two.addresses.client.port);
  assert.equal(await append(one, 'one'), 204);
  assert.equal(await append(two, 'two'), 204);
  assert.deepEqual([await read(one), await read(two)], ['one', 'two']);
  assert.equal((await requestOnce(one.addresses.admin.port, 'GET', '/__svc/ready')).status, 200);
  assert.equal(lines.filter((line) => line.includes('"listening"')).length, 1, 'each log has the lines of its node');
  assert.equal(await one.stop(), 'ended');
  assert.equal(await read(two), 'two');
});

test('a node that stopped left nothing open, and starts again on its directory', async () => {
  const before = handles();
  const given = options(newFolder());
  const node = await start(given);
  assert.equal(await append(node, 'kept'), 204);
  assert.deepEqual(await Promise.all([node.stop(), node.stop()]), ['ended', 'ended']);
  assert.equal(await node.stop(), 'ended');
  await nothingLeft(before);
  assert.equal(await read(await start(given)), 'kept');
});

test('three nodes in one process form a cluster', async () => {
  const ports = [await freePort(), await freePort(), await freePort()];
  const peers = ports.map((port, i) => ({ node_id: i + 1, addr: `127.0.0.1:${port}` }));
  const secret = randomBytes(32).toString('hex');
  const nodes = await Promise.all(
    ports.map((port, i) =>
      start(
        options(newFolder(), {
          server: { cluster_listen: `127.0.0.1:${port}` },
          raft: { node_id: i + 1, init_membership: true, peers },
          cluster: { name: 'embedded', secret },
        }),
      ),
    ),
  );
  const [first, , third] = nodes;
  assert(first !== undefined && third !== undefined);
  await until('a leader takes the append', async () => (await append(first, 'hello')) === 204);
  await until('the append on another node', async () => /^(hello)+$/.test(await read(third)));
});

test('a port that is in use refuses the start', async () => {
  const other = createServer();
  const port = await freePorts(1);
  await new Promise<void>((resolve) => void other.listen(port, '127.0.0.1', resolve));
  try {
    for (const [key, plane] of [
      ['listen', 'client'],
      ['admin_listen', 'admin'],
    ] as const) {
      assert.equal(
        await refusal(options(newFolder(), { server: { [key]: `127.0.0.1:${port}` } })),
        `cannot listen on 127.0.0.1:${port} for the ${plane} plane: the port is in use by another process`,
      );
    }
  } finally {
    other.close();
  }
});

test('a directory that another node of the process uses refuses the start, and the other goes on', async () => {
  const given = options(newFolder());
  const node = await start(given);
  assert.match(await refusal(given), /^storage\.data_dir .*: in use by another process$/);
  assert.equal(await append(node, 'still here'), 204);
});

test('a configuration that cannot work refuses the start', async () => {
  const wrong = options(newFolder(), { server: { lisen: '127.0.0.1:0' } });
  assert.equal(await refusal(wrong), 'server.lisen: unknown key; did you mean server.listen?');
  assert.match(await refusal({ ...options(newFolder()), verbosity: 'loud' }), /"loud" is not a verbosity/);
});

test('a thread that dies at the start refuses it, and the directory is free afterwards', async () => {
  const dataDir = newFolder();
  const node = await start(options(dataDir));
  assert.equal(await append(node, 'kept'), 204);
  await node.stop();
  const log = join(dataDir, 'shard-0', 'log');
  renameSync(log, `${log}.aside`);
  writeFileSync(log, '');
  assert.match(await refusal(options(dataDir)), /ENOTDIR/);
  rmSync(log);
  renameSync(`${log}.aside`, log);
  assert.equal(await read(await start(options(dataDir))), 'kept');
});

test('a thread that cannot be started refuses the start, and the others end', async () => {
  const dataDir = newFolder();
  const wanted = options(dataDir, { runtime: { core_count: 2 } });
  const { SharedArrayBuffer: Real } = globalThis;
  const threads: { starts: number; readonly running: Set<Worker> } = { starts: 0, running: new Set() };
  const watch = (worker: Worker): void => {
    threads.starts++;
    threads.running.add(worker);
    worker.once('exit', () => threads.running.delete(worker));
  };
  process.on('worker', watch);
  let left = MEMORIES_OF_A_SHARD;
  globalThis.SharedArrayBuffer = class extends Real {
    constructor(sizeBytes = 0) {
      if (left-- === 0) throw new RangeError('planted: no memory');
      super(sizeBytes);
    }
  };
  try {
    assert.equal(await refusal(wanted), 'planted: no memory');
    assert(threads.starts > 0);
    assert.equal(threads.running.size, 0);
  } finally {
    globalThis.SharedArrayBuffer = Real;
    process.off('worker', watch);
  }
  assert.equal(await append(await start(wanted), 'later'), 204);
});

test('a thread that dies later is told, and the node closes itself', async () => {
  const before = handles();
  const dataDir = newFolder();
  const lines: string[] = [];
  const node = await start({ ...options(dataDir), log: { write: (line) => void lines.push(line) } });
  assert.equal(await append(node, 'before'), 204);
  rmSync(join(dataDir, 'shard-0', 'log'), { recursive: true });
  const appending = (async () => {
    while ((await append(node, 'x'.repeat(1024 * 1024)).catch(() => 0)) === 204);
  })();
  const error = await within(node.failed, PATIENCE_MS, 'the failure');
  assert.match(error.message, /ENOENT/);
  await appending;
  assert.equal(await node.stop(), 'ended');
  await nothingLeft(before);
  assert(lines.some((line) => line.includes('a shard failed; the node ends')));
});

test('the lines of the README turn a test of the reference server into one of Millrace', async () => {
  const block = blocksOf(readDocument('src/server/README.md')).find(({ comment }) => comment === README_MARK);
  assert(block !== undefined);
  const folder = join(newFolder(), '..');
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(REPO_ROOT, join(folder, 'node_modules', 'millrace'));
  symlinkSync(join(REPO_ROOT, 'node_modules', '@durable-streams'), join(folder, 'node_modules', '@durable-streams'));
  for (const [name, dropped] of [
    ['before', '+'],
    ['after', '-'],
  ] as const) {
    const kept = block.lines.filter((line) => !line.startsWith(dropped)).map((line) => line.slice(1));
    const file = join(folder, `${name}.mjs`);
    writeFileSync(file, kept.join('\n'));
    const program = run([process.execPath, file]);
    assert.deepEqual([await program.exited, program.output()], [0, 'hi\n'], name);
  }
});
