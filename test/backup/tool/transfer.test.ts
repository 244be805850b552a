// Large bodies between the tool and a node that pauses, dies or answers early. The node is a fake, so that it can.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { download, upload } from '../../../src/backup/tool/transfer.ts';
import { readClusterFile } from '../../../src/nodes/cluster-file.ts';
import { Cluster } from '../../../src/nodes/cluster.ts';
import { Failure, Interrupted } from '../../../src/nodes/failure.ts';
import { clusterFileOf } from '../../support/ctl.ts';

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A node that answers does so within this, also on a machine that stalls. */
const TIMEOUT_MS = 2000;
/** For nodes that are never to answer: to be late changes nothing. */
const SHORT_MS = 100;
const INFO = '/__svc/backup/info';
const HEADERS = { 'x-svc-backup-format': '1', 'x-svc-backup-commit-index': '7' };

interface World {
  readonly cluster: Cluster;
  readonly node: Cluster['nodes'][number];
  /** Resolves when the node was asked for something small for the so-many-th time. */
  probed(times: number): Promise<void>;
  readonly interrupt: AbortController;
}

async function start(t: TestContext, transfer: Answer, probe: Answer, timeoutMs = TIMEOUT_MS): Promise<World> {
  let probes = 0;
  const waiting = new Map<number, () => void>();
  const server = createServer((request, response) => {
    request.on('error', () => undefined);
    if (request.url !== INFO) return transfer(request, response);
    waiting.get(++probes)?.();
    return probe(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const interrupt = new AbortController();
  const file = clusterFileOf({ adminPort: port });
  const options = { timeoutMs, token: undefined, ca: undefined, signal: interrupt.signal };
  const cluster = new Cluster(await readClusterFile(file, process), options);
  const probed = (times: number): Promise<void> =>
    new Promise((resolve) => (probes >= times ? resolve() : waiting.set(times, resolve)));
  return { cluster, node: cluster.node(1), probed, interrupt };
}

const alive: Answer = (_, response) => void response.end('{}');
const silent: Answer = () => undefined;

async function textOf(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  let text = '';
  for await (const piece of pieces) text += Buffer.from(piece).toString();
  return text;
}

async function* pieces(...texts: string[]): AsyncIterable<Uint8Array> {
  for (const text of texts) yield await Promise.resolve(Buffer.from(text));
}

test('a transfer may rest for as long as the node answers something else', async (t) => {
  const world = await start(
    t,
    (_, response) => {
      void world.probed(1).then(async () => {
        response.writeHead(200, HEADERS).write('one ');
        await world.probed(2);
        return response.end('two');
      });
    },
    alive,
  );
  const { commitIndex, pieces: got } = await download(world.cluster, world.node, '/x');
  assert.equal(commitIndex, 7);
  assert.equal(await textOf(got), 'one two');
});

test('an upload that the node works on for long is waited for', async (t) => {
  const world = await start(
    t,
    (request, response) => {
      void textOf(request as AsyncIterable<Uint8Array>).then(async (text) => {
        await world.probed(2);
        return response.end(`took ${text}`);
      });
    },
    alive,
  );
  assert.deepEqual(
    await upload(world.cluster, world.node, { path: '/x', headers: {}, size: 6, pieces: pieces('abc', 'def') }),
    {
      status: 200,
      text: 'took abcdef',
      hadToken: false,
    },
  );
});

test('a node that answers nothing any more ends the transfer', async (t) => {
  const dumb = await start(t, silent, silent, SHORT_MS);
  const failure = { name: 'Error', message: /^http:\S+ did not answer within 0\.1 s$/ };
  await assert.rejects(download(dumb.cluster, dumb.node, '/x'), failure);
  await assert.rejects(
    upload(dumb.cluster, dumb.node, { path: '/x', headers: {}, size: 1, pieces: pieces('a') }),
    failure,
  );
  const begun = await start(t, (_, response) => void response.writeHead(200, HEADERS).write('one '), silent);
  const { pieces: got } = await download(begun.cluster, begun.node, '/x');
  await assert.rejects(textOf(got), { name: 'Error', message: /^http:\S+ did not answer within 2 s$/ });
});

test('a transfer that is cut, refused or interrupted is a sentence', async (t) => {
  const cut = await start(
    t,
    (_, response) => {
      response.writeHead(200, HEADERS);
      response.write('one ', () => response.destroy());
    },
    alive,
  );
  const { pieces: got } = await download(cut.cluster, cut.node, '/x');
  await assert.rejects(textOf(got), (error: Error) => {
    assert(error instanceof Failure);
    assert.match(error.message, /^http:\S+ ended the transfer early \(connection lost\)$/);
    return true;
  });
  const other = await start(t, (_, response) => void response.end('<html>'), alive);
  await assert.rejects(download(other.cluster, other.node, '/x'), /not a backup that this program knows$/);
  const full = await start(t, (_, response) => void response.writeHead(507).end('no room\n'), alive);
  await assert.rejects(download(full.cluster, full.node, '/x'), /^Error: it answered 507 \(no room\)$/);
  // Before it has everything.
  const early = await upload(full.cluster, full.node, { path: '/x', headers: {}, size: 10, pieces: pieces('abc') });
  assert.deepEqual(early, { status: 507, text: 'no room\n', hadToken: false });

  const stopped = await start(t, () => stopped.interrupt.abort(), alive);
  await assert.rejects(download(stopped.cluster, stopped.node, '/x'), Interrupted);
  const broken = await start(t, silent, alive);
  const source = (async function* (): AsyncIterable<Uint8Array> {
    yield await Promise.resolve(Buffer.from('a'));
    throw new Error('the disk is gone');
  })();
  await assert.rejects(
    upload(broken.cluster, broken.node, { path: '/x', headers: {}, size: 9, pieces: source }),
    /^Error: the disk is gone$/,
  );
});
