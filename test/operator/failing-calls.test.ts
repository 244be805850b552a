// Every call of the file system that the tool makes in an export, a backup and a restore fails or is slow once: what
// it reports as done is there, its sentence names the place, and the same command ends well when the fault is gone.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type CtlResult, clusterFileOf, ctl } from '../support/ctl.ts';
import { ASYNCHRONOUS_CALLS, type Failure, FailingCalls } from '../support/failing-calls.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';

/** A file takes more than one write, and a read stream more than one read. */
const TEXT = 'line;'.repeat(30_000);
const RECORDS = Array.from({ length: 300 }, (_, i) => `{"record":${i}}`);
const WRITES = ['handle.write'];
const FAILURES = {
  EIO: ASYNCHRONOUS_CALLS,
  ENOSPC: WRITES,
  EINTR: WRITES,
  short: WRITES,
  slow: ['open', 'handle.write', 'handle.sync'],
};
/** Those about files that are there. */
const FAILURES_BEHIND = { EIO: ['open', 'handle.stat', 'handle.read', 'handle.truncate'], short: ['handle.read'] };
const JSON_TYPE = { 'content-type': 'application/json' };

interface Place {
  readonly server: TestServer;
  readonly folder: string;
  readonly calls: FailingCalls;
}

/** Calls of the tool alone fail: the server's are made on threads of its own. */
async function placeOf(t: TestContext): Promise<Place> {
  const server = new TestServer({ cores: 1, groups: 1 });
  const folder = temporaryFolder('failing-tool');
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  return { server, folder, calls: await FailingCalls.in(t) };
}

async function fill({ client }: TestServer): Promise<void> {
  await client.request('PUT', '/demo/text', { 'content-type': 'text/plain' }, Buffer.from(TEXT));
  await client.request('PUT', '/demo/json', JSON_TYPE, Buffer.from(`[${RECORDS.join(',')}]`));
}

function assertNamed({ code, stderr }: CtlResult, place: string): void {
  assert.equal(code, 1, stderr);
  assert(stderr.includes(place), `"${stderr}" names ${place}`);
}

test('whatever call of an export fails, its files are whole when it says so, and the next one ends well', async (t) => {
  const { server, folder, calls } = await placeOf(t);
  await fill(server);
  const env = { MILLRACE_CLUSTER: '', MILLRACE_CONTEXT: '', MILLRACE_URL: server.url };
  const run = (to: string): Promise<CtlResult> => ctl(['export', 'demo', '--to', to], { env });
  const assertWhole = (to: string): void => {
    assert.equal(readFileSync(join(to, 'text.txt'), 'utf8'), TEXT);
    assert.equal(readFileSync(join(to, 'json.jsonl'), 'utf8'), `${RECORDS.join('\n')}\n`);
    assert.equal(readFileSync(join(to, 'export.ndjson'), 'utf8').split('\n').length, 4);
  };
  let failed = 0;
  // The second run goes on with the files of the first.
  for (const isBehind of [false, true]) {
    const trials = await calls.sweep(isBehind ? FAILURES_BEHIND : FAILURES, async (name, plan, failure) => {
      const to = join(folder, `${isBehind}-${name}`);
      calls.end();
      if (isBehind) assert.equal((await run(to)).code, 0);
      plan();
      const result = await run(to);
      calls.end();
      if (result.code !== 0) {
        assertNamed(result, to);
        assert.notEqual(failure, 'slow', result.stderr);
        failed++;
        assert.equal((await run(to)).code, 0);
      }
      assertWhole(to);
      rmSync(to, { recursive: true });
    });
    assert(trials > 5, `${trials} trials`);
  }
  assert(failed > 12, `${failed} failed`);
});

test('whatever call of a backup fails, what is reported can be restored, and the next one ends well', async (t) => {
  const { server, folder, calls } = await placeOf(t);
  await fill(server);
  const run = async (verb: string, at: string, config: readonly string[] = []): Promise<CtlResult> =>
    await ctl([verb, '--location', at, ...config]);
  const source = ['--config', clusterFileOf(server)];
  const good = join(folder, 'good');
  assert.equal((await run('backup-create', good, source)).code, 0);
  let failed = 0;
  // test/cold/store/failing-calls.test.ts has the other failures of a location.
  await calls.sweep({ EIO: ASYNCHRONOUS_CALLS }, async (name) => {
    const at = join(folder, name);
    const result = await run('backup-create', at, source);
    calls.end();
    if (result.code === 0) {
      assert.equal((await run('backup-verify', at)).code, 0);
    } else {
      failed++;
      assertNamed(result, at);
      // A backup that was begun is never taken for empty, and may be whole.
      if (existsSync(at) && readdirSync(at).length > 0) rmSync(at, { recursive: true });
      assert.equal((await run('backup-create', at, source)).code, 0);
    }
    rmSync(at, { recursive: true });
  });
  assert(failed > 5, `${failed} failed`);
  const [target, slowly] = [emptyServer(t), emptyServer(t)];
  await Promise.all([target.start(), slowly.start()]);
  const restore = async (to: TestServer, call: string, skipped: number, failure: Failure): Promise<CtlResult> => {
    calls.plan(call, skipped, failure);
    const result = await run('restore', good, ['--config', clusterFileOf(to)]);
    calls.end();
    return result;
  };
  const fails = async (call: string, skipped: number): Promise<boolean> => {
    const result = await restore(target, call, skipped, 'EIO');
    if (calls.hasFailed) assertNamed(result, good);
    else assert.equal(result.code, 0, result.stderr);
    return calls.hasFailed;
  };
  // The manifest, and the group.
  for (const skipped of [0, 1]) assert(await fails('stream.open', skipped));
  let reads = 0;
  while (await fails('stream.read', reads)) reads++;
  assert(reads > 2, `${reads} reads`);
  const { code, stderr } = await restore(slowly, 'stream.read', reads - 1, 'slow');
  assert(code === 0 && calls.hasFailed, stderr);
  for (const { client } of [target, slowly]) {
    const { body } = await client.expect(200, 'GET', '/demo/text?offset=0');
    assert.equal(body.toString(), TEXT);
  }
});

function emptyServer(t: TestContext): TestServer {
  const server = new TestServer({ cores: 1, groups: 1 });
  t.after(() => server.dispose());
  return server;
}
