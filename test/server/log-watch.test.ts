// A write to the log that does not return is told by a thread that does not wait for it.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { loggerTo, parseVerbosity } from '../../src/logging/logger.ts';
import { HANGS, RETURNED, watchLogs } from '../../src/server/log-watch.ts';
import { hasStrace } from '../crash/strace.ts';
import { FakeRuntime } from '../support/fake-runtime.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';

interface Said {
  readonly msg: string;
  readonly shard: number;
  readonly seconds: number;
}

test('a write that is under way for long is told, again when it has taken twice as long, and when it returned', async () => {
  const runtime = new FakeRuntime();
  const said: (readonly [string, number, number])[] = [];
  const write = (line: string): void => {
    const { msg, shard, seconds } = JSON.parse(line) as Said;
    said.push([msg, shard, seconds]);
  };
  const logs = [0, 1].map((shard) => ({ path: `shard-${shard}/log`, writes: new Int32Array(1) }));
  watchLogs(logs, runtime, loggerTo({ write }, parseVerbosity('info'), 'server'));
  const [first, second] = logs as [(typeof logs)[0], (typeof logs)[0]];
  // One is always under way when the watch looks, and never the same.
  for (let i = 0; i < 20; i++) {
    first.writes[0] = 2 * i + 1;
    await runtime.pass(1000);
  }
  assert.deepEqual(said, []);
  first.writes[0] = 100;
  second.writes[0] = 7;
  await runtime.pass(12_000);
  second.writes[0] = 8;
  await runtime.pass(3000);
  assert.deepEqual(said, [
    [HANGS, 1, 5],
    [HANGS, 1, 10],
    [RETURNED, 1, 12],
  ]);
});

/** More syncs of segments than a start makes. */
const SYNCS_BEFORE = 40;

test('a sync of the log that hangs is told while it does', async (t) => {
  if (!(await hasStrace(t))) return;
  const folder = temporaryFolder('hang');
  const dataDir = join(folder, 'data');
  const segments = [1, 2, 3].flatMap((i) => ['-P', join(dataDir, 'shard-0', 'log', `segment-${i}`)]);
  const inject = ['-e', 'trace=fdatasync', '-e', `inject=fdatasync:delay_exit=7500000:when=${SYNCS_BEFORE}`];
  const wrapper = ['strace', '-D', '-f', '-qq', '-o', join(folder, 'trace'), ...segments, ...inject];
  const server = new TestServer({ process: true, cores: 1, groups: 1, dataDir, wrapper });
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  await server.client.request('PUT', '/hang/s', { 'content-type': 'text/plain' });
  let isDone = false;
  const writing = (async (): Promise<void> => {
    for (let i = 0; i < SYNCS_BEFORE; i++) await server.client.append('/hang/s', { 'content-type': 'text/plain' }, 'x');
    isDone = true;
  })();
  const line = await server.logged(new RegExp(HANGS));
  assert.match(line, /"shard":0,.*shard-0\/log/);
  assert.equal(isDone, false);
  await writing;
  await server.logged(new RegExp(RETURNED));
});
