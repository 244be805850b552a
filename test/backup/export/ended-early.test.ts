// An export that its node ends: the answer is cut, and /info says why.
import { QUERIES } from '../../../src/protocol/operations.ts';
import assert from 'node:assert/strict';
import { type IncomingMessage, get } from 'node:http';
import { test } from 'node:test';
import { errorNumber } from '../../../src/base/errors.ts';
import type { ExportSink } from '../../../src/backup/ports.ts';
import type { ShardGateway } from '../../../src/ports.ts';
import { ExportHistory, type ExportMemory } from '../../../src/backup/export/export-history.ts';
import { exportGroup } from '../../../src/backup/export/exporter.ts';
import type { ExportTaker } from '../../../src/backup/export/export-thread.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { queryOf } from '../../support/asked-query.ts';
import { mountSmallDisk } from '../../crash/small-disk.ts';
import { requestOnce } from '../../support/raw-client.ts';
import { type TestServer, withServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { MIB, writeLargeStream } from '../large-stream.ts';
import { failingThreads } from '../../support/failing-threads.ts';

const DISK_BYTES = 64 * MIB;
/** More than the sockets between them hold. */
const MEBIBYTES = 16;

async function infoOf(server: TestServer): Promise<Record<string, unknown>> {
  const answer = await requestOnce(server.adminPort, 'GET', '/__svc/backup/info');
  return JSON.parse(answer.body.toString()) as Record<string, unknown>;
}

test('a volume that runs short ends an export, the node says so until the group is exported again', async (t) => {
  const { disk, reason } = await mountSmallDisk(DISK_BYTES);
  if (disk === undefined) return t.skip(reason);
  try {
    await withServer(
      { process: true, cores: 1, groups: 1, dataDir: disk.path, wrapper: disk.enter },
      async (server) => {
        await writeLargeStream(server.port, MEBIBYTES);
        const path = '/__svc/backup/group/0';
        const answer = await new Promise<IncomingMessage>((resolve, reject) => {
          get({ port: server.adminPort, host: '127.0.0.1', path, agent: false }, resolve).on('error', reject);
        });
        const from = server.log().length;
        const fillers: string[] = [];
        await until('the export ends early', () => {
          // Half of what is left above twice the reserve would do. A short volume gets back free segments of the log.
          const spare = disk.freeBytes() - 4 * MIB;
          const name = `filler-${fillers.length}`;
          if (spare > 0) {
            disk.fill(name, spare);
            fillers.push(name);
          }
          return /an export ended early/.test(server.log().slice(from));
        });
        await assert.rejects(async () => {
          for await (const piece of answer as AsyncIterable<Uint8Array>) void piece;
        });
        const { exports_ended_early: ended, ...rest } = await infoOf(server);
        const { cluster_id: id } = rest;
        const quiet = { format_version: 1, raft_group_count: 1, cluster_id: id, restored_from: [] };
        assert.deepEqual(rest, quiet);
        const [{ ended_unix_ms: endedMs, ...one } = {}, ...more] = ended as Record<string, unknown>[];
        assert.deepEqual(
          [one, more],
          [{ raft_group_id: 0, code: 'volume-short', reason: 'the volume is short of room, which writes need' }, []],
        );
        assert(typeof endedMs === 'number' && Math.abs(Date.now() - endedMs) < 3_600_000);
        for (const name of fillers) disk.remove(name);
        assert.equal((await requestOnce(server.adminPort, 'GET', path)).status, 200);
        const { exports_finished: finished, ...after } = await infoOf(server);
        assert.deepEqual(after, quiet);
        const [{ finished_unix_ms: finishedMs, ...whole } = {}, ...others] = finished as Record<string, unknown>[];
        assert.deepEqual([whole, others], [{ raft_group_id: 0 }, []]);
        assert(typeof finishedMs === 'number' && finishedMs >= endedMs);
      },
    );
  } finally {
    await disk.dispose();
  }
});

test('a thread of exports that does not start ends each export with the reason', async () => {
  await withServer(
    { process: true, cores: 1, groups: 1, env: failingThreads('Array.isArray(workerData)') },
    async (server) => {
      for (let times = 0; times < 2; times++) {
        const { status } = await requestOnce(server.adminPort, 'GET', '/__svc/backup/group/0');
        assert.equal(status, 500);
        const { exports_ended_early: ended } = await infoOf(server);
        const [one] = ended as Record<string, unknown>[];
        assert.deepEqual(
          [one?.['code'], one?.['reason']],
          ['read-failed', 'the thread of exports: Error: planted: this thread does not start'],
        );
      }
    },
  );
});

const NO_MEMORY: ExportMemory = {
  read: () => ({ exports_running: [], exports_finished: [], exports_ended_early: [] }),
  write: () => undefined,
};
const unused = (): never => assert.fail('exports do not use this');

test('a node keeps the end of the last export of each group, in a line', () => {
  let nowMs = 0;
  const ended = new ExportHistory({ nowMs: () => ++nowMs }, NO_MEMORY);
  const running = () => (ended.told.exports_running ?? []).map(({ raft_group_id: group }) => group);
  const endedEarly = () => ended.told.exports_ended_early ?? [];
  let holdCode = 0;
  const gateway: ShardGateway = {
    groupCount: 4,
    shardCount: 1,
    groupOf: unused,
    send: (request, { onReply }) => {
      const isHold = QUERIES.exportGroup.request.read(queryOf(request)).step === 'hold';
      const reply = new Reply();
      QUERIES.exportGroup.result.write(reply, { id: 1, appliedCommands: 0, origin: '' });
      reply.code = isHold ? holdCode : 0;
      onReply(reply);
      return true;
    },
    openTopic: unused,
    closeTopic: unused,
  };
  let taker: ExportTaker | undefined;
  let timers: (() => void)[] = [];
  const run = { left: () => undefined, close: () => undefined };
  const parts = {
    gateway,
    readers: {
      open: (_shard: number, _order: unknown, one: ExportTaker) => {
        taker = one;
        return run;
      },
    },
    runtime: {
      monotonicMs: () => 0,
      setTimer: (_delayMs: number, timer: () => void) => {
        timers.push(timer);
        return () => undefined;
      },
    },
    delayMs: () => 0,
    begun: (group: number) => ended.begun(group),
    over: (group: number, isWhole: boolean) => ended.over(group, isWhole),
    endedEarly: (group: number, why: Parameters<ExportHistory['endedEarly']>[1]) => ended.endedEarly(group, why),
  };
  const begin = (group: number): void => {
    timers = [];
    const sink: ExportSink = {
      isOver: false,
      onOver: undefined,
      begin: () => undefined,
      write: unused,
      end: unused,
      fail: () => sink.onOver?.(),
    };
    exportGroup(parts, group, sink);
  };
  /** A period of the shard's lease. */
  const hold = (): void => timers.splice(0).forEach((timer) => timer());
  begin(2);
  taker?.failed(`Error: ${'x'.repeat(1000)}\n    at somewhere`);
  begin(1);
  while (endedEarly().length < 2) hold();
  begin(0);
  holdCode = errorNumber('INTERNAL');
  hold();
  assert.deepEqual(
    endedEarly().map(({ raft_group_id: group, code, ended_unix_ms: ms }) => [group, code, ms]),
    [
      [0, 'shard-refused', 6],
      [1, 'reader-rested', 4],
      [2, 'read-failed', 2],
    ],
  );
  assert.equal(endedEarly()[0]?.reason, 'the shard holds it no longer (INTERNAL)');
  assert.equal(endedEarly()[1]?.reason, 'its reader took nothing for 5 minutes');
  assert.equal(endedEarly()[2]?.reason.length, 300);
  assert.deepEqual(running(), [], 'those that ended early are over');
  for (const group of [0, 2]) begin(group);
  assert.deepEqual(running(), [0, 2]);
  assert.deepEqual(
    endedEarly().map(({ code }) => code),
    ['reader-rested'],
  );
});
