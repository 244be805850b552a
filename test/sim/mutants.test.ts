// Each planted bug must be found by the fixed seeds; those of backups: backup/mutants.test.ts.
import { test } from 'node:test';
import { mustBeFound } from './finding.ts';
import { OTHER_BUGS } from './planted/list.ts';
import { loadSimulation } from './planted/load.ts';

const { Simulation } = await loadSimulation();

for (const bug of OTHER_BUGS) {
  test(`the fixed seeds find ${bug}`, (t) => mustBeFound(t, bug, (seed) => new Simulation(seed, { bug }).run()));
}
