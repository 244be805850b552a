// Between the beginning and the end of an import its streams are invisible on every path.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { test } from 'node:test';
import { requestOnce } from '../../support/raw-client.ts';
import { until } from '../../support/until.ts';
import { type TestServer, withServer } from '../../support/server.ts';
import { writeLargeStream } from '../large-stream.ts';

const IMPORT = '/__svc/backup/group/0/import';
const TOML = '[storage.cold]\nbackend = "dir"\nflush_interval = "1h"\n';

async function beginUpload(server: TestServer, document: Buffer, bytes: number): Promise<Socket> {
  const socket = connect({ port: server.adminPort, host: '127.0.0.1' });
  // The node may be killed under it.
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(`POST ${IMPORT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${document.length}\r\n\r\n`);
  socket.write(document.subarray(0, bytes));
  return socket;
}

interface GroupRow {
  readonly last_applied: number;
  readonly importing: boolean;
}

async function groupOf(server: TestServer): Promise<GroupRow> {
  const [group] = (await server.metrics())['raft_groups'] as GroupRow[];
  assert.ok(group !== undefined);
  return group;
}

/** Begins half of an upload; returns when its BEGIN and, behind that, the first rows are applied. */
async function uploadHalf(server: TestServer, document: Buffer): Promise<Socket> {
  // The leader's own first entry counts too.
  await until('ready', async () => (await requestOnce(server.adminPort, 'GET', '/__svc/ready')).status === 200);
  const { last_applied: before } = await groupOf(server);
  const socket = await beginUpload(server, document, document.length >> 1);
  await until('the first rows are applied', async () => {
    const group = await groupOf(server);
    return group.importing && group.last_applied >= before + 2;
  });
  return socket;
}

test('a flush of one stream waits for the end of an import, and leaves nothing behind when that is undone', async () => {
  await withServer({ cores: 1, groups: 1 }, async (source) => {
    await writeLargeStream(source.port, 6);
    const { body: document } = await requestOnce(source.adminPort, 'GET', '/__svc/backup/group/0');
    await withServer({ cores: 1, groups: 1, toml: TOML }, async (copy) => {
      const socket = await uploadHalf(copy, document);
      const flush = await requestOnce(copy.adminPort, 'POST', '/__svc/flush-cold/large/stream');
      assert.equal(flush.status, 503, flush.body.toString());
      socket.destroy();
      let head = 503;
      await until('the import is undone', async () => {
        head = (await requestOnce(copy.port, 'HEAD', '/large/stream')).status;
        return head !== 503;
      });
      assert.equal(head, 404);
      assert.equal((await requestOnce(copy.port, 'PUT', '/large/stream')).status, 201);
    });
  });
});

test('an import that was given up with its node is undone by an import of nothing', async () => {
  await withServer({ cores: 1, groups: 1 }, async (source) => {
    await writeLargeStream(source.port, 4);
    const { body: document } = await requestOnce(source.adminPort, 'GET', '/__svc/backup/group/0');
    await withServer({ process: true, cores: 1, groups: 1 }, async (copy) => {
      const socket = await uploadHalf(copy, document);
      await copy.kill();
      socket.destroy();
      await copy.start();
      assert.equal((await requestOnce(copy.port, 'PUT', '/other/stream')).status, 503);
      assert.equal((await groupOf(copy)).importing, true);
      const undone = await requestOnce(copy.adminPort, 'POST', IMPORT);
      assert.equal(undone.status, 400, undone.body.toString());
      assert.equal((await requestOnce(copy.port, 'PUT', '/other/stream')).status, 201);
      assert.equal((await requestOnce(copy.port, 'HEAD', '/large/stream')).status, 404);
    });
  });
});
