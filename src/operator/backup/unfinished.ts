/**
 * Uploads to S3 that an attempt before left open when it was killed: the bucket keeps their parts, does not list them and charges for
 * them. Repeating the command removes them.
 */
import type { Location } from '../../backup/format/location.ts';
import { isPartOfBackup } from '../../backup/format/manifest.ts';
import { Fault } from '../../backup/state/fault.ts';
import type { ProgressBar } from '../progress-bar.ts';

/** No group takes so long. */
const OLD_MS = 24 * 3_600_000;

/**
 * `all`: this location has a backup now, and whoever were still writing there would spoil it. `old`: somebody else may be at it. A
 * store that does not tell fails no backup.
 */
export async function endUnfinished(location: Location, progress: ProgressBar, which: 'all' | 'old'): Promise<void> {
  const isAll = which === 'all';
  try {
    const ended = await location.endUnfinished(isPartOfBackup, isAll ? Infinity : Date.now() - OLD_MS);
    if (ended === 0) return;
    const uploads = ended === 1 ? '1 unfinished upload' : `${ended} unfinished uploads`;
    progress.note(`${uploads} of earlier attempts at ${location.text} ${ended === 1 ? 'was' : 'were'} given up`);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (isAll) progress.note(`uploads that earlier attempts left unfinished may be there (${error.message})`);
  }
}
