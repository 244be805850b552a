// A backup in a real S3 server, restored into three nodes by a tool that is killed half-way and begins again.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { isAge } from '../../src/encryption/age.ts';
import { S3Store } from '../../src/cold/store/s3-store.ts';
import { s3Options } from '../cold/store/s3.ts';
import { newKeyPair } from '../support/age-keys.ts';
import { Ceph, cephMissing } from '../support/ceph.ts';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { clusterFileOf, clusterToml, ctl, scratchFile, spawnCtl } from '../support/ctl.ts';
import { createRandom } from '../support/random.ts';
import { RawClient } from '../support/raw-client.ts';
import { type TestServer, removeFolder, temporaryFolder, withServer } from '../support/server.ts';
import { type World, describeWorld, fillWorld } from './world.ts';

const GROUPS = 4;
const STREAMS = 16;
const POLL_MS = 20;
const LARGE = '/large/one';
const TEXT = { 'content-type': 'text/plain' } as const;
const BODY = Buffer.alloc(1024 * 1024, 'x');
/** Some pieces of an import, so that a restore can be cut off between them. */
const PIECES = 6;
/** The large group is more than a part of an upload. */
const APPENDS = 20;
/** More than a part, and less than the group. */
const SENT_BYTES = 18 * 1024 * 1024;
const DAY_MS = 24 * 3_600_000;

type Environment = Readonly<Record<string, string>>;

/** Faults of the store or the credentials are reported as sentences, and quickly. */
async function refuseOthers(config: string, env: Environment): Promise<void> {
  const location = 's3://backups/other/one';
  const cases: readonly (readonly [string, Environment, string])[] = [
    ['s3://nowhere/one', {}, 'there is no such bucket \\(.*NoSuchBucket'],
    [location, { AWS_SECRET_ACCESS_KEY: 'no' }, 'the store does not know these credentials \\(.*SignatureDoesNotMatch'],
    [location, { AWS_ACCESS_KEY_ID: 'no' }, 'the store does not know these credentials \\(.*InvalidAccessKeyId'],
    [
      location,
      { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', HOME: '/nowhere', AWS_EC2_METADATA_DISABLED: 'true' },
      'there are no credentials; set AWS_ACCESS_KEY_ID ',
    ],
    [location, { AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1' }, 'the store cannot be reached \\(.*ECONNREFUSED'],
    [location, { AWS_ENDPOINT_URL_S3: 'nonsense' }, 'AWS_ENDPOINT_URL_S3 is not an address '],
  ];
  const verbs = [['backup-verify'], ['backup-create', '--config', config], ['restore', '--config', config]];
  const runs = cases.flatMap(([where, more, sentence]) => {
    // The SDK looks for other credentials in the environment of the process, of which one is enough.
    const place = more['HOME'] === undefined ? {} : { process: true as const };
    return verbs.slice(0, place.process === true ? 1 : verbs.length).map(async (verb) => {
      const run = await ctl([...verb, '--location', where], { ...place, env: { ...env, ...more } });
      assert.match(run.stderr, new RegExp(`^millracectl: ${where}: ${sentence}.*\\n$`), verb.join(' '));
      assert.equal(run.code, 1);
    });
  });
  await Promise.all(runs);
}

type Upload = readonly [key: string, id: string];

async function openUploads(store: S3Client): Promise<Upload[]> {
  const { Uploads: uploads = [] } = await store.send(new ListMultipartUploadsCommand({ Bucket: 'backups' }));
  return uploads.map(({ Key: key = '', UploadId: id = '' }) => [key, id]);
}

async function beginUpload(store: S3Client, key: string): Promise<Upload> {
  const place = { Bucket: 'backups', Key: key };
  const { UploadId: id = '' } = await store.send(new CreateMultipartUploadCommand(place));
  await store.send(new UploadPartCommand({ ...place, UploadId: id, PartNumber: 1, Body: BODY }));
  return [key, id];
}

/**
 * Nothing of an upload that was cut off is seen in the bucket, so the place is free for the next one, which takes its
 * parts away.
 */
async function killUpload(sourcePort: number, config: string, env: Environment, ceph: Ceph): Promise<void> {
  const store = ceph.client();
  const prefix = 'a name with blanks/ü 日本';
  const location = `s3://backups/${prefix}`;
  // A node that sends more than a part of the large group, and never the rest.
  const stuck = createServer((request, response) => {
    if (request.url?.endsWith('/info') === true)
      return void response.end(JSON.stringify({ format_version: 1, raft_group_count: GROUPS }));
    return void get({ host: '127.0.0.1', port: sourcePort, path: request.url, agent: false }, (source) => {
      response.writeHead(200, source.headers);
      let bytes = 0;
      source.on('data', (piece: Buffer) => {
        bytes += piece.length;
        if (bytes < SENT_BYTES) response.write(piece);
      });
    });
  });
  stuck.listen(0, '127.0.0.1');
  await once(stuck, 'listening');
  const nodes = [{ id: 1, host: '127.0.0.1', admin_port: (stuck.address() as AddressInfo).port }];
  const from = scratchFile('stuck.json', JSON.stringify({ nodes }));
  const run = spawnCtl(['backup-create', '--config', from, '--location', location], { env });
  await until('an upload has begun', async () => (await openUploads(store)).length > 0);
  run.child.kill('SIGKILL');
  await run.ended;
  stuck.closeAllConnections();
  stuck.close();
  const [killed] = await openUploads(store);
  assert.match(killed?.[0] ?? '', /^a name with blanks\/ü 日本\/group-000\d\.snapshot$/);
  const verified = await ctl(['backup-verify', '--location', location], { env });
  assert.match(verified.stderr, /日本 holds no backup: there is no manifest\.json/);

  const manifest = await beginUpload(store, `${prefix}/manifest.json`);
  const others = [
    await beginUpload(store, `${prefix}/note`),
    await beginUpload(store, `${prefix}/more/manifest.json`),
    await beginUpload(store, `${prefix}2/manifest.json`),
  ];
  // Another process may be using it.
  const own = new S3Store(s3Options(ceph, { bucket: 'backups' }), prefix);
  assert.equal(await own.endUploads(() => true, Date.now() - DAY_MS, new AbortController().signal), 0);
  own.close();
  assert.deepEqual(new Set(await openUploads(store)), new Set([killed, manifest, ...others]));

  const again = await ctl(['backup-create', '--config', config, '--location', location], { env });
  assert.equal(again.code, 0, again.stderr);
  assert.match(again.stderr, /^2 unfinished uploads of earlier attempts at s3:\/\/backups\/.*日本 were given up$/m);
  assert.deepEqual(new Set(await openUploads(store)), new Set(others));
  assert.equal((await ctl(['backup-verify', '--location', location], { env })).code, 0);
  store.destroy();
}

interface Place {
  /** The cluster file of the source. */
  readonly config: string;
  readonly env: Environment;
  readonly ceph: Ceph;
}

/** An encrypted backup, whose large group is an upload of several parts; `restored` looks at what comes out of it. */
async function keepSealed(
  { config, env, ceph }: Place,
  restored: (target: TestServer) => Promise<void>,
): Promise<void> {
  const folder = temporaryFolder('sealed-s3');
  const { identityFile, recipientsFile } = await newKeyPair(folder, 'key');
  const key = ['--identity-file', identityFile];
  const place = ['--location', 's3://backups/sealed/one'];
  const created = await ctl(['backup-create', '--config', config, ...place, '--recipients-file', recipientsFile], {
    env,
  });
  assert.equal(created.code, 0, created.stderr);
  const store = ceph.client();
  const object = (name: string): { Bucket: string; Key: string } => ({ Bucket: 'backups', Key: `sealed/one/${name}` });
  for (let group = 0; group < GROUPS; group++) {
    const { Body } = await store.send(
      new GetObjectCommand({ ...object(`group-000${group}.snapshot`), Range: 'bytes=0-99' }),
    );
    assert(isAge((await Body?.transformToByteArray()) ?? new Uint8Array()), `group ${group} is encrypted`);
  }
  const blind = await ctl(['backup-verify', ...place], { env });
  assert.equal(blind.code, 1);
  assert.match(blind.stderr, /the backup is encrypted: .*--identity-file/);
  await withServer({ cores: 1, groups: GROUPS }, async (target) => {
    const done = await ctl(['restore', '--config', clusterFileOf(target), ...place, ...key], { env });
    assert.equal(done.code, 0, done.stderr);
    await restored(target);
  });
  await store.send(new PutObjectCommand({ ...object('group-0001.snapshot'), Body: BODY }));
  const altered = await ctl(['backup-verify', ...place, ...key], { env });
  assert.equal(altered.code, 1);
  assert.match(
    altered.stderr,
    /s3:\/\/backups\/sealed\/one\/group-0001\.snapshot: it is not encrypted in the age format/,
  );
  store.destroy();
  removeFolder(folder);
}

type WorldView = Readonly<Record<string, unknown>>;

async function enlarge(port: number, appends: number): Promise<void> {
  const client = await RawClient.connect(port);
  for (let i = 0; i < appends; i++) {
    assert.equal((await client.request('POST', LARGE, TEXT, BODY)).status, 204);
  }
  client.destroy();
}

/** The tool dies in the middle of it, and the next one goes on. */
async function restoreTwice(env: Environment, location: string, world: World, before: WorldView): Promise<void> {
  await withCluster({ groups: GROUPS }, async (cluster) => {
    const target = scratchFile('target.toml', clusterToml(cluster));
    const args = ['restore', '--config', target, '--location', location];
    const first = spawnCtl(args, { env });
    let running = true;
    void first.ended.then(() => (running = false));
    const node = cluster.node(1);
    // Into the middle of it, where there is one: the first group takes rows, or is there.
    while (running) {
      const { raft_groups: groups } = (await node.metrics()) as {
        raft_groups: readonly { readonly importing: boolean; readonly last_applied: number }[];
      };
      if (groups.some(({ importing }) => importing)) break;
      await delay(POLL_MS);
    }
    first.child.kill('SIGKILL');
    await first.ended;
    const resumed = await ctl([...args, '--resume'], { env });
    assert.equal(resumed.code, 0, resumed.stderr);
    assert.match(resumed.stdout, /^restore complete: 4 groups, \d+ buckets, \d+ streams\n$/);
    // Followers show it when they have applied it.
    await cluster.settled();
    for (const id of cluster.ids) {
      const { port, adminPort } = cluster.node(id);
      assert.deepEqual(await describeWorld({ port, adminPort }, world), before, `node ${id}`);
    }
  });
}

test(
  'from S3 into three nodes, through any of them, by a tool that is killed and goes on',
  { skip: cephMissing() ?? false },
  async () => {
    const ceph = await Ceph.start({ bucket: 'backups' });
    try {
      const env = {
        AWS_ACCESS_KEY_ID: ceph.accessKey,
        AWS_SECRET_ACCESS_KEY: ceph.secretKey,
        AWS_REGION: 'us-east-1',
        AWS_ENDPOINT_URL_S3: ceph.endpoint,
      };
      const location = 's3://backups/daily/one';
      const store = ceph.client();
      await withServer({ cores: 1, groups: GROUPS }, async (source) => {
        const world = await fillWorld(source, createRandom(3), STREAMS);
        await source.client.create(LARGE, TEXT);
        await enlarge(source.port, PIECES);
        const before = await describeWorld(source, world);
        const config = clusterFileOf(source);
        const created = await ctl(['backup-create', '--config', config, '--location', location], { env });
        assert.equal(created.code, 0, created.stderr);
        const again = await ctl(['backup-create', '--config', config, '--location', location], { env });
        assert.equal(again.code, 1);
        assert.match(again.stderr, /is not empty/);
        await refuseOthers(config, env);
        await restoreTwice(env, location, world, before);
        await enlarge(source.port, APPENDS - PIECES);
        const larger = await describeWorld(source, world);
        await killUpload(source.adminPort, config, env, ceph);
        await keepSealed({ config, env, ceph }, async (target) => {
          assert.deepEqual(await describeWorld(target, world), larger, 'what was encrypted is what was there');
        });
      });
      const { Contents: objects = [] } = await store.send(
        new ListObjectsV2Command({ Bucket: 'backups', Prefix: 'daily/' }),
      );
      assert.deepEqual(
        objects.map(({ Key }) => Key),
        [0, 1, 2, 3].map((group) => `daily/one/group-000${group}.snapshot`).concat('daily/one/manifest.json'),
      );
      await store.send(
        new PutObjectCommand({ Bucket: 'backups', Key: 'daily/one/group-0001.snapshot', Body: 'short' }),
      );
      const short = await ctl(['backup-verify', '--location', location], { env });
      assert.match(short.stderr, /group-0001\.snapshot: it has 5 bytes/);
      await store.send(new DeleteObjectCommand({ Bucket: 'backups', Key: 'daily/one/manifest.json' }));
      const unfinished = await ctl(['backup-verify', '--location', location], { env });
      assert.match(unfinished.stderr, /holds no backup/);
      store.destroy();
    } finally {
      await ceph.stop();
    }
  },
);
