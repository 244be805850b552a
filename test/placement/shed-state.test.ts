// The drain mark: a file that survives restarts, and shards that are told.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MillraceError, errorNumber } from '../../src/base/errors.ts';
import { ConfigError } from '../../src/config/error.ts';
import { ShedState, readDrainMark, writeDrainMark } from '../../src/placement/shed-state.ts';
import { ALL_GROUPS } from '../../src/protocol/request.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';
import { run, withServer } from '../support/server.ts';
import { requestOnce } from '../support/raw-client.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';

const FILE = 'leadership-shed.json';

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-shed-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

/** The requests to the shards, in order. */
const told = (gateway: ScriptedGateway): unknown[] =>
  gateway.asked.map(({ shard, query }) => [shard, QUERIES.shed.request.read(query).priority]);

test('the file holds the last state and leaves no temporary file', async (t) => {
  const path = folder(t);
  assert.equal(readDrainMark(path), false, 'never marked');
  for (const draining of [true, false, true]) {
    await writeDrainMark(path, draining);
    assert.equal(readDrainMark(path), draining);
  }
  assert.deepEqual(readdirSync(path), [FILE]);
});

test('temporary files of a crash are ignored', async (t) => {
  const path = folder(t);
  writeFileSync(join(path, `${FILE}.new`), '{"format":1,"maintenance_dr');
  assert.equal(readDrainMark(path), false);
  await writeDrainMark(path, true);
  assert.equal(readDrainMark(path), true);
});

test('a damaged file is refused with what to do', (t) => {
  const path = folder(t);
  const cases: readonly (readonly [text: string, why: RegExp])[] = [
    ['', /is damaged: it is not JSON/],
    ['{"format":1,"maintenance_drain":tr', /is damaged: it is not JSON/],
    ['null', /is damaged: maintenance_drain is neither true nor false/],
    ['[]', /is damaged: maintenance_drain/],
    ['{"format":1}', /is damaged: maintenance_drain/],
    ['{"format":1,"maintenance_drain":1}', /is damaged: maintenance_drain/],
    ['{"format":2,"maintenance_drain":true}', /was written by another version \(format 2\)/],
    ['{"maintenance_drain":true}', /was written by another version \(format undefined\)/],
  ];
  for (const [text, why] of cases) {
    writeFileSync(join(path, FILE), text);
    assert.throws(
      () => readDrainMark(path),
      (error) =>
        error instanceof ConfigError &&
        error.message.startsWith(`storage.data_dir ${path}: ${FILE} `) &&
        why.test(error.message) &&
        error.message.includes('remove it to lift the drain mark'),
      text,
    );
  }
});

test('a change is on disk and with every shard when it resolves; a repeat tells the shards again', async (t) => {
  const path = folder(t);
  const gateway = new ScriptedGateway();
  const state = new ShedState({ gateway, dataDir: path, runtime: PROCESS_RUNTIME }, false);
  await state.apply();
  assert.deepEqual(told(gateway), [
    [0, 'normal'],
    [1, 'normal'],
  ]);
  assert(gateway.asked.every(({ op, group }) => op === QUERIES.shed.number && group === ALL_GROUPS));
  assert.deepEqual(readdirSync(path), [], 'nothing changed, nothing written');
  for (let times = 0; times < 2; times++) {
    gateway.asked.length = 0;
    await state.set('draining');
    assert.equal(state.draining, true);
    assert.equal(readDrainMark(path), true);
    assert.deepEqual(told(gateway), [
      [0, 'none'],
      [1, 'none'],
    ]);
  }
  // Several at once: in order, and the last one counts.
  gateway.asked.length = 0;
  await Promise.all([state.set('serving'), state.set('draining'), state.set('serving')]);
  assert.deepEqual([state.draining, readDrainMark(path)], [false, false]);
  assert.deepEqual(told(gateway).slice(-2), [
    [0, 'normal'],
    [1, 'normal'],
  ]);
});

test('the mark and the findings of the gates come and go independently', async (t) => {
  const gateway = new ScriptedGateway(1, 1);
  const state = new ShedState({ gateway, dataDir: folder(t), runtime: PROCESS_RUNTIME }, false);
  const changes: readonly (readonly [
    change: () => Promise<void>,
    bits: number,
    priority: 'normal' | 'none' | 'low',
  ])[] = [
    [() => state.setEgress({ isImpaired: true, mayLead: false }), 2, 'none'],
    [() => state.setEgress({ isImpaired: true, mayLead: true }), 2, 'normal'],
    [() => state.set('draining'), 3, 'none'],
    [() => state.setEgress({ isImpaired: false, mayLead: true }), 1, 'none'],
    [() => state.setColdCut(true), 5, 'none'],
    [() => state.set('serving'), 4, 'low'],
    [() => state.setEgress({ isImpaired: true, mayLead: true }), 6, 'low'],
    [() => state.setEgress({ isImpaired: false, mayLead: true }), 4, 'low'],
    [() => state.setColdCut(false), 0, 'normal'],
  ];
  for (const [change, bits, priority] of changes) {
    await change();
    assert.equal(state.bits, bits);
    assert.deepEqual(QUERIES.shed.request.read(gateway.last.query), { priority, reasons: bits });
  }
});

test('a full mailbox is retried; a shard that refuses fails the change, and a repeat repairs it', async (t) => {
  const path = folder(t);
  const gateway = new ScriptedGateway();
  const state = new ShedState({ gateway, dataDir: path, runtime: PROCESS_RUNTIME }, false);
  gateway.full = true;
  const change = state.set('draining');
  setImmediate(() => {
    gateway.full = false;
  });
  await change;
  assert.equal(gateway.asked.length, 2);
  gateway.script = (_asked, reply) => {
    reply.code = errorNumber('STOPPING');
  };
  await assert.rejects(state.set('serving'), (error) => error instanceof MillraceError && error.code === 'STOPPING');
  gateway.script = () => {};
  gateway.asked.length = 0;
  await state.set('serving');
  assert.deepEqual(told(gateway), [
    [0, 'normal'],
    [1, 'normal'],
  ]);
});

test('a mark that cannot be written changes nothing', async (t) => {
  const gateway = new ScriptedGateway();
  const state = new ShedState({ gateway, dataDir: join(folder(t), 'gone'), runtime: PROCESS_RUNTIME }, false);
  await assert.rejects(state.set('draining'), /ENOENT/);
  assert.equal(state.draining, false);
  assert.equal(gateway.asked.length, 0);
});

test('a server keeps its mark over a SIGKILL, keeps serving, and does not start on a damaged one', async () => {
  await withServer({ process: true, groups: 2 }, async (server) => {
    const shed = async (method: string, path = ''): Promise<Record<string, unknown>> => {
      const response = await requestOnce(server.adminPort, method, `/__svc/leadership-shed${path}`);
      assert.equal(response.status, 200);
      return JSON.parse(response.body.toString()) as Record<string, unknown>;
    };
    const marked = await shed('POST', '/maintenance');
    assert.deepEqual([marked['bits'], marked['state']], [1, 'maintenance-drain']);
    await server.kill();
    await server.start();
    assert.deepEqual(await shed('GET'), marked);
    const shown = await server.metrics();
    assert.deepEqual([shown['leadership_shed'], shown['balancer_transfers']], [marked, 0]);
    const write = await fetch(`${server.url}/demo/s`, { method: 'PUT', body: 'x', headers: { 'content-type': 'a/b' } });
    assert.equal(write.status, 201, 'a single node cannot hand over, so it keeps leading');
    assert.deepEqual((await shed('DELETE', '/maintenance'))['state'], 'none');
    await server.stop();
    const file = join(server.dataDir, FILE);
    assert.equal(readFileSync(file, 'utf8'), '{"format":1,"maintenance_drain":false}\n');
    writeFileSync(file, '{');
    const refused = run(server.command());
    assert.equal(await refused.exited, 2);
    assert.match(refused.output(), /^millrace: storage\.data_dir .*leadership-shed\.json is damaged/m);
  });
});
