import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHECKPOINT_MS } from '../../src/shard/checkpoints.ts';
import { REPLY_RESULT } from '../../src/protocol/reply.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';
import { Harness, code, find, text } from './harness.ts';

test('no answer is written before the commit that holds its command has returned', () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  const harness = new Harness();
  const { storage, target } = harness;
  const words = new Map<number, string>();
  let answered = 0;
  target.onFrame = (reply) => {
    const word = words.get(reply.id);
    if (reply.kind !== REPLY_RESULT || word === undefined) return;
    assert(!storage.committing, 'answers are not written from inside a commit');
    assert.equal(code(reply), 'OK', `SEED=${seed}`);
    assert(storage.durableText.includes(word), `${word} is durable before its answer exists (SEED=${seed})`);
    answered++;
  };
  for (let group = 0; group < 4; group++) harness.create(group, 's');
  harness.turn();
  for (let i = 0; i < 300; i++) {
    const count = random.int(0, 12);
    for (let j = 0; j < count; j++) {
      const word = `word-${i}-${j};`;
      words.set(harness.append(random.int(0, 3), 's', word, { isTransferred: random.chance(0.2) }), word);
    }
    // The answers of a turn's commands are published by that turn: with one voter nothing else is waited for.
    const before = answered;
    harness.turn(random.int(0, 40));
    assert.equal(answered - before, count);
  }
  assert.equal(answered, words.size);
});

test('a read never shows a byte that a crash could take back', () => {
  const harness = new Harness([0]);
  harness.create(0, 's');
  harness.turn();
  harness.append(0, 's', 'one;');
  const early = harness.read(0, 's');
  const replies = harness.turn();
  assert.equal(text(find(replies, early)), '', 'the read came before the commit of the append in its turn');
  assert.equal(harness.contents(0, 's'), 'one;');
});

test('all groups of a turn share one commit', () => {
  const harness = new Harness();
  for (let group = 0; group < 4; group++) harness.create(group, 's');
  harness.turn();
  const before = harness.storage.commits;
  for (let i = 0; i < 100; i++) harness.append(i % 4, 's', 'x');
  harness.turn(0);
  assert.equal(harness.storage.commits - before, 1);
});

test('a restart replays the log behind the checkpoint, and nothing acknowledged is missing', () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  const harness = new Harness([0, 5]);
  const expected = new Map([0, 5].map((group) => [group, '']));
  for (const group of expected.keys()) harness.create(group, 's');
  harness.turn();
  let restarts = 0;
  let checkpoints = 0;
  for (let i = 0; i < 400; i++) {
    for (let j = random.int(0, 3); j > 0; j--) {
      const group = random.pick([0, 5]);
      const word = `${i}.${j} `;
      harness.append(group, 's', word);
      expected.set(group, `${expected.get(group)}${word}`);
    }
    harness.turn(random.int(0, 60));
    if (random.chance(0.05)) {
      // Some restarts come behind a checkpoint, whatever the seed.
      if (restarts % 3 === 0) harness.turn(CHECKPOINT_MS);
      checkpoints += harness.shard.status.counters.checkpoints;
      harness.restart();
      restarts++;
      for (const [group, all] of expected) assert.equal(harness.contents(group, 's'), all, `SEED=${seed}`);
    }
  }
  assert(restarts > 0 && checkpoints > 0, `${restarts} restarts, ${checkpoints} checkpoints`);
});

test('a checkpoint that is being written counts when it is on disk, and a crash before loses nothing', () => {
  const harness = new Harness([0]);
  harness.create(0, 's');
  harness.turn();
  harness.turn(CHECKPOINT_MS);
  harness.turn(5);
  const { storage } = harness;
  const before = storage.logs.get(0)?.firstIndex();
  storage.checkpointLooks = 4;
  harness.append(0, 's', 'one;');
  harness.turn();
  harness.turn(CHECKPOINT_MS);
  for (let looks = 0; looks < 3; looks++) {
    assert.equal(harness.contents(0, 's'), 'one;', 'reads see its rows');
    assert.equal(storage.logs.get(0)?.firstIndex(), before, 'the log keeps what it covers');
  }
  harness.restart();
  assert.equal(harness.contents(0, 's'), 'one;');
  assert(harness.shard.waitMs(harness.clockMs) <= CHECKPOINT_MS);
  harness.turn(CHECKPOINT_MS);
  for (let looks = 0; looks < 6; looks++) harness.turn(5);
  assert((storage.logs.get(0)?.firstIndex() ?? 0) > (before ?? 0), 'now it is compacted');
});

test('a stop writes everything, so that the next start replays nothing', () => {
  const harness = new Harness([0]);
  harness.create(0, 's', { body: 'hello' });
  harness.turn(0);
  harness.shard.stop(harness.nowMs, harness.clockMs);
  const { state } = harness.shard.groups[0] as (typeof harness.shard.groups)[0];
  const applied = state.appliedIndex;
  assert(!state.dirty);
  harness.restart();
  const log = harness.storage.logs.get(0);
  assert.equal(log?.firstIndex(), applied + 1);
  assert.equal(harness.contents(0, 's'), 'hello');
});

test('a group whose commands change nothing still compacts its log', () => {
  const harness = new Harness([0]);
  harness.create(0, 's');
  harness.append(0, 's', 'x', { producer: ['p', 0, 0] });
  harness.turn();
  for (let i = 0; i < 200; i++) {
    harness.append(0, 's', 'x', { producer: ['p', 0, 0] });
    harness.append(0, 'absent', 'x');
    harness.turn(20);
  }
  harness.turn(1000);
  harness.turn(1000);
  const length = harness.storage.logs.get(0)?.length ?? 0;
  assert(length <= 2, `${length} entries are kept although a checkpoint could cover them`);
});
