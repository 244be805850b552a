// A log that begins with a checkpoint says the same as the whole log.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRandom } from '../../support/random.ts';
import type { Machine } from '../../../src/subscriptions/state/machine.ts';
import type { LogRecord } from '../../../src/subscriptions/state/record.ts';
import type { LinkPosition } from '../../../src/subscriptions/state/subscription.ts';
import { PULL, Scene, WEBHOOK } from './scene.ts';

const SEEDS = 200;
const RECORDS = 120;

function randomRecord(random: (below: number) => number, wakes: readonly string[], n: number): LogRecord {
  const id = `s${random(3)}`;
  const at = n * 100;
  const about = { id, at };
  const path = `events/${random(4)}`;
  const position: LinkPosition = [path, 1 + random(2), random(50)];
  const wake = wakes[random(wakes.length)] ?? `w${n}`;
  const generation = random(6);
  const config = random(2) === 0 ? WEBHOOK : PULL;
  const kinds: LogRecord[] = [
    { op: 'create', ...about, config, hash: config.type, base: 'http://h', links: [position] },
    { op: 'delete', ...about },
    { op: 'add', ...about, links: [position] },
    { op: 'remove', ...about, path },
    { op: 'link', ...about, links: [position] },
    { op: 'gone', ...about, path, incarnation: 1 + random(2) },
    { op: 'rewind', ...about, path, incarnation: 1 + random(2), offset: random(50) },
    { op: 'delivered', ...about, wake },
    { op: 'failed', ...about, wake, next: at + 500 },
    { op: 'done', ...about, wake },
    { op: 'expire', ...about, wake, until: at, next: -1 },
    { op: 'release', ...about, wake, generation },
    { op: 'key', kid: `k${random(3)}`, x: 'x', d: 'd', secret: 's' },
    { op: 'rotate', at: at + 1, kid: `r${random(20)}`, x: 'x', d: 'd', from: at + random(3), alone: random(3) === 0 },
    { op: 'checkpoint' },
    { op: 'checkpoint-end' },
    { op: 'of a later version', ...about } as unknown as LogRecord,
  ];
  if (random(2) === 0) return kinds[random(kinds.length)] as LogRecord;
  const likely: LogRecord[] = [
    { op: 'wake', ...about, wake: `w${n}`, generation, tails: [position] },
    { op: 'claim', ...about, wake: `w${n}`, worker: 'one', tails: [position] },
    { op: 'ack', ...about, wake, generation, acks: [position], done: random(2) === 0 },
  ];
  return likely[random(likely.length)] as LogRecord;
}

function wakesOf(machine: Machine): string[] {
  return [...machine.subscriptions.values()].flatMap((sub) => (sub.wake === undefined ? [] : [sub.wake.id]));
}

test('a fold from a checkpoint and a fold from the beginning agree after every record', () => {
  let moved = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const source = createRandom(seed);
    const random = (below: number): number => source.int(0, below - 1);
    const whole = new Scene().machine;
    const late = new Scene().machine;
    const start = random(RECORDS);
    for (let n = 0; n < RECORDS; n++) {
      if (n === start) {
        const checkpoint = whole.checkpoint().map((record) => JSON.parse(JSON.stringify(record)) as LogRecord);
        for (const record of checkpoint) late.apply(record);
        for (const record of checkpoint) whole.apply(record);
      }
      const record = randomRecord(random, wakesOf(whole), n);
      const outcome = whole.apply(record);
      if (outcome.code === 'OK') moved++;
      if (n < start) continue;
      assert.deepEqual(late.apply(record), outcome, `seed ${seed}, record ${n}`);
      assert.deepEqual(late.checkpoint(), whole.checkpoint(), `seed ${seed}, record ${n}`);
      assert.deepEqual([late.bytes, late.links], [whole.bytes, whole.links]);
    }
  }
  assert(moved > SEEDS * 10, `the records do something: ${moved}`);
});
