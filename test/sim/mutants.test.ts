// Each bug that is planted in the text of the code must be found by the fixed seeds; those of backups: backup/mutants.test.ts.
import { test } from 'node:test';
import { BACKUP_MUTANTS } from './backup/mutants.ts';
import { mustBeFound } from './finding.ts';
import { MUTANTS, mutated } from './mutants.ts';

for (const name of Object.keys(MUTANTS)) {
  if (name in BACKUP_MUTANTS) continue;
  test(`the fixed seeds find ${name}`, async (t) => {
    const { Simulation } = await mutated(name);
    mustBeFound(t, name, (seed) => new Simulation(seed).run());
  });
}
