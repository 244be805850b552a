/** Directories of stores and backups. */
import { mkdir, opendir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StoreError } from './store.ts';
import { caughtCode } from '../../base/caught.ts';

/** Accessible only to the user of this process. */
const PRIVATE = { mode: 0o700 } as const;

/**
 * Creates a directory with its parents. Not mkdir's `recursive`: where a file system allows no directories and reports
 * ENOENT (an automounter without its server, /proc), Node retries forever.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, PRIVATE);
    return;
  } catch (error) {
    // It may be a file.
    if (caughtCode(error) === 'EEXIST') return (await opendir(path)).close();
    if (caughtCode(error) !== 'ENOENT') throw error;
  }
  if (dirname(path) !== path) await makeFolder(dirname(path));
  await mkdir(path, PRIVATE).catch((error: unknown) => {
    if (caughtCode(error) === 'EEXIST') return;
    if (caughtCode(error) !== 'ENOENT') throw error;
    throw new StoreError('denied', `${path} cannot be made there (ENOENT)`, { cause: error });
  });
}
