// Each bug that is planted in the text of the code must be found by the fixed seeds; those of backups: backup/mutants.test.ts.
import { test } from 'node:test';
import { BACKUP_MUTANTS } from './backup/mutants.ts';
import { mustBeFound } from './finding.ts';
import { MUTANTS } from './mutants.ts';
import { COLD_STORM_EVERY, FORKS_EVERY } from './options.ts';

for (const [name, { forks }] of Object.entries(MUTANTS)) {
  if (name in BACKUP_MUTANTS) continue;
  const every = forks === true ? FORKS_EVERY : COLD_STORM_EVERY;
  test(`the fixed seeds find ${name}`, (t) => mustBeFound(t, name, (seed) => seed % every === 0));
}
