/**
 * Errors of LMDB about pages that it did not write so: MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PANIC, MDB_INVALID,
 * MDB_CURSOR_FULL, MDB_PAGE_FULL, MDB_INCOMPATIBLE, MDB_PROBLEM.
 */
const LMDB_DAMAGE: ReadonlySet<number> = new Set([-30797, -30796, -30795, -30793, -30787, -30786, -30784, -30779]);

export function isLmdbDamage(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'number' && LMDB_DAMAGE.has(code);
}
