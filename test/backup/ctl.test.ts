// The operator's way: millracectl backup-create, backup-verify and restore against real servers and real files.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type CtlResult, clusterFileOf, ctl, scratchFile } from '../support/ctl.ts';
import { createRandom } from '../support/random.ts';
import { requestOnce } from '../support/raw-client.ts';
import { removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { describeWorld, fillWorld } from './world.ts';

const GROUPS = 3;
const STREAMS = 24;
const CREATED_MS = 1_700_000_000_000;

const failed = (result: CtlResult, sentence: RegExp, code = 1): void => {
  assert.match(result.stderr, sentence);
  assert.equal(result.code, code, result.stderr);
  assert.equal(
    result.stderr
      .trim()
      .split('\n')
      .filter((line) => line.startsWith('millracectl:')).length,
    1,
  );
};

test('create, verify, restore; what is altered, incomplete, newer or does not fit is refused in a sentence', async () => {
  const folder = temporaryFolder('backup');
  const backup = join(folder, 'first');
  await withServer({ cores: 2, groups: GROUPS }, async (source) => {
    const world = await fillWorld(source, createRandom(7), STREAMS);
    const before = await describeWorld(source, world);
    const config = clusterFileOf(source);
    const created = await ctl([
      'backup-create',
      '--config',
      config,
      '--location',
      backup,
      '--created-unix-ms',
      `${CREATED_MS}`,
    ]);
    assert.equal(created.code, 0, created.stderr);
    assert.match(created.stdout, /^backup created: 3 groups, \d+ buckets, \d+ streams -> .*first\n$/);
    assert.deepEqual(
      readdirSync(backup).sort((a, b) => (a < b ? -1 : 1)),
      ['group-0000.snapshot', 'group-0001.snapshot', 'group-0002.snapshot', 'manifest.json'],
    );
    const manifest = JSON.parse(readFileSync(join(backup, 'manifest.json'), 'utf8')) as Record<string, unknown>;
    assert.equal(manifest['created_unix_ms'], CREATED_MS);
    assert.equal(manifest['raft_group_count'], GROUPS);
    failed(
      await ctl(['backup-create', '--config', config, '--location', '/proc/nothing/here']),
      /nothing cannot be made there/,
    );
    failed(await ctl(['backup-create', '--config', config, '--location', backup]), /is not empty/);

    const verified = await ctl(['backup-verify', '--location', backup]);
    assert.equal(verified.code, 0, verified.stderr);
    const counts = /^backup created: (.*) -> /.exec(created.stdout)?.[1];
    assert.equal(verified.stdout, `backup verified: ${counts}\n`);
    const asJson = await ctl(['backup-verify', '--location', backup, '--json']);
    const { buckets, streams, ...rest } = JSON.parse(asJson.stdout) as Record<string, unknown>;
    assert.equal(`${GROUPS} groups, ${String(buckets)} buckets, ${String(streams)} streams`, counts);
    assert(typeof rest['bytes'] === 'number' && rest['bytes'] > 0);
    const usage = (await (await fetch(`${source.adminUrl}/__svc/usage`)).json()) as {
      buckets: Record<string, { stream_count: number }>;
    };
    const withStreams = Object.values(usage.buckets).filter(({ stream_count: count }) => count > 0).length;
    const entries = manifest['groups'] as readonly { buckets: number }[];
    const inGroups = entries.reduce((sum, entry) => sum + entry.buckets, 0);
    assert(inGroups > withStreams, `${inGroups} in the groups: some have streams in several`);
    assert.equal(buckets, withStreams, 'each bucket counts once');
    assert.deepEqual([rest['location'], rest['created_unix_ms']], [backup, CREATED_MS]);

    await withServer({ cores: 1, groups: GROUPS }, async (copy) => {
      const target = clusterFileOf(copy);
      const restored = await ctl(['restore', '--config', target, '--location', backup]);
      assert.equal(restored.code, 0, restored.stderr);
      assert.equal(restored.stdout, `restore complete: ${counts}\n`);
      assert.deepEqual(await describeWorld(copy, world), before);
      // It is a separate cluster, and its backups name the cluster that it was restored from.
      const again = join(folder, 'again');
      assert.equal((await ctl(['backup-create', '--config', target, '--location', again])).code, 0);
      const lineage = JSON.parse(readFileSync(join(again, 'manifest.json'), 'utf8')) as Record<string, unknown>;
      assert.deepEqual(lineage['restored_from'], [manifest['cluster_id']]);
      assert.match(`${String(lineage['cluster_id'])} ${String(manifest['cluster_id'])}`, /^[0-9a-f]{32} [0-9a-f]{32}$/);
      assert.notEqual(lineage['cluster_id'], manifest['cluster_id']);
      // A restore does not write over data, and one that is complete may be resumed.
      failed(
        await ctl(['restore', '--config', target, '--location', backup]),
        /is not empty: it has the buckets .* \(--resume goes on with a restore that was interrupted\)/,
      );
      const resumed = await ctl(['restore', '--config', target, '--location', backup, '--resume']);
      assert.equal(resumed.code, 0, resumed.stderr);
    });

    await withServer({ cores: 1, groups: GROUPS }, async (used) => {
      // Other groups are free, and stay so: it may be the wrong cluster.
      const name = world.streams[0] as string;
      assert.equal((await requestOnce(used.port, 'PUT', name)).status, 201);
      failed(await ctl(['restore', '--config', clusterFileOf(used), '--location', backup]), /nothing was restored/);
      for (const other of world.streams.slice(1))
        assert.equal((await requestOnce(used.port, 'HEAD', other)).status, 404, other);
    });

    await withServer({ cores: 1, groups: GROUPS + 1 }, async (other) => {
      const target = clusterFileOf(other);
      failed(
        await ctl(['restore', '--config', target, '--location', backup]),
        /the backup has 3 groups and the cluster 4; nothing was restored/,
      );
      assert.equal((await requestOnce(other.port, 'PUT', '/free/stream')).status, 201);
    });

    const damaged = async (name: string, damage: (path: string) => void, sentence: RegExp): Promise<void> => {
      const path = join(folder, name);
      cpSync(backup, path, { recursive: true });
      damage(path);
      failed(await ctl(['backup-verify', '--location', path]), sentence);
      const restored = await ctl(['restore', '--config', config, '--location', path]);
      failed(restored, sentence);
    };
    const first = 'group-0000.snapshot';
    await damaged(
      'truncated',
      (path) => truncateSync(join(path, first), 100),
      /group-0000\.snapshot: it has 100 bytes/,
    );
    await damaged('longer', (path) => appendFileSync(join(path, first), 'x'), /group-0000\.snapshot: it has/);
    await damaged('missing', (path) => rmSync(join(path, first)), /group-0000\.snapshot: there is no such file/);
    await damaged(
      'altered',
      (path) => {
        const bytes = readFileSync(join(path, first));
        bytes[bytes.length - 60] = (bytes[bytes.length - 60] as number) ^ 1;
        writeFileSync(join(path, first), bytes);
      },
      /group-0000\.snapshot: /,
    );
    const edit = (change: (manifest: Record<string, unknown>) => void) => (path: string) => {
      const copy = structuredClone(manifest);
      change(copy);
      writeFileSync(join(path, 'manifest.json'), JSON.stringify(copy));
    };
    await damaged(
      'future',
      edit((copy) => (copy['format_version'] = 2)),
      /format version 2; this program reads up to 1/,
    );
    await damaged(
      'fewer',
      edit((copy) => (copy['groups'] as unknown[]).pop()),
      /lists 2 of 3 groups/,
    );
    await damaged(
      'twice',
      edit((copy) => ((copy['groups'] as unknown[])[1] = (copy['groups'] as unknown[])[0])),
      /lists a group twice/,
    );
    await damaged('no-manifest', (path) => rmSync(join(path, 'manifest.json')), /there is no manifest\.json/);
    await damaged('no-json', (path) => writeFileSync(join(path, 'manifest.json'), '{'), /not JSON/);
    failed(await ctl(['backup-verify', '--location', join(folder, 'nowhere')]), /holds no backup/);
    for (const slip of ['ftp://host/x', 's3:/bucket/x', 'S3://bucket/x'])
      failed(await ctl(['backup-verify', '--location', slip]), /a location is a directory or s3/, 2);
    for (const slip of ['s3://drill/../x', 's3://drill/a/.'])
      failed(await ctl(['backup-verify', '--location', slip]), /\. and \.\. are no parts of a prefix/, 2);
    failed(
      await ctl(['backup-create', '--config', config, '--location', join(backup, 'manifest.json', 'x')]),
      /cannot be used/,
    );
    failed(await ctl(['backup-create', '--config', config]), /needs --location/, 2);
    mkdirSync(join(folder, 'empty'));
    const dead = scratchFile('dead.toml', '[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = 1\n');
    const silent = await ctl(['backup-create', '--config', dead, '--location', join(folder, 'empty')]);
    failed(silent, /no node tells about backups; node 1: .*cannot be reached/);
  });
  removeFolder(folder);
});
