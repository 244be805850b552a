/** Everything that the simulator must find: planted bugs and disks that lie, with all checks and by clients alone. */
import type { SimulationParts } from '../simulation.ts';
import { BACKUP_BUGS, FOUND_BY_CLIENTS, OTHER_BUGS, SESSION_BUGS, VARIANTS } from './list.ts';
import { loadSimulation } from './load.ts';

/** By clients alone: few of their seeds show the others, so that a change elsewhere could hide them. */
const FAULTS_FOUND_BY_CLIENTS: readonly string[] = ['producers-not-in-snapshot'];

export interface PlantedCase {
  /** As on record (fixed-seeds.ts). */
  readonly name: string;
  /** Throws what it finds. */
  readonly run: (seed: number) => void;
}

export interface PlantedCases {
  readonly bugs: readonly PlantedCase[];
  /** Nothing is wrong, and nothing may be found. */
  readonly variants: readonly PlantedCase[];
}

export async function plantedCases(): Promise<PlantedCases> {
  const { Simulation } = await loadSimulation();
  // It imports parts of src/.
  const { DISK_FAULTS } = await import('../disk-faults.ts');
  const { SessionRun } = await import('../sessions/run.ts');
  const caseOf = (name: string, parts: SimulationParts): PlantedCase => ({
    name: parts.blind === true ? `${name}, blind` : name,
    run: (seed) => void new Simulation(seed, parts).run(),
  });
  const faults = Object.entries(DISK_FAULTS);
  return {
    bugs: [
      ...[...OTHER_BUGS, ...BACKUP_BUGS].map((bug) => caseOf(bug, { bug })),
      ...SESSION_BUGS.map((bug) => ({ name: bug, run: (seed: number) => new SessionRun(seed).run(bug) })),
      ...faults.map(([name, diskFault]) => caseOf(name, { diskFault })),
      ...FOUND_BY_CLIENTS.map((bug) => caseOf(bug, { bug, blind: true })),
      ...faults
        .filter(([name]) => FAULTS_FOUND_BY_CLIENTS.includes(name))
        .map(([name, diskFault]) => caseOf(name, { diskFault, blind: true })),
    ],
    variants: VARIANTS.map((bug) => caseOf(bug, { bug })),
  };
}
