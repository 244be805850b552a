/** What a group knows about its objects in the cold store, as numbers; part of the meta row. */
import { NO_ORIGIN } from '../../protocol/object-key.ts';

export class ColdCounters {
  /** Bytes of the group's streams that lie in chunks. */
  bytes = 0;
  /** Objects with a row of their own: referenced, or waiting in the GC queue. */
  objects = 0;
  objectBytes = 0;
  /** Entries of the GC queue, and the number of the next one. */
  gcLength = 0;
  nextGcSeq = 0;
  /** Run of the first flush that the group applied; goes into all keys of its objects. */
  origin = NO_ORIGIN;
  /** Not stored: while a purge is applied, how many objects of its bucket went into the GC queue. */
  tally: { readonly bucket: string; queued: number } | undefined = undefined;
}
