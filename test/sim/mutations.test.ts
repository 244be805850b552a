// Disks that lie must be found by the fixed seeds; and planted bugs that clients can see, also by what clients see
// alone.
import { test } from 'node:test';
import { DISK_FAULTS } from './disk-faults.ts';
import { mustBeFound } from './finding.ts';
import { FOUND_BY_CLIENTS } from './planted/list.ts';
import { loadSimulation } from './planted/load.ts';

/** By clients alone: few of their seeds show the others, so that a change elsewhere could hide them. */
const FAULTS_FOUND_BY_CLIENTS: readonly string[] = ['producers-not-in-snapshot'];

const { Simulation } = await loadSimulation();

for (const [name, diskFault] of Object.entries(DISK_FAULTS)) {
  const run = (blind: boolean) => (seed: number) => new Simulation(seed, { diskFault, blind }).run();
  test(`the fixed seeds find ${name}`, (t) => mustBeFound(t, name, run(false)));
  if (!FAULTS_FOUND_BY_CLIENTS.includes(name)) continue;
  test(`clients alone find ${name}`, (t) => mustBeFound(t, `${name}, blind`, run(true)));
}

for (const bug of FOUND_BY_CLIENTS) {
  const run = (seed: number) => new Simulation(seed, { bug, blind: true }).run();
  test(`clients alone find ${bug}`, (t) => mustBeFound(t, `${bug}, blind`, run));
}
