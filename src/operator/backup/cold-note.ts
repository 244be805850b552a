/** A backup refers to objects in the cold store, which the cluster deletes one day: said while something can still be done. Pure. */
import { formatDuration } from '../../config/values.ts';

/** Backups are made once a day, at least. */
const SHORT_MS = 24 * 3_600_000;

/** How long objects are kept that belong to nothing any more. Undefined: they are never deleted for that, or the node does not tell. */
export interface Graces {
  /** After the stream was deleted, or trimmed. */
  readonly removedMs: number | undefined;
  /** After they were merged into others. */
  readonly mergedMs: number | undefined;
}

/** Undefined: there is nothing to say. */
export function coldNote(objects: number, { removedMs, mergedMs }: Graces): string | undefined {
  const short: string[] = [];
  const add = (ms: number | undefined, which: string, setting: string): void => {
    if (ms !== undefined && ms < SHORT_MS) short.push(`${which} ${formatDuration(ms)} later (${setting})`);
  };
  add(removedMs, 'of streams that are deleted or trimmed', 'storage.cold.gc_grace');
  add(mergedMs, 'of chunks that are merged', 'storage.cold.compaction_gc_grace');
  if (objects === 0 || short.length === 0) return undefined;
  return (
    `warning: the backup refers to ${objects} ${objects === 1 ? 'object' : 'objects'} in the cold store, and the cluster deletes those ` +
    `${short.join(', and those ')}; this backup cannot bring them back then, so let the grace be longer than backups are kept, or copy the objects too`
  );
}
