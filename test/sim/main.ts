/**
 * `npm run sim`: the fixed seeds; `-- --seeds COUNT` for that many, `--from SEED` to start elsewhere, `-- --seed N` for
 * one with a full trace. `--sessions` runs simulations of sessions (sessions/run.ts). `--mutation NAME` plants a bug (src/base/planted-bugs.ts, disk-faults.ts); `--blind` leaves
 * finding it to the clients. `--mutations` plants each, one after the other, and each must be found.
 */
import process from 'node:process';
import { parseArgs } from 'node:util';
import { PLANTED_BUGS } from '../../src/base/planted-bugs.ts';
import { FIXED_SEEDS, SESSION_SEEDS, restoringSeeds } from './fixed-seeds.ts';
import { SESSION_BUGS, isPlantedBug } from './planted/list.ts';
import { loadSimulation } from './planted/load.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string' },
    from: { type: 'string', default: '1' },
    mutation: { type: 'string' },
    mutations: { type: 'boolean', default: false },
    quiet: { type: 'boolean', default: false },
    totals: { type: 'boolean', default: false },
    sessions: { type: 'boolean', default: false },
    blind: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
});
const name = values.mutation ?? '';
const bug = isPlantedBug(name) ? name : undefined;
// Before anything of src/, or the bug would not be in it.
const { Simulation } =
  bug === undefined && !values.mutations ? await import('./simulation.ts') : await loadSimulation();
const { DISK_FAULTS } = await import('./disk-faults.ts');
const { SessionRun } = await import('./sessions/run.ts');
const isOfSessions = values.sessions || (bug !== undefined && SESSION_BUGS.includes(bug));
const diskFault = DISK_FAULTS[name];
if (values.mutation !== undefined && diskFault === undefined && bug === undefined) {
  throw new Error(`no such mutation; there are ${Object.keys({ ...DISK_FAULTS, ...PLANTED_BUGS }).join(' ')}`);
}

const totals: Record<string, number> = {};

function one(seed: number, log?: (line: string) => void, kind = isOfSessions ? 'sessions' : 'nodes'): boolean {
  try {
    if (kind === 'sessions') return session(seed);
    const result = new Simulation(seed, { bug, diskFault, blind: values.blind, log }).run();
    for (const [what, count] of Object.entries(result.counts)) totals[what] = (totals[what] ?? 0) + count;
    totals['simulated s'] = (totals['simulated s'] ?? 0) + result.simulatedMs / 1000;
    if (log !== undefined) process.stdout.write(`${JSON.stringify(result, undefined, 1)}\n`);
    return true;
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('FAIL')) throw error;
    process.stdout.write(`${error.message}\n`);
    if (log !== undefined && error.cause instanceof Error) process.stdout.write(`${error.cause.stack ?? ''}\n`);
    return false;
  }
}

function session(seed: number): true {
  const run = new SessionRun(seed);
  run.run(bug);
  for (const [what, count] of Object.entries(run.counts)) totals[what] = (totals[what] ?? 0) + count;
  return true;
}

function many(seeds: readonly number[], kind?: 'sessions'): number {
  const startMs = performance.now();
  let run = 0;
  let failed = 0;
  for (const seed of seeds) {
    run++;
    if (!one(seed, undefined, kind)) failed++;
    if (failed >= 10 && !values.keep) break;
  }
  const seconds = (performance.now() - startMs) / 1000;
  if (values.totals) process.stdout.write(`${JSON.stringify(totals, undefined, 1)}\n`);
  process.stdout.write(
    `${run} seeds, ${failed} failed, ${seconds.toFixed(1)} s (${(run / seconds).toFixed(1)} seeds/s)\n`,
  );
  return failed;
}

async function mutations(): Promise<number> {
  const { plantedCases } = await import('./planted/cases.ts');
  const { searchAll } = await import('./finding.ts');
  const { bugs, variants } = await plantedCases();
  for (const { run } of variants) restoringSeeds(10).forEach(run);
  return searchAll(bugs, (line) => void process.stdout.write(line));
}

if (values.mutations) {
  process.exitCode = (await mutations()) === 0 ? 0 : 1;
} else if (values.seed !== undefined) {
  const log = values.quiet ? undefined : (line: string): void => void process.stdout.write(`${line}\n`);
  process.exitCode = one(Number(values.seed), log) ? 0 : 1;
} else if (values.seeds !== undefined) {
  const from = Number(values.from);
  process.exitCode = many(Array.from({ length: Number(values.seeds) }, (_, i) => from + i)) === 0 ? 0 : 1;
} else {
  const failed = many(SESSION_SEEDS, 'sessions') + (isOfSessions ? 0 : many(FIXED_SEEDS));
  const hasGivenUp = isOfSessions || (totals['givenUp'] ?? 0) > 0;
  if (!hasGivenUp) process.stdout.write('no leadership was given up behind thin links\n');
  process.exitCode = failed === 0 && hasGivenUp ? 0 : 1;
}
