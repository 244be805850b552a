// Which files run side by side (scripts/suite/schedule.ts).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Schedule } from '../../scripts/suite/schedule.ts';
import type { Unit } from '../../scripts/suite/unit.ts';

const CORES = 2;
const CPU_SECONDS = 60;
/** It took as long as it was measured, and nothing has to run because of it. */
const GOOD = { cpuSeconds: CPU_SECONDS, more: [] };

const unit = (name: string, cores: number, isCalm = false): Unit => ({
  name,
  files: [name],
  timeoutMs: 1000,
  cores,
  cpuSeconds: CPU_SECONDS,
  hasNodes: false,
  isCalm,
  isSecond: false,
});

/** Names of the units that start now, in their order. */
function startable(schedule: Schedule): string[] {
  const names: string[] = [];
  for (let one = schedule.next(); one !== undefined; one = schedule.next()) names.push(one.name);
  return names;
}

test('units start while the cores have room for them, and one that does not fit waits without holding up others', () => {
  const [busy, large, waiting, small] = [unit('busy', 1.4), unit('large', 1), unit('waiting', 0.1), unit('small', 0.6)];
  const schedule = new Schedule([busy, large, waiting, small], CORES);
  assert.deepEqual(startable(schedule), ['busy', 'waiting', 'small']);
  schedule.ended(waiting, GOOD);
  assert.deepEqual(startable(schedule), []);
  schedule.ended(busy, GOOD);
  assert.deepEqual(startable(schedule), ['large']);
});

test('a unit that keeps more than all cores busy runs alone', () => {
  const schedule = new Schedule([unit('huge', 5), unit('small', 0.5)], CORES);
  assert.deepEqual(startable(schedule), ['huge']);
});

test('beside a calm unit a part of the cores stays idle, and it waits for that itself', () => {
  const calm = unit('calm', 0.5, true);
  const schedule = new Schedule([calm, unit('busy', 1.5), unit('small', 0.9)], CORES);
  assert.deepEqual(startable(schedule), ['calm', 'small']);
  const later = new Schedule([unit('busy', 1.5), calm], CORES);
  assert.deepEqual(startable(later), ['busy']);
});

test('units that only wait are bounded too, and what an outcome adds comes last', () => {
  const idle = Array.from({ length: 8 }, (_, i) => unit(`idle-${i}`, 0));
  const schedule = new Schedule(idle, CORES);
  const [first, second, third] = idle as [Unit, Unit, Unit];
  assert.equal(startable(schedule).length, 6);
  schedule.ended(first, { ...GOOD, more: [unit('again', 0)] });
  assert.deepEqual(startable(schedule), ['idle-6']);
  schedule.ended(second, GOOD);
  schedule.ended(third, GOOD);
  assert.deepEqual(startable(schedule), ['idle-7', 'again']);
});

test('on a slower machine fewer run side by side, for they work longer and wait as long', () => {
  const units = ['a', 'b', 'c', 'd', 'e'].map((name) => unit(name, 0.5));
  const first = unit('first', 2);
  const schedule = new Schedule([first, ...units], CORES);
  assert.deepEqual(startable(schedule), ['first']);
  // As half as fast a machine, with the seconds that the pace begins with.
  schedule.ended(first, { ...GOOD, cpuSeconds: 150 });
  assert.deepEqual(startable(schedule), ['a', 'b', 'c']);
  const quick = new Schedule([...units], CORES);
  assert.deepEqual(startable(quick), ['a', 'b', 'c', 'd']);
  quick.ended(units[0] as Unit, { cpuSeconds: 0, more: [] });
  assert.deepEqual(startable(quick), ['e']);
});
