// Planted bugs must be found by the fixed seeds, one for each checker; `npm run check` takes all of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { search } from './finding.ts';
import { TESTED_BUGS, restoringSeeds } from './fixed-seeds.ts';
import { plantedCases } from './planted/cases.ts';

const { bugs, variants } = await plantedCases();

for (const { name, run } of variants) {
  test(`nothing is found where nothing is wrong: ${name}`, () => restoringSeeds(1).forEach(run));
}

for (const name of TESTED_BUGS) {
  test(`the fixed seeds find ${name}`, (t) => {
    const found = search(bugs.find((one) => one.name === name) ?? assert.fail(`${name} is no planted bug`));
    t.diagnostic(found.line);
    assert(found.isFound);
  });
}

test('a node that applied something else is found by the others, which compare their rows with its own', () => {
  const { line } = search(bugs.find(({ name }) => name === 'entry-applied-otherwise, blind') ?? assert.fail());
  assert.match(line, /^FAIL comparison .* has other rows than most/);
});
