// The data directory: created once, refused when it is not what it was.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { type TestContext, test } from 'node:test';
import { ConfigError } from '../../src/config/error.ts';
import {
  type Wanted,
  completeDataDir,
  countStart,
  lockDataDir,
  noteClusterId,
  noteSettled,
  noteSource,
  openDataDir,
  readLayout,
} from '../../src/server/data-dir.ts';

const LAYOUT = { nodeId: 1, groupCount: 16, shardCount: 2, single: true };
/** No shard has noted a start. */
const COMPLETE = { single: true, shardRun: undefined };

/** A start, as far as the directory knows of it. */
function startOn(path: string, wanted: Wanted): ReturnType<typeof openDataDir> {
  const directory = openDataDir(path, wanted);
  assert(countStart(path, directory));
  return directory;
}

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'millrace-data-dir-'));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

function addShards(path: string, count = 2): void {
  for (let shard = 0; shard < count; shard++) {
    mkdirSync(join(path, `shard-${shard}`), { recursive: true });
    writeFileSync(join(path, `shard-${shard}`, 'data.mdb'), 'x');
  }
}

function refusal(path: string, layout = LAYOUT): string {
  try {
    openDataDir(path, layout);
  } catch (error) {
    assert(error instanceof ConfigError);
    return error.message;
  }
  return 'accepted';
}

test('the layout of the first start stays in force', (t) => {
  const path = folder(t);
  const { nodeId, groupCount, shardCount } = openDataDir(path, LAYOUT);
  assert.deepEqual({ nodeId, groupCount, shardCount, single: true }, LAYOUT);
  assert.equal(openDataDir(path, { ...LAYOUT, shardCount: 4 }).shardCount, 2);
  assert.match(refusal(path, { ...LAYOUT, nodeId: 2 }), /belongs to node 1/);
  assert.match(refusal(path, { ...LAYOUT, groupCount: 8 }), /was created with 16 groups/);
});

test('a shard that is gone or empty is refused once all have been there', (t) => {
  const path = folder(t);
  openDataDir(path, LAYOUT);
  assert.equal(refusal(path), 'accepted', 'a first start that died may be repeated');
  addShards(path);
  completeDataDir(path, COMPLETE);
  assert.equal(refusal(path), 'accepted');
  truncateSync(join(path, 'shard-1', 'data.mdb'));
  assert.match(refusal(path), /shard-1\/data\.mdb is missing or empty/);
  rmSync(join(path, 'shard-1'), { recursive: true });
  assert.match(refusal(path), /shard-1\/data\.mdb is missing or empty/);
});

test('a first start whose power failed begins again, whatever it left of its shards', (t) => {
  const path = folder(t);
  openDataDir(path, LAYOUT);
  addShards(path);
  assert.equal(refusal(path), 'accepted');
  assert.deepEqual(readdirSync(path), ['millrace.json']);
  addShards(path);
  completeDataDir(path, COMPLETE);
  assert.equal(refusal(path), 'accepted');
  assert.deepEqual(readdirSync(path), ['millrace.json', 'shard-0', 'shard-1'], 'they have served');
});

test('a shard of a version that noted later that all are there stays', (t) => {
  const path = folder(t);
  const { nodeId, groupCount, shardCount } = LAYOUT;
  writeFileSync(join(path, 'millrace.json'), JSON.stringify({ format: 2, nodeId, groupCount, shardCount }));
  addShards(path);
  for (let i = 0; i < 2; i++) startOn(path, LAYOUT);
  assert.deepEqual(readdirSync(path), ['millrace.json', 'shard-0', 'shard-1']);
});

test('foreign shards and a missing layout are refused', (t) => {
  const path = folder(t);
  addShards(path, 1);
  assert.match(refusal(path), /holds shards but no millrace\.json/);
  rmSync(join(path, 'shard-0'), { recursive: true });
  openDataDir(path, LAYOUT);
  addShards(path, 3);
  assert.match(refusal(path), /holds shard-2, but millrace\.json speaks of 2 shards/);
});

test('a damaged layout is refused with a sentence', (t) => {
  const path = folder(t);
  const whole = { format: 2, nodeId: 1, groupCount: 16, shardCount: 2 };
  const cases: [unknown, RegExp][] = [
    ['{', /cannot be read/],
    [null, /another version/],
    [[], /another version/],
    [{ ...whole, format: 1 }, /another version \(format 1; this one reads 2 to 4\)/],
    [{ ...whole, shardCount: 0 }, /damaged/],
    [{ ...whole, shardCount: -1 }, /damaged/],
    [{ ...whole, shardCount: 1.5 }, /damaged/],
    [{ ...whole, shardCount: '2' }, /damaged/],
    [{ ...whole, shardCount: 17 }, /damaged/],
    [{ ...whole, groupCount: 5000 }, /damaged/],
    [{ format: 2 }, /damaged/],
    ...[{}, [null], [{ directory: 'x', incarnation: 1 }], [{ directory: '' }]].map((settled): [unknown, RegExp] => [
      { ...whole, settled },
      /settled is not what this wrote/,
    ]),
  ];
  for (const [content, expected] of cases) {
    writeFileSync(join(path, 'millrace.json'), typeof content === 'string' ? content : JSON.stringify(content));
    assert.match(refusal(path), expected);
  }
});

const NOBODY = { clusterId: '', single: false, migrated: false, settled: [] };

test('a directory is told from all others, and each start on it from the ones before', (t) => {
  const [path, other] = [folder(t), folder(t)];
  const cluster = { ...LAYOUT, single: false };
  const first = startOn(path, cluster);
  assert.match(first.directoryId, /^[0-9a-f]{16}$/);
  assert.deepEqual({ ...first, ...NOBODY, incarnation: 1 }, first);
  assert.deepEqual([openDataDir(path, cluster).incarnation, openDataDir(path, cluster).incarnation], [2, 2]);
  const again = startOn(path, cluster);
  assert.deepEqual(again, { ...first, incarnation: 2 });
  assert.notEqual(startOn(other, cluster).directoryId, first.directoryId);
  const id = 'c'.repeat(32);
  assert.equal(noteClusterId(path, id), true);
  assert.equal(noteClusterId(path, id), true);
  assert.equal(noteClusterId(path, 'd'.repeat(32)), false);
  // It turned out to be an older copy: from now on it counts on from where the newer one was.
  const newer = { directory: first.directoryId, incarnation: 7, boot: 1 };
  noteSettled(path, { later: [newer] });
  noteSettled(path, { later: [{ directory: 'e'.repeat(16), incarnation: 90 }] });
  const then = startOn(path, { ...cluster, single: true });
  assert.deepEqual([then.clusterId, then.incarnation, then.single], [id, 8, false]);
  assert.deepEqual(then.settled[0], newer);
  // A single node decides alone.
  assert.match(startOn(folder(t), LAYOUT).clusterId, /^[0-9a-f]{32}$/);
});

test('a directory of the version before gets an id, and is known not to be new', (t) => {
  const path = folder(t);
  const { nodeId, groupCount, shardCount } = LAYOUT;
  writeFileSync(
    join(path, 'millrace.json'),
    JSON.stringify({ format: 2, complete: true, nodeId, groupCount, shardCount }),
  );
  addShards(path);
  const first = startOn(path, LAYOUT);
  assert.match(first.directoryId, /^[0-9a-f]{16}$/);
  assert.deepEqual([first.migrated, first.incarnation, first.single, first.clusterId], [true, 1, undefined, '']);
  completeDataDir(path, COMPLETE);
  assert.deepEqual(startOn(path, LAYOUT), { ...first, incarnation: 2, single: true });
});

test('a directory that is removed while a node runs on it leaves its lock to no other one', async (t) => {
  const path = folder(t);
  const removed = join(path, 'data');
  const lock = await lockDataDir(removed);
  t.after(() => lock.release());
  const { ino } = statSync(removed);
  rmSync(removed, { recursive: true });
  for (let i = 0; i < 20; i++) {
    const later = join(path, `later-${i}`);
    await (await lockDataDir(later)).release();
    // The file system gives the number of one that is gone to the next one.
    assert.notEqual(statSync(later).ino, ino);
  }
});

test('a disk that takes only a part of millrace.json leaves it as it was', (t) => {
  const path = folder(t);
  startOn(path, LAYOUT);
  for (let i = 0; i < 40; i++) noteSource(path, String(i).padStart(32, '0'));
  const url = new URL('../../src/server/data-dir.js', import.meta.url).href;
  const script = `
    import { noteSource } from ${JSON.stringify(url)};
    noteSource(process.argv[1], 'f'.repeat(32));`;
  // The size limit of a file, in blocks of 512 bytes: the kernel takes what fits, and says so only when it is asked again.
  const limited = ['-c', 'ulimit -f 1; exec "$@"', 'sh', process.execPath, '--input-type=module', '-e', script, path];
  const { stderr } = spawnSync('sh', limited, { encoding: 'utf8' });
  assert.match(stderr, /cannot be written \(EFBIG/);
  assert.equal(readLayout(path).restoredFrom.length, 40);
});
