// A node that restarts knows its exports: those that were cut, and those that it had sent whole. backup-create goes on.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { type Server, type ServerResponse, createServer, request as ask } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { ExportBook } from '../../../src/backup/export/export-book.ts';
import { ExportHistory } from '../../../src/backup/export/export-history.ts';
import { ctl, scratchFile, startCtl } from '../../support/ctl.ts';
import { requestOnce } from '../../support/raw-client.ts';
import { type TestServer, removeFolder, temporaryFolder, within, withServer } from '../../support/server.ts';
import { PATIENCE_MS, until } from '../../support/until.ts';
import { writeLargeStream } from '../large-stream.ts';

const MEBIBYTES = 8;

/** Stands in front of the admin plane, and holds back the first group that is sent behind its first piece. */
class SlowFront {
  readonly #server: Server;
  #held: ServerResponse | undefined;

  constructor(node: TestServer) {
    this.#server = createServer((call, response) => {
      const options = { host: '127.0.0.1', port: node.adminPort, path: call.url, method: call.method, agent: false };
      const asked = ask(options, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.on('error', () => response.destroy());
        if (this.#held === undefined && call.url?.includes('/group/') === true) {
          this.#held = response;
          answer.once('data', (piece: Buffer) => void (response.write(piece), answer.pause()));
        } else {
          answer.pipe(response);
        }
      });
      asked.on('error', () => response.destroy()).end();
    });
  }

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  get isHolding(): boolean {
    return this.#held !== undefined;
  }

  /** A reader that takes nothing does not see the end by itself. */
  cut(): void {
    this.#held?.destroy();
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

async function infoOf(server: TestServer): Promise<Record<string, readonly Record<string, unknown>[] | undefined>> {
  const answer = await requestOnce(server.adminPort, 'GET', '/__svc/backup/info');
  return JSON.parse(answer.body.toString()) as Record<string, Record<string, unknown>[]>;
}

for (const how of ['stop', 'kill'] as const) {
  test(`backup-create says that its only node was restarted, and has the group sent again (${how})`, async () => {
    const folder = temporaryFolder('restarted');
    await withServer({ process: how === 'kill', cores: 1, groups: 1 }, async (server) => {
      await writeLargeStream(server.port, MEBIBYTES);
      const front = new SlowFront(server);
      try {
        const nodes = [{ id: 1, host: '127.0.0.1', admin_port: await front.listen() }];
        const config = scratchFile('c.json', JSON.stringify({ nodes }));
        const location = join(folder, 'backup');
        const run = startCtl(['backup-create', '--config', config, '--location', location]);
        await until('a group is under way', () => front.isHolding);
        const book = join(server.dataDir, 'exports.json');
        await until(
          'the node has noted it',
          () => existsSync(book) && readFileSync(book, 'utf8').includes('since_unix_ms'),
        );
        await server[how]();
        front.cut();
        await server.start();
        assert.equal(await within(run.ended, PATIENCE_MS, 'backup-create'), 0, run.stderr);
        const said = /^node 1: the node was restarted while it sent the group, from 2\S+Z on; it sends group 0 again$/m;
        assert.match(run.stderr, said);
        assert.match(run.stdout, /^backup created: /);
        assert.equal((await ctl(['backup-verify', '--location', location])).code, 0);
        const {
          exports_finished: finished,
          exports_running: running,
          exports_ended_early: ended,
        } = await infoOf(server);
        assert.deepEqual([finished?.length, running, ended], [1, undefined, undefined]);
        await server[how]();
        await server.start();
        assert.deepEqual((await infoOf(server))['exports_finished'], finished, 'known over the next restart, too');
      } finally {
        front.close();
      }
    });
    removeFolder(folder);
  });
}

test('what a start finds: cut exports by group, and nothing in a file that is not understood', async () => {
  const folder = temporaryFolder('exports');
  const book = new ExportBook(folder);
  const again = new ExportBook(folder);
  const open = (): ExportHistory => new ExportHistory({ nowMs: () => 86_400_000 }, again);
  const history = new ExportHistory({ nowMs: () => 1000 }, book);
  for (const group of [0, 1, 2, 3]) history.begun(group);
  history.over(0, true);
  history.endedEarly(1, { code: 'volume-short', reason: 'no room' });
  history.over(1, false);
  history.stopping();
  history.over(2, false);
  history.endedEarly(3, { code: 'shard-refused', reason: 'it stops' });
  history.over(3, false);
  await book.settled();
  const reason = 'the node was restarted while it sent the group, from 1970-01-01T00:00:01.000Z on';
  const cut = (group: number): object => {
    return { raft_group_id: group, code: 'node-restarted', reason, ended_unix_ms: 86_400_000 };
  };
  assert.deepEqual(open().told, {
    exports_finished: [{ raft_group_id: 0, finished_unix_ms: 1000 }],
    exports_ended_early: [
      { raft_group_id: 1, code: 'volume-short', reason: 'no room', ended_unix_ms: 1000 },
      ...[cut(2), cut(3)],
    ],
  });
  await again.settled();
  const file = join(folder, 'exports.json');
  const rows = { exports_finished: [{ raft_group_id: 0, finished_unix_ms: 1 }, { raft_group_id: 1 }, null, 7] };
  for (const [text, count] of [
    ['{"format":1', 0],
    ['null', 0],
    [JSON.stringify({ format: 2, ...rows }), 0],
    ...[{ since_unix_ms: 9e15 }, { since_unix_ms: -1 }, { since_unix_ms: 1, raft_group_id: 1e9 }].map(
      (row) => [JSON.stringify({ format: 1, exports_running: [{ raft_group_id: 0, ...row }] }), 0] as const,
    ),
    [JSON.stringify({ format: 1, exports_running: 7, exports_ended_early: [{ code: 'x' }], ...rows }), 1],
  ] as const) {
    writeFileSync(file, text);
    assert.equal(open().told.exports_finished?.length ?? 0, count, text);
    assert.equal(open().told.exports_ended_early, undefined, text);
  }
  removeFolder(folder);
});
