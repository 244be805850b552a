// Restoring several groups at once: how many, the effect of one refusal on the others, and the report. The target is a
// fake that holds its answers back.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, after, before, describe, test } from 'node:test';
import type { Manifest } from '../../src/backup/format/manifest.ts';
import { until } from '../support/until.ts';
import { clusterFileOf, ctl, scratchFile, startCtl } from '../support/ctl.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder, withServer } from '../support/server.ts';

const GROUPS = 7;
const AT_ONCE = 4;

/** Takes uploads and answers when it is told to. */
class StandIn {
  readonly #server = createServer((request, response) => {
    if (request.url === '/__svc/backup/info') {
      return void response.end(JSON.stringify({ format_version: 1, raft_group_count: GROUPS }));
    }
    if (!request.url?.startsWith('/__svc/backup/')) return void response.writeHead(500).end();
    const group = Number(/\/group\/(\d+)\/import$/.exec(request.url ?? '')?.[1]);
    this.asked.push(group);
    request.resume().on('error', () => undefined);
    request.on('end', () => {
      this.#held.set(group, response);
      this.onUpload(group);
    });
    response.on('close', () => {
      if (!response.writableFinished) this.cut.push(group);
    });
    return undefined;
  });
  readonly #held = new Map<number, ServerResponse>();
  readonly asked: number[] = [];
  /** The tool has hung up before it was answered. */
  readonly cut: number[] = [];
  onUpload: (group: number) => void = () => undefined;

  /** Closed with its test, also when that fails: the tool would wait for answers as long as the file may run. */
  constructor(t: TestContext) {
    t.after(() => {
      this.#server.closeAllConnections();
      this.#server.close();
    });
  }

  /** In order of their numbers: requests that are under way together arrive in any order. */
  get held(): readonly number[] {
    return ascending(this.#held.keys());
  }

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = this.#server.address() as AddressInfo;
    return clusterFileOf({ adminPort: port });
  }

  answer(group: number, status: number, body: unknown): void {
    const response = this.#held.get(group);
    assert(response !== undefined, `group ${group} was uploaded`);
    this.#held.delete(group);
    response.writeHead(status).end(JSON.stringify(body));
  }

  cutOff(group: number): void {
    this.#held.get(group)?.destroy();
    this.#held.delete(group);
  }
}

function ascending(groups: Iterable<number>): number[] {
  return [...groups].sort((a, b) => a - b);
}

describe('restore of several groups', () => {
  const folder = temporaryFolder('restore');
  const backup = join(folder, 'backup');
  let manifest: Manifest;

  before(async () => {
    await withServer({ cores: 1, groups: GROUPS }, async (source) => {
      assert.equal((await requestOnce(source.port, 'PUT', '/some/stream')).status, 201);
      const created = await ctl(['backup-create', '--config', clusterFileOf(source), '--location', backup]);
      assert.equal(created.code, 0, created.stderr);
    });
    manifest = JSON.parse(readFileSync(join(backup, 'manifest.json'), 'utf8')) as Manifest;
  });
  after(() => removeFolder(folder));

  const restore = (config: string, ...flags: string[]): string[] => [
    ...['restore', '--config', config, '--location', backup],
    ...flags,
  ];

  test('four are under way, and one that is occupied ends the others at once', async (t) => {
    const target = new StandIn(t);
    const config = await target.start();
    const full = new Promise<void>((resolve) => {
      target.onUpload = () => target.held.length === AT_ONCE && resolve();
    });
    const run = startCtl(restore(config));
    await full;
    const next = new Promise<void>((resolve) => (target.onUpload = () => resolve()));
    target.answer(1, 200, {});
    await next;
    assert.deepEqual(target.held, [0, 2, 3, 4], 'one more when one is done');
    target.answer(3, 409, { reason: 'the group is not empty', imported_blake3: null });
    assert.equal(await run.ended, 1, run.stderr);
    assert.match(run.stderr, /^millracectl: group 3 is not empty .*; a backup is .* \(1 of 7 groups are restored\)$/m);
    await until('nothing is waited for any more', async () => target.cut.length === AT_ONCE - 1);
    assert.deepEqual(ascending(target.asked), [0, 1, 2, 3, 4], 'nothing is begun any more');
    assert.deepEqual(ascending(target.cut), [0, 2, 4]);
  });

  test('--resume continues after the restored groups, and a failure says how to', async (t) => {
    const target = new StandIn(t);
    const config = await target.start();
    target.onUpload = (group) => {
      const digest = manifest.groups[group]?.blake3;
      if (group === 6) target.answer(group, 503, 'no leader');
      else if (group % 2 === 0) target.answer(group, 409, { reason: 'x', imported_blake3: digest });
      else target.answer(group, 200, {});
    };
    const held = await ctl(restore(config));
    assert.equal(held.code, 1);
    assert.match(held.stderr, /^millracectl: group [024] holds this backup already; go on with --resume( \(\d.*\))?$/m);
    const failed = await ctl(restore(config, '--resume'));
    assert.match(
      failed.stderr,
      /^millracectl: group 6: no node took it; node 1: it answered 503 \("no leader"\) \(\d of 7 .*; --resume goes on/m,
    );
    const answer = target.onUpload;
    target.onUpload = (group) => (group === 6 ? target.answer(group, 200, {}) : answer(group));
    const done = await ctl(restore(config, '--resume'));
    assert.equal(done.stdout, 'restore complete: 7 groups, 1 buckets, 1 streams\n', done.stderr);
  });

  test('--resume with another backup sends nothing, whichever groups are free', async (t) => {
    const target = new StandIn(t);
    const config = await target.start();
    for (const [digest, why] of [
      ['0'.repeat(64), 'holds another backup'] as const,
      [null, 'was written to'] as const,
    ]) {
      // As a node answers an import of nothing: group 5 has something, the others are free.
      target.onUpload = (group) =>
        group === 5
          ? target.answer(group, 409, { reason: 'x', imported_blake3: digest })
          : target.answer(group, 400, 'the snapshot is empty');
      target.asked.length = 0;
      const run = await ctl(restore(config, '--resume'));
      assert.equal(run.code, 1);
      assert.match(run.stderr, new RegExp(`^millracectl: group 5 ${why}, so nothing more was restored: `, 'm'));
      assert.deepEqual(ascending(target.asked), [0, 1, 2, 3, 4, 5], 'asked once each, and sent nothing');
    }
  });

  test('Ctrl-C ends all uploads and says what is there', async (t) => {
    const target = new StandIn(t);
    const config = await target.start();
    const full = new Promise<void>((resolve) => {
      target.onUpload = () => target.held.length === AT_ONCE && resolve();
    });
    const run = startCtl(restore(config));
    await full;
    run.interrupt();
    assert.equal(await run.ended, 2);
    assert.match(run.stderr, /^millracectl: interrupted \(0 of 7 groups are restored; --resume goes on from there\)$/m);
  });

  test('a node that dies under way is replaced by the next one; without one the restore says how to go on', async (t) => {
    const [dying, sound] = [new StandIn(t), new StandIn(t)];
    const alone = await dying.start();
    dying.onUpload = (group) => dying.cutOff(group);
    sound.onUpload = (group) => sound.answer(group, 200, {});
    const second = (await sound.start()).replace(/^.*$/, (path) =>
      readFileSync(path, 'utf8').replace('id = 1', 'id = 2'),
    );
    const both = scratchFile('both.toml', `${readFileSync(alone, 'utf8')}${second}`);
    const done = await ctl(restore(both));
    assert.equal(done.code, 0, done.stderr);
    assert.equal(sound.asked.length, GROUPS);
    const failed = await ctl(restore(alone));
    assert.equal(failed.code, 1);
    assert.match(
      failed.stderr,
      /^millracectl: group \d: no node took it; node 1: \S+ cannot be reached \(connection lost\) \(0 of 7 .*; --resume goes/m,
    );
  });

  test('a file that goes away under way is a sentence', async (t) => {
    const target = new StandIn(t);
    const config = await target.start();
    target.onUpload = (group) => {
      // The file was verified, and is empty when it is read again.
      if (group === 0) truncateSync(join(backup, 'group-0006.snapshot'), 0);
      target.answer(group, 200, {});
    };
    const run = await ctl(restore(config));
    assert.equal(run.code, 1, run.stdout);
    assert.match(run.stderr, /^millracectl: [^\n]*group-0006\.snapshot[^\n]* \(\d of 7 groups are restored; --resume/m);
  });
});
