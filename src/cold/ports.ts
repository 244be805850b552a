/** What cold storage offers to other features. */
import type { ChunkRef } from '../protocol/cold.ts';

/** Whether all of the chunks can be read, otherwise why not. Never rejects. */
export type ReadCold = (
  refs: readonly ChunkRef[],
) => Promise<{ readonly ok: true } | { readonly ok: false; readonly message: string }>;
