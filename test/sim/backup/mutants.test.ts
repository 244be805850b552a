// Bugs planted in exports and imports are found by the fixed seeds; what is no bug is not.
import { test } from 'node:test';
import { mustBeFound } from '../finding.ts';
import { FIXED_SEEDS } from '../fixed-seeds.ts';
import { drawOptions } from '../options.ts';
import { BACKUP_BUGS, VARIANTS } from '../planted/list.ts';
import { loadSimulation } from '../planted/load.ts';

const VARIANT_SEEDS = 10;
const restores = (seed: number): boolean => drawOptions(seed).backup.restore !== undefined;

const { Simulation } = await loadSimulation();

for (const bug of VARIANTS) {
  test(`nothing is found where nothing is wrong: ${bug}`, () => {
    for (const seed of FIXED_SEEDS.filter(restores).slice(0, VARIANT_SEEDS)) new Simulation(seed, { bug }).run();
  });
}

for (const bug of BACKUP_BUGS) {
  test(`the fixed seeds find ${bug}`, (t) => mustBeFound(t, bug, (seed) => new Simulation(seed, { bug }).run()));
}
