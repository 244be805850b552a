/** One segment of a shard's log, and a place in it. */
import type { LogFile } from './log-files.ts';

export class Segment {
  readonly file: LogFile;
  /** Its records; 0: none yet. */
  firstSequence = 0;
  lastSequence = 0;
  /** Where the next record goes. */
  end = 0;
  /** What is still needed of it: entries of groups, and votes that no checkpoint has. */
  live = 0;

  constructor(file: LogFile) {
    this.file = file;
  }
}

/** Where a record or an entry lies. */
export interface Place {
  readonly segment: Segment;
  /** Its position in the segment's file. */
  readonly at: number;
}
