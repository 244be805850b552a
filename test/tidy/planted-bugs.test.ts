/**
 * The table of planted bugs, their points in the code and the seeds that find them belong together; and none can be
 * switched on in what ships.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { PLANTED_BUGS, type PlantedBug } from '../../src/base/planted-bugs.ts';
import { planted } from '../../src/base/planted.ts';
import { FOUND_BY } from '../sim/fixed-seeds.ts';
import { BACKUP_BUGS, OTHER_BUGS, SESSION_BUGS, VARIANTS, isPlantedBug } from '../sim/planted/list.ts';
import { readText, sourcePaths } from './repository.ts';

const NAMES: readonly PlantedBug[] = Object.keys(PLANTED_BUGS).filter(isPlantedBug);

test('each planted bug has a point in the code, and each point a name in the table', () => {
  const points = new Set<string>();
  for (const path of sourcePaths(['src', 'workers'])) {
    for (const [call, name] of readText(path).matchAll(/\bplanted\((?:'([^']*)')?/g)) {
      assert(name !== undefined, `${path}: ${call} does not name its bug`);
      points.add(name);
    }
  }
  assert.deepEqual([...points].sort(), [...NAMES].sort());
});

test('each planted bug is on record with the seed that finds it', () => {
  const tested = [...BACKUP_BUGS, ...OTHER_BUGS, ...SESSION_BUGS];
  assert.deepEqual([...tested, ...VARIANTS].sort(), [...NAMES].sort(), 'the tests run all bugs of the table');
  const unknown = tested.filter((bug) => FOUND_BY[bug] === undefined);
  assert.deepEqual(unknown, [], 'no seed in test/sim/fixed-seeds.ts');
});

test('what ships has no switch for them', () => {
  for (const bug of NAMES) assert.equal(planted(bug), false);
  const shipped = readFileSync(new URL('../../src/base/planted.js', import.meta.url), 'utf8');
  const code = shipped.replace(/\/\*[^]*?\*\/|\/\/.*/g, '').trim();
  assert.equal(code, 'export const planted = (_bug) => false;');
});
