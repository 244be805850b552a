/** Errors about a data file that cannot be read, and what LMDB says of one. */

/** Advice about a damaged state. */
export const RESTORE_STATE =
  'restore the data directory from a copy, or in a cluster start on an empty one and run millracectl allow-rejoin';

/** A sentence for the operator: the state cannot be read or written. */
export class StateError extends Error {}

/** Pages were changed; LMDB has not followed them. */
export class PageDamage extends StateError {}

/** The file is not what was written. A node that met it while it served only has to start again. */
export function damageOf(path: string, why: string): string {
  return `${path} is damaged (${why}); the next start rebuilds it from what can be read, and where it cannot, ${RESTORE_STATE}`;
}

/**
 * Errors of LMDB about pages that it did not write so: MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PANIC, MDB_INVALID,
 * MDB_CURSOR_FULL, MDB_PAGE_FULL, MDB_INCOMPATIBLE, MDB_PROBLEM, and MDB_BAD_TXN of a transaction that met one.
 */
const LMDB_DAMAGE: ReadonlySet<number> = new Set([
  -30797, -30796, -30795, -30793, -30787, -30786, -30784, -30782, -30779,
]);

export function isLmdbDamage(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'number' && LMDB_DAMAGE.has(code);
}
