import { test } from 'node:test';
import { mustBeFound } from './finding.ts';
import { MUTATIONS } from './mutations.ts';
import { THIN_MUTATIONS } from './thin-mutations.ts';
import { Simulation } from './simulation.ts';

/**
 * clock-in-apply: the clients of the simulation do not ask when streams expire. mark-forgotten: they do not ask who leads. Those of
 * thin links: nor how long messages wait.
 * The others: seen by so few seeds that a change of the code elsewhere could hide them.
 */
const INSIDE_ONLY: ReadonlySet<string> = new Set([
  'clock-in-apply',
  'sent-before-commit',
  'ack-before-sync',
  'mark-forgotten',
  'import-mark-not-in-snapshots',
  'old-term-committed-by-counting',
  ...Object.keys(THIN_MUTATIONS),
]);

for (const [name, mutation] of Object.entries(MUTATIONS)) {
  // What a bug does may differ from life to life; each run gets its own.
  const run = (blind: boolean) => (seed: number) => new Simulation(seed, { mutation: mutation(), blind }).run();

  test(`the fixed seeds find ${name}`, (t) => mustBeFound(t, name, run(false)));
  if (INSIDE_ONLY.has(name)) continue;
  test(`clients alone find ${name}`, (t) => mustBeFound(t, `${name}, blind`, run(true)));
}
