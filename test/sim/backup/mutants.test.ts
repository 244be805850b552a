// Bugs planted in exports and imports are found by the fixed seeds; what is no bug is not.
import { test } from 'node:test';
import { mustBeFound } from '../finding.ts';
import { FIXED_SEEDS } from '../fixed-seeds.ts';
import { mutated } from '../mutants.ts';
import { drawOptions } from '../options.ts';
import { BACKUP_MUTANTS, BACKUP_VARIANTS } from './mutants.ts';

const VARIANT_SEEDS = 30;
const restores = (seed: number): boolean => drawOptions(seed).backup.restore !== undefined;

for (const name of Object.keys(BACKUP_VARIANTS)) {
  test(`nothing is found where nothing is wrong: ${name}`, async () => {
    const { Simulation } = await mutated(name);
    for (const seed of FIXED_SEEDS.filter(restores).slice(0, VARIANT_SEEDS)) new Simulation(seed).run();
  });
}

for (const name of Object.keys(BACKUP_MUTANTS)) {
  test(`the fixed seeds find ${name}`, async (t) => {
    const { Simulation } = await mutated(name);
    mustBeFound(t, name, (seed) => new Simulation(seed).run());
  });
}
