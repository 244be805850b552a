/** Reads caught values without trust in their class. */

/** `ENOENT` and the like; empty: none. */
export function caughtCode(error: unknown): string {
  if (!(error instanceof Error) || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

export function caughtMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
