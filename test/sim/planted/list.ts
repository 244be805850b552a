/** The table of planted bugs (src/base/planted-bugs.ts), as lists. */
import { PLANTED_BUGS, type PlantedBug } from '../../../src/base/planted-bugs.ts';

/** No bugs: bounds that simulations are otherwise too small for. Nothing may be found. */
export const VARIANTS: readonly PlantedBug[] = ['import-undone-in-many-steps'];

export function isPlantedBug(name: string): name is PlantedBug {
  return Object.hasOwn(PLANTED_BUGS, name);
}

const BUGS = Object.keys(PLANTED_BUGS)
  .filter(isPlantedBug)
  .filter((bug) => !VARIANTS.includes(bug));

const isOfBackups = (bug: PlantedBug): boolean => /import|export/.test(bug);

export const BACKUP_BUGS: readonly PlantedBug[] = BUGS.filter(isOfBackups);
/** Found by simulations of sessions alone (sessions/run.ts). */
export const SESSION_BUGS: readonly PlantedBug[] = BUGS.filter((bug) => bug.startsWith('session-'));
export const OTHER_BUGS: readonly PlantedBug[] = BUGS.filter((bug) => !isOfBackups(bug) && !SESSION_BUGS.includes(bug));

/** Found also when nothing but what clients see is checked, and what nodes say of each other. */
export const FOUND_BY_CLIENTS: readonly PlantedBug[] = [
  'vote-not-persisted',
  'reply-before-apply',
  'sent-counts-as-acknowledged',
  'one-ack-counts-for-two',
  'snapshot-with-wrong-index',
  'applied-twice',
  'lost-marker-forgotten',
  'directories-not-remembered',
  'forwarded-twice',
  'broken-link-means-not-done',
  'unknown-means-not-done',
  'checkpoint-not-written',
  'conflict-not-written',
  'any-log-may-lead',
  'reads-not-held',
  'missing-not-confirmed',
  'entry-applied-otherwise',
];
