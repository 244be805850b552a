/** Questions about all groups of a shard: listings, buckets, usage, state. */
import { query } from './operation.ts';

/** Streams of a bucket in order of their names, behind `after`. */
export const list = query({ number: 35, scope: 'shard', needsLeaders: true, duringImport: false });

/** What there is of a bucket. */
export const bucket = query({ number: 36, scope: 'shard', needsLeaders: true, duringImport: false });

/** The usage meter, page by page: key = the bucket behind which to go on, maxRecords = how many (0: all). */
export const usage = query({ number: 38, scope: 'shard', needsLeaders: false, duringImport: false });

/** Counters and Raft state of all groups of the shard, as JSON. */
export const status = query({ number: 39, scope: 'control', needsLeaders: false, duringImport: true });
