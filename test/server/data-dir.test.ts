// The data directory: created once, refused when it is not what it was.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ConfigError } from '../../src/config/error.ts';
import { completeDataDir, openDataDir } from '../../src/server/data-dir.ts';

const LAYOUT = { nodeId: 1, groupCount: 16, shardCount: 2 };

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
  assert.deepEqual(openDataDir(path, LAYOUT), LAYOUT);
  assert.equal(openDataDir(path, { ...LAYOUT, shardCount: 4 }).shardCount, 2);
  assert.match(refusal(path, { ...LAYOUT, nodeId: 2 }), /belongs to node 1/);
  assert.match(refusal(path, { ...LAYOUT, groupCount: 8 }), /was created with 16 groups/);
});

test('a shard that is gone or empty is refused once all have been there', (t) => {
  const path = folder(t);
  openDataDir(path, LAYOUT);
  assert.equal(refusal(path), 'accepted', 'a first start that died may be repeated');
  addShards(path);
  completeDataDir(path, LAYOUT);
  assert.equal(refusal(path), 'accepted');
  truncateSync(join(path, 'shard-1', 'data.mdb'));
  assert.match(refusal(path), /shard-1\/data\.mdb is missing or empty/);
  rmSync(join(path, 'shard-1'), { recursive: true });
  assert.match(refusal(path), /shard-1\/data\.mdb is missing or empty/);
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
    [{ ...whole, format: 1 }, /another version \(format 1\)/],
    [{ ...whole, shardCount: 0 }, /damaged/],
    [{ ...whole, shardCount: -1 }, /damaged/],
    [{ ...whole, shardCount: 1.5 }, /damaged/],
    [{ ...whole, shardCount: '2' }, /damaged/],
    [{ ...whole, shardCount: 17 }, /damaged/],
    [{ ...whole, groupCount: 5000 }, /damaged/],
    [{ format: 2 }, /damaged/],
  ];
  for (const [content, expected] of cases) {
    writeFileSync(join(path, 'millrace.json'), typeof content === 'string' ? content : JSON.stringify(content));
    assert.match(refusal(path), expected);
  }
});
