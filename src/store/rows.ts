/** Locations of a shard's rows in its store, for its two readers: the shard itself, and exports in their own thread. */
import { viewOf } from '../base/bytes.ts';
import { Reader, Writer, textFieldBytes } from '../base/cursor.ts';
import { f64, struct, u16BE, u32, u32BE, u64, u8 } from '../base/struct.ts';
import { type DirectoryRun, type RememberedRun, readStarts, startsBytes, writeStarts } from '../peer/codec/standing.ts';
import type { LostLog } from '../raft/types.ts';
import type { SegmentNote } from './log-record.ts';
import type { Covered } from './log-scan.ts';
import { RESTORE_STATE, StateError } from './lmdb-damage.ts';

/**
 * The key space of a shard's store: all of a group's rows have a two-byte prefix. A group has two prefixes, its number
 * and its number plus OTHER_HALF: one holds the state, and a received snapshot is written under the other before it
 * takes over.
 */
export const OTHER_HALF = 0x4000;
/** Prefix of the shard's own rows, after those of all groups. */
export const SYSTEM_PREFIX = 0xffff;
/** Before a whole key: bytes of that row whose places its checksum took (row-check.ts). */
export const MOVED_PREFIX = 0xfffe;

/**
 * The shard's own rows: vote of a group, which half its state uses, whether it lost its log, whether the store was
 * used, the runs of peers, what of the log is covered, and up to where it holds nothing of a group.
 */
export const OWN_TAG = {
  vote: 0x76,
  half: 0x68,
  lost: 0x6c,
  used: 0x75,
  log: 0x67,
  cut: 0x63,
  /** Rows of the group's state are missing, because their page could not be read; of ALL_GROUPS: so is the run. */
  torn: 0x64,
  peer: 0x70,
  /** The runs whose loss a peer had noticed. Versions before do not ask for it. */
  peerSettled: 0x73,
  run: 0x72,
} as const;
export const ALL_GROUPS = 0xffff;

const PREFIX_KEY = struct({ prefix: u16BE });
const TAG_KEY = struct({ prefix: u16BE, tag: u8 });
/** Rows about one group, and about the whole shard with group 0. */
export const GROUP_KEY = struct({ prefix: u16BE, tag: u8, group: u16BE });
export const PEER_KEY = struct({ prefix: u16BE, tag: u8, node: u32BE });

export const VOTE_ROW = struct({ term: f64, vote: f64 });
/**
 * Which log belongs to this state, and its records from the oldest that is needed to the last when this was written.
 */
const LOG_ROW_3 = struct({ log: u64, oldest: f64, last: f64 });
/** And the segments with records then, and where in the last one the next record goes; format 3 had no such end. */
export const LOG_ROW = struct(
  { log: u64, oldest: f64, last: f64, end: u32 },
  'the segments, each with its number u32 and its bytes u32',
);
const LOG_ROW_SEGMENT = struct({ segment: u32, bytes: u32 });
/** A snapshot replaced the group's log up to this record of this log. */
export const CUT_ROW = struct({ log: u64, sequence: f64 });
export const PEER_ROW = struct({ incarnation: f64, boot: f64 }, 'directory');
/** The run of a data directory that last used the store. Versions before do not ask for it. */
export const RUN_ROW = struct({ shard: u32, incarnation: f64 }, 'directory: its bytes u16, then UTF-8');

export function systemKey(tag: number, group: number): Uint8Array {
  return GROUP_KEY.encode({ prefix: SYSTEM_PREFIX, tag, group });
}

/** Node ids have 32 bits. */
export function peerKey(node: number): Uint8Array {
  return PEER_KEY.encode({ prefix: SYSTEM_PREFIX, tag: OWN_TAG.peer, node });
}

export function peerSettledKey(node: number): Uint8Array {
  return PEER_KEY.encode({ prefix: SYSTEM_PREFIX, tag: OWN_TAG.peerSettled, node });
}

/** The directory comes first: a version that does not know this row changes the row of the run alone. */
export function encodeSettled({ directory, settled }: RememberedRun): Uint8Array {
  const writer = new Writer(new Uint8Array(textFieldBytes(directory) + startsBytes(settled)));
  writer.text(directory);
  writeStarts(writer, settled);
  return writer.finish();
}

export function decodeSettled(row: Uint8Array, run: DirectoryRun): RememberedRun {
  const reader = new Reader(row);
  const directory = reader.text();
  const settled = readStarts(reader);
  return { ...run, settled: reader.finished && directory === run.directory ? settled : [] };
}

/** Prefix of the group's state, given its row of OWN_TAG.half. */
export function halfOf(group: number, row: Uint8Array | undefined): number {
  return row === undefined ? group : group + OTHER_HALF;
}

export function tagKey(prefix: number, tag: number): Uint8Array {
  return TAG_KEY.encode({ prefix, tag });
}

/** 2: its directory is the one that its peers know, so no operator has to allow the leader to refill it. */
export function lostOf(row: Uint8Array | undefined): LostLog {
  if (row === undefined) return 0;
  return row[0] === 2 ? 2 : 1;
}

export function prefixKey(prefix: number): Uint8Array {
  return PREFIX_KEY.encode({ prefix });
}

export function encodeLog({ log, oldest, last, place }: Required<Covered>): Uint8Array {
  const { segments = [], end = 0 } = place ?? {};
  const list = new Uint8Array(segments.length * LOG_ROW_SEGMENT.size);
  segments.forEach((note, i) => LOG_ROW_SEGMENT.write(viewOf(list), i * LOG_ROW_SEGMENT.size, note));
  return LOG_ROW.encode({ log, oldest, last, end }, list);
}

/** Undefined: it is damaged. */
export function decodeLog(row: Uint8Array): Covered | undefined {
  if (row.length === LOG_ROW_3.size) return { ...LOG_ROW_3.decode(row), place: undefined };
  const count = (row.length - LOG_ROW.size) / LOG_ROW_SEGMENT.size;
  if (!Number.isSafeInteger(count) || count < 1) return undefined;
  const { log, oldest, last, end } = LOG_ROW.decode(row);
  const segmentAt = (_: unknown, i: number): SegmentNote =>
    LOG_ROW_SEGMENT.read(viewOf(row), LOG_ROW.size + i * LOG_ROW_SEGMENT.size);
  return { log, oldest, last, place: { end, segments: Array.from({ length: count }, segmentAt) } };
}

export const RUN_KEY = systemKey(OWN_TAG.run, 0);

/** A shard's part in a run of the data directory. */
export interface ShardRun {
  readonly shard: number;
  /** Counts the starts on the directory. */
  readonly incarnation: number;
  readonly directory: string;
}

export function encodeRun({ shard, incarnation, directory }: ShardRun): Uint8Array {
  const writer = new Writer(new Uint8Array(RUN_ROW.size + textFieldBytes(directory)));
  writer.record(RUN_ROW, { shard, incarnation });
  writer.text(directory);
  return writer.finish();
}

/** Throws: the row is damaged. */
export function decodeRun(row: Uint8Array, directory: string): ShardRun {
  const reader = new Reader(row);
  const run = { ...reader.record(RUN_ROW), directory: reader.text() };
  if (!reader.finished) throw new StateError(`${directory}: its note of the last run is damaged; ${RESTORE_STATE}`);
  return run;
}
