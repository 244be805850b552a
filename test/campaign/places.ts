// Where the files of a place are in a data directory.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { objectsIn } from '../support/cold-store.ts';
import type { Single } from './prepared.ts';
import type { Place } from './trial.ts';

export function filesOf(place: Place, dataDir: string): string[] {
  switch (place) {
    case 'segments': {
      const folder = join(dataDir, 'shard-0', 'log');
      return readdirSync(folder)
        .filter((name) => /^segment-\d+$/.test(name))
        .sort()
        .map((name) => join(folder, name));
    }
    case 'state':
      return [join(dataDir, 'shard-0', 'data.mdb')];
    case 'identity':
      return [join(dataDir, 'millrace.json')];
    case 'cold':
      return objectsIn(join(dataDir, 'cold'));
  }
}

/**
 * The other directory has the log that this one went on with. In the place of a segment, a copy from then hides what
 * followed the last checkpoint, and nothing else knows of that (src/store/README.md, "What remains").
 */
export const isOwnPast = (place: Place, how: Single): boolean => place === 'segments' && how === 'killed';
