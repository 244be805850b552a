// The copies of a node's forks are bounded, in bytes at once and in bytes a second.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FORK_BYTES_IN_MAKING_MAX, FORK_BYTES_PER_SECOND } from '../../../src/base/limits.ts';
import { ForkPacer } from '../../../src/forks/service/pacer.ts';
import { FakeRuntime } from '../../support/fake-runtime.ts';

const MIB = 1024 * 1024;

test('eight forks of 25 MiB are not in the making at once; a larger one than the bound is made alone', () => {
  const pacer = new ForkPacer(new FakeRuntime());
  const taken = Array.from({ length: 8 }, () => pacer.begin(25 * MIB)).filter(Boolean).length;
  assert.equal(taken, Math.floor(FORK_BYTES_IN_MAKING_MAX / (25 * MIB)));
  pacer.end(25 * MIB);
  assert(pacer.begin(25 * MIB));
  for (let i = 0; i < taken; i++) pacer.end(25 * MIB);
  assert.equal(pacer.bytes, 0);
  assert(pacer.begin(10 * FORK_BYTES_IN_MAKING_MAX));
  assert(!pacer.begin(1));
  assert(pacer.begin(0), 'what inherits nothing takes no room');
});

test('pieces of all forks together go at one pace', async () => {
  const runtime = new FakeRuntime();
  const pacer = new ForkPacer(runtime);
  let lastMs = 0;
  for (let i = 0; i < 64; i++) pacer.pass(MIB, () => (lastMs = runtime.clockMs));
  await runtime.pass(60_000);
  assert.equal(Math.round(lastMs), (64_000 * MIB) / FORK_BYTES_PER_SECOND);
  let isAtOnce = false;
  pacer.pass(1000, () => (isAtOnce = true));
  assert(isAtOnce, 'a tiny fork does not wait');
});
