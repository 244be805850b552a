/**
 * Checks the directory of the `dir` backend at server start. A node that has used it records that in its data
 * directory. If the directory is empty at a later start, its file system is most likely not mounted, and anything
 * written to the mount point would be hidden later. The start is then refused.
 *
 *   cold-store.json   {"format":1,"directory":"/mnt/cold/root"}; missing: none was used yet
 */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Runtime } from '../../base/runtime.ts';
import { isDirStore, makeDirStore, syncDirectory } from '../store/dir-store.ts';
import { ConfigError } from '../../config/error.ts';
import { caughtCode, caughtMessage } from '../../base/caught.ts';

const FILE = 'cold-store.json';
const FORMAT = 1;

export interface DirectoryOptions {
  readonly dataDir: string;
  readonly directory: string;
  readonly root: string;
  readonly timeoutMs: number;
  readonly runtime: Pick<Runtime, 'setTimer'>;
}

/**
 * Ensures that the store exists, unless the directory does not answer within `timeoutMs` (then it is created at the
 * next start). Throws ConfigError when it cannot be created, and when it existed before and is gone.
 */
export async function prepareDirectory(options: DirectoryOptions): Promise<void> {
  const { dataDir, directory, root } = options;
  const place = join(directory, root);
  const wasUsed = (await remembered(dataDir)) === place;
  const within = <T>(promise: Promise<T>): Promise<T | undefined> => inTime(options, place, promise);
  const isThere = await within(isDirStore(directory, root));
  if (wasUsed && isThere === false) {
    throw new ConfigError(
      `storage.cold: ${place} held objects of this node and is not there, or is empty: is its file system mounted? ` +
        `If it is lost for good, remove ${join(dataDir, FILE)}; reads of what it held will fail`,
    );
  }
  if (isThere === undefined) return;
  const isMade = await within(makeDirStore(directory, root).then(() => true));
  if (isMade === true && !wasUsed) await remember(dataDir, place);
}

/** Undefined: it takes too long (a hanging network file system). */
async function inTime<T>(
  { runtime, timeoutMs }: DirectoryOptions,
  place: string,
  promise: Promise<T>,
): Promise<T | undefined> {
  let cancel: (() => void) | undefined;
  const late = new Promise<undefined>((resolve) => {
    cancel = runtime.setTimer(timeoutMs, () => resolve(undefined));
  });
  try {
    return await Promise.race([promise, late]);
  } catch (error) {
    throw new ConfigError(`storage.cold: cannot write to the directory ${place}: ${caughtMessage(error)}`);
  } finally {
    cancel?.();
  }
}

async function remembered(dataDir: string): Promise<string | undefined> {
  try {
    const found: unknown = JSON.parse(await readFile(join(dataDir, FILE), 'utf8'));
    const { format, directory } = (found ?? {}) as { format?: unknown; directory?: unknown };
    if (format === FORMAT && typeof directory === 'string') return directory;
  } catch (error) {
    if (caughtCode(error) === 'ENOENT') return undefined;
  }
  throw new ConfigError(`storage.data_dir ${dataDir}: ${FILE} is damaged or cannot be read; remove it if it is`);
}

/** Atomic and durable, like the drain mark. */
async function remember(dataDir: string, directory: string): Promise<void> {
  const file = join(dataDir, FILE);
  try {
    const text = `${JSON.stringify({ format: FORMAT, directory })}\n`;
    await writeFile(`${file}.new`, text, { mode: 0o600, flush: true });
    await rename(`${file}.new`, file);
    await syncDirectory(dataDir);
  } catch (error) {
    throw new ConfigError(`storage.data_dir ${dataDir}: ${FILE} cannot be written (${caughtMessage(error)})`);
  }
}
