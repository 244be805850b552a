/** A group's counters about its objects in the cold store; part of the meta row. */
import { NO_ORIGIN } from '../../protocol/object-key.ts';

export class ColdCounters {
  /** Bytes of the group's streams that are in chunks. */
  bytes = 0;
  /** Objects with their own row: referenced, or waiting in the GC queue. */
  objects = 0;
  objectBytes = 0;
  /** Entries of the GC queue, and the number of the next one. */
  gcLength = 0;
  nextGcSeq = 0;
  /** Run of the first flush that the group applied; part of all keys of its objects. */
  origin = NO_ORIGIN;
  /** Not stored: how many objects of its bucket the current purge has put into the GC queue. */
  tally: { readonly bucket: string; queued: number } | undefined = undefined;
}
