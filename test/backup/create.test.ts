// backup-create when its sources or its location fail during the run. Fake nodes send what the test tells them to.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { sendOrder } from '../../src/backup/tool/create.ts';
import { until } from '../support/until.ts';
import { CTL_ENTRY, type CtlResult, ctl, scratchFile, spawnCtl, startCtl } from '../support/ctl.ts';
import { RawClient, requestOnce } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder, withServer } from '../support/server.ts';

const GROUPS = 2;
const MIB = 1024 * 1024;
/** Which group comes first, and which one then. */
const [FIRST, THEN] = sendOrder(GROUPS) as [number, number];

/** Sends group 0 or 1. */
type Source = (response: ServerResponse, document: Buffer, group: number) => void;

const HEADERS = { 'x-svc-backup-format': '1' };
const index = (commit: number): Record<string, string> => ({ ...HEADERS, 'x-svc-backup-commit-index': String(commit) });
const whole: Source = (response, document) => void response.writeHead(200, index(1)).end(document);
/** Half of it, and then nothing, or the end of the connection. */
const half =
  (commit: number, then: (response: ServerResponse) => void): Source =>
  (response, document) => {
    response.writeHead(200, index(commit));
    response.write(document.subarray(0, document.length >> 1), () => then(response));
  };

describe('backup-create', () => {
  const folder = temporaryFolder('create');
  const documents: Buffer[] = [];
  const servers: Server[] = [];
  /** Members that the nodes add to /info. */
  let ended = {};

  before(async () => {
    await withServer({ cores: 1, groups: GROUPS }, async (source) => {
      const client = await RawClient.connect(source.port);
      // Some MiB in each group.
      for (const name of ['/some/a', '/some/b', '/some/c', '/some/d', '/some/e', '/some/f']) {
        assert.equal(
          (await client.request('PUT', name, { 'content-type': 'text/plain' }, Buffer.alloc(MIB))).status,
          201,
        );
      }
      client.destroy();
      for (let group = 0; group < GROUPS; group++)
        documents.push((await requestOnce(source.adminPort, 'GET', `/__svc/backup/group/${group}`)).body);
    });
  });
  after(() => {
    for (const server of servers) {
      server.closeAllConnections();
      server.close();
    }
    removeFolder(folder);
  });

  /** A cluster file of fake nodes. */
  async function cluster(...sources: Source[]): Promise<string> {
    const ports = await Promise.all(
      sources.map(async (source) => {
        const server = createServer((request, response) => {
          const group = Number(/\/group\/(\d+)$/.exec(request.url ?? '')?.[1] ?? -1);
          if (group >= 0) return source(response, documents[group] as Buffer, group);
          return void response.end(JSON.stringify({ format_version: 1, raft_group_count: GROUPS, ...ended }));
        });
        servers.push(server);
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        return (server.address() as AddressInfo).port;
      }),
    );
    const nodes = ports.map((port, i) => ({ id: i + 1, host: '127.0.0.1', admin_port: port }));
    return scratchFile('c.json', JSON.stringify({ nodes }));
  }

  const create = (config: string, location: string): string[] => [
    ...['backup-create', '--config', config, '--location', location],
  ];

  function failed(run: CtlResult, sentence: RegExp): void {
    assert.equal(run.code, 1, run.stderr);
    assert.match(run.stderr, sentence);
    assert.equal(run.stdout, '');
  }

  test('a node that dies while it sends, or sends what is no backup, is replaced by another one', async () => {
    const altered: Source = (response, document) => {
      const copy = Buffer.from(document);
      copy[copy.length >> 1] = (copy[copy.length >> 1] as number) ^ 1;
      response.writeHead(200, index(7)).end(copy);
    };
    const config = await cluster(
      half(9, (response) => response.destroy()),
      altered,
      whole,
    );
    const location = join(folder, 'a name with blanks, ü and 日本');
    const created = await ctl(create(config, location));
    assert.equal(created.code, 0, created.stderr);
    assert(created.stdout.endsWith(` -> ${location}\n`), created.stdout);
    for (const [group, document] of documents.entries())
      assert(
        readFileSync(join(location, `group-000${group}.snapshot`)).equals(document),
        'the whole of the third node',
      );
    assert.deepEqual(
      readdirSync(location).toSorted((a, b) => (a < b ? -1 : 1)),
      [...['group-0000.snapshot', 'group-0001.snapshot', 'manifest.json']],
    );
    assert.equal((await ctl(['backup-verify', '--location', location])).code, 0);
  });

  test('nodes of several clusters make no backup, or one would be a mixture', async () => {
    const small = { cores: 1, groups: GROUPS };
    await withServer(small, (one) =>
      withServer(small, async (two) => {
        const nodes = [one, two].map(({ adminPort }, i) => ({ id: i + 1, host: '127.0.0.1', admin_port: adminPort }));
        const mixed = scratchFile('mixed.json', JSON.stringify({ nodes }));
        const location = join(folder, 'mixed');
        failed(
          await ctl(create(mixed, location)),
          /the cluster file names nodes of several clusters: node 1 is of (\w{32}), node 2 is of (?!\1)\w{32}; leave out/,
        );
        assert.deepEqual(existsSync(location) ? readdirSync(location) : [], []);
      }),
    );
  });

  test('when no node sends a group completely, the remaining groups are reported', async () => {
    const dies = half(9, (response) => response.destroy());
    const first = join(folder, 'first');
    failed(
      await ctl(create(await cluster(dies), first)),
      new RegExp(
        `^millracectl: group ${FIRST}: no node sends it; node 1: http:\\S+ ended the transfer early \\(connection lost\\)$`,
        'm',
      ),
    );
    assert.deepEqual(readdirSync(first), [], 'nothing half-done');
    const second = join(folder, 'second');
    const config = await cluster((response, document, group) =>
      (group === FIRST ? whole : dies)(response, document, group),
    );
    failed(
      await ctl(create(config, second)),
      new RegExp(
        `group ${THEN}: no node .*connection lost\\) \\(.*second holds 1 of 2 groups and no manifest: remove what is there\\)$`,
        'm',
      ),
    );
    assert.deepEqual(readdirSync(second), [`group-000${FIRST}.snapshot`]);
    failed(await ctl(create(config, second)), /second is not empty: it holds a backup that was not finished/);
    failed(await ctl(['backup-verify', '--location', second]), /second holds no backup: there is no manifest\.json/);
    writeFileSync(join(folder, 'note'), '');
    failed(await ctl(create(config, folder)), /is not empty: it holds other files/);
  });

  test('why a node ended a transfer is said, if it knows', async () => {
    const one = (group: number, reason: string): object => ({ raft_group_id: group, code: 'volume-short', reason });
    ended = { exports_ended_early: [one(THEN, 'another group'), one(FIRST, 'no room')] };
    const dies = await cluster(half(9, (response) => response.destroy()));
    const said = await ctl(create(dies, join(folder, 'why')));
    failed(said, /node 1: http:\S+ ended the transfer early \(connection lost\): no room$/m);
    ended = {};
  });

  test('a tool that is killed leaves no backup behind, and says so when it is run again', async () => {
    const config = await cluster(half(1, () => undefined));
    const location = join(folder, 'killed');
    const part = join(location, `group-000${FIRST}.snapshot.part`);
    const run = spawnCtl(create(config, location));
    await until('some of a group is there', async () => existsSync(part) && readFileSync(part).length > 0);
    run.child.kill('SIGKILL');
    await run.ended;
    failed(await ctl(['backup-verify', '--location', location]), /killed holds no backup/);
    const sound = await cluster(whole);
    failed(await ctl(create(sound, location)), /is not empty: it holds a backup that was not finished, .*; remove it/);
    rmSync(location, { recursive: true });
    assert.equal((await ctl(create(sound, location))).code, 0);
  });

  test('of tools that come to one directory at once one makes a backup, and the others leave it alone', async () => {
    const config = await cluster(whole);
    const location = join(folder, 'wanted');
    const runs = await Promise.all([1, 2, 3].map(() => ctl(create(config, location))));
    const [won, ...others] = runs.toSorted((a, b) => Number(a.code) - Number(b.code));
    assert.equal(won?.code, 0, won?.stderr);
    for (const run of others) failed(run, /wanted is not empty: it holds a backup (that was not finished|already)/);
    assert.equal((await ctl(['backup-verify', '--location', location])).code, 0);
  });

  test('Ctrl-C removes the unfinished backup', async () => {
    const config = await cluster(half(1, () => undefined));
    const location = join(folder, 'interrupted');
    const run = startCtl(create(config, location));
    await until('a group is under way', async () => existsSync(join(location, `group-000${FIRST}.snapshot.part`)));
    run.interrupt();
    assert.equal(await run.ended, 2, run.stderr);
    assert.match(run.stderr, /^millracectl: interrupted$/m);
    assert.deepEqual(readdirSync(location), []);
  });

  test('a location without room', async () => {
    const config = await cluster(whole);
    const location = join(folder, 'full');
    mkdirSync(location);
    // The size limit of a file, in blocks of 512 bytes: the kernel refuses as it would on a full disk.
    const limited = `ulimit -f 2048; exec "$@"`;
    const child = spawn('sh', ['-c', limited, 'sh', process.execPath, CTL_ENTRY, ...create(config, location)]);
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const [code] = (await once(child, 'close')) as [number];
    assert.equal(code, 1, stderr);
    assert.match(stderr, /^millracectl: \S+full cannot be written \(EFBIG: file too large, write\)$/m);
    assert.deepEqual(readdirSync(location), []);
  });

  test('a location that others fill meanwhile', async () => {
    const location = join(folder, 'filled');
    // Every write there meets a full disk.
    const fillUp = (name: string): void => {
      rmSync(join(location, `${name}.part`), { force: true });
      symlinkSync('/dev/full', join(location, `${name}.part`));
    };
    const early = await cluster((response, document, group) => {
      fillUp(`group-000${FIRST}.snapshot`);
      whole(response, document, group);
    });
    const full = 'filled cannot be written \\(ENOSPC: no space left on device, write\\)';
    failed(await ctl(create(early, location)), new RegExp(`^millracectl: \\S+${full}$`, 'm'));
    assert.deepEqual(readdirSync(location), []);
    const late = await cluster((response, document, group) => {
      if (group === THEN) fillUp('manifest.json');
      whole(response, document, group);
    });
    const left = '\\S+filled holds 2 of 2 groups and no manifest: remove what is there';
    failed(await ctl(create(late, location)), new RegExp(`^millracectl: \\S+${full} \\(${left}\\)$`, 'm'));
    assert.deepEqual(readdirSync(location).length, GROUPS);
    failed(await ctl(['backup-verify', '--location', location]), /filled holds no backup: there is no manifest\.json/);
  });
});
