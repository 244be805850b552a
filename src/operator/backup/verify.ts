/** Looks at a whole backup, several groups at once in threads of their own. Touches no cluster and no cold object. */
import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import type { Location } from '../../backup/location.ts';
import { type GroupEntry, type Manifest, readManifest } from '../../backup/manifest.ts';
import { Failure } from '../failure.ts';
import { Interrupted } from '../failure.ts';
import type { Progress } from '../progress.ts';

/** Each takes some 200 bytes for each stream of its group, besides its buffers. */
const THREADS_MAX = 8;

export async function verifyBackup(location: Location, progress: Progress, signal: AbortSignal): Promise<Manifest> {
  const manifest = await readManifest(location);
  const pool = new Piscina<unknown, string | undefined>({
    filename: entry(),
    minThreads: 1,
    maxThreads: Math.max(1, Math.min(THREADS_MAX, availableParallelism(), manifest.groups.length)),
    atomics: 'disabled',
  });
  const { raft_group_count: groupCount, groups } = manifest;
  let done = 0;
  const verify = async (one: GroupEntry): Promise<void> => {
    const fault = await pool.run({ location: location.text, entry: one, groupCount }, { signal, name: 'verify' });
    if (fault !== undefined) throw new Failure(fault);
    progress.step(++done, groupCount, `groups verified`);
  };
  try {
    await Promise.all(groups.map(verify));
  } catch (error) {
    if (signal.aborted) throw new Interrupted();
    throw error;
  } finally {
    await pool.destroy();
  }
  return manifest;
}

/** Source when run from source, compiled when compiled. */
function entry(): string {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new URL(`../../../workers/verify.${extension}`, import.meta.url).href;
}
