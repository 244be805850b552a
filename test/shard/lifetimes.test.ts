import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALL_GROUPS, requestFor } from '../../src/protocol/request.ts';
import { Harness, code, find } from './harness.ts';
import { QUERIES } from '../../src/protocol/operations.ts';

function usage(harness: Harness): { stream_count: number; retained_bytes: number; committed_append_bytes: number } {
  const slot = harness.push(requestFor(QUERIES.usage, ALL_GROUPS, { after: '', limit: 0 }));
  const { rows } = QUERIES.usage.result.read(find(harness.turn(0), slot));
  const [, bytes, , , retained, streams] = rows.find(([name]) => name === 'bucket') ?? ['', 0, 0, 0, 0, 0];
  return { committed_append_bytes: bytes, retained_bytes: retained, stream_count: streams };
}

test('expired streams answer 404 at once and are swept within seconds', () => {
  const harness = new Harness([0, 1]);
  for (let i = 0; i < 20; i++) harness.create(i % 2, `s${i}`, { ttl: 10, body: 'x' });
  harness.create(0, 'stays', { body: 'y' });
  harness.turn();
  assert.equal(usage(harness).stream_count, 21);
  harness.nowMs += 10_000;
  const slot = harness.read(0, 's0');
  assert.equal(code(find(harness.turn(), slot)), 'STREAM_NOT_FOUND');
  for (let i = 0; i < 3; i++) harness.turn(1000);
  const after = usage(harness);
  assert.deepEqual([after.stream_count, after.retained_bytes, after.committed_append_bytes], [1, 1, 21]);
});

test('more expired streams than one command takes are gone after a few', () => {
  const harness = new Harness([0]);
  for (let i = 0; i < 600; i++) harness.create(0, `s${i}`, { expires: harness.nowMs + 500 });
  harness.turn();
  for (let i = 0; i < 6; i++) harness.turn(1000);
  assert.equal(usage(harness).stream_count, 0);
});

test('while an expire command is full the next one comes in the next turn, which is due at once', () => {
  const harness = new Harness([0, 1]);
  for (let i = 0; i < 3000; i++) harness.create(i % 2, `s${i}`, { expires: harness.nowMs + 500 });
  harness.turn();
  assert.equal(usage(harness).stream_count, 3000);
  harness.turn(1000);
  // 1,500 of each group, 256 in a turn.
  for (let turns = 1; turns < 6; turns++) {
    assert.equal(harness.shard.waitMs(harness.clockMs), 0);
    harness.turn(1);
  }
  assert.equal(usage(harness).stream_count, 0);
});

test('reads renew a sliding lifetime, and a burst of them proposes one renewal', () => {
  const harness = new Harness([0]);
  harness.create(0, 's', { ttl: 100 });
  harness.turn();
  const last = (): number => harness.shard.groups[0]?.raft.lastIndex as number;
  for (let i = 0; i < 10; i++) {
    harness.nowMs += 50_000;
    const before = last();
    for (let j = 0; j < 20; j++) harness.read(0, 's');
    harness.turn();
    assert.equal(last() - before, 1, 'one entry for the whole burst');
    for (let j = 0; j < 20; j++) harness.read(0, 's');
    harness.turn();
    assert.equal(last() - before, 1, 'none while the renewal is fresh');
  }
  assert.equal(harness.contents(0, 's'), '', 'alive ten times 50 s after a lifetime of 100 s began');
  harness.restart();
  harness.nowMs += 99_000;
  assert.equal(harness.contents(0, 's'), '', 'the renewal was replicated, not remembered');
  harness.nowMs += 100_001;
  const slot = harness.read(0, 's');
  assert.equal(code(find(harness.turn(), slot)), 'STREAM_NOT_FOUND');
});

test('reads do not renew an absolute lifetime', () => {
  const harness = new Harness([0]);
  harness.create(0, 's', { expires: harness.nowMs + 10_000 });
  harness.turn();
  for (let i = 0; i < 4; i++) {
    harness.read(0, 's');
    harness.turn(3000);
  }
  const slot = harness.read(0, 's');
  assert.equal(code(find(harness.turn(), slot)), 'STREAM_NOT_FOUND');
});

test('a clock that is set back neither stops the shard nor runs the commands backwards', () => {
  const harness = new Harness([0]);
  harness.create(0, 's', { ttl: 100 });
  harness.turn();
  harness.nowMs -= 3_600_000;
  for (let i = 0; i < 30; i++) {
    const slot = harness.append(0, 's', 'x');
    assert.equal(code(find(harness.turn(100), slot)), 'OK');
  }
  assert(harness.shard.waitMs(harness.clockMs) <= 100);
});
