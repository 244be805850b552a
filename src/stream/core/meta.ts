/** The meta row of a group: the position that the rows show, and counters. */
import { assert } from '../../base/assert.ts';
import { WRITE_UNIT_BYTES } from '../../base/limits.ts';
import { planted } from '../../base/planted.ts';
import { f64, struct, text, u32, u8, zeros } from '../../base/struct.ts';
import { NO_ORIGIN } from '../../protocol/object-key.ts';

const FORMAT = 3;
/** Without the count of applied commands. */
const FORMAT_BEFORE = 2;

const FORMAT_2 = {
  ...{ format: u8, zeros: zeros(3), writeUnitBytes: u32, appliedIndex: f64, appliedTerm: f64, nextIncarnation: f64 },
  ...{ hotBytes: f64, bytes: f64, objects: f64, objectBytes: f64, gcLength: f64, nextGcSeq: f64, origin: text(16) },
};
const META_ROW_BEFORE = struct(FORMAT_2, 'configuration');
export const META_ROW = struct({ ...FORMAT_2, appliedCommands: f64 }, 'configuration');

/** Counts a group's objects in the cold store. */
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

export interface Meta {
  readonly appliedIndex: number;
  readonly appliedTerm: number;
  readonly nextIncarnation: number;
  readonly appliedCommands: number;
  readonly hotBytes: number;
  readonly cold: Omit<ColdCounters, 'tally'>;
  readonly configuration: Uint8Array;
}

export function encodeMeta(meta: Meta): Uint8Array {
  const appliedIndex = planted('applied-twice') ? Math.max(0, meta.appliedIndex - 1) : meta.appliedIndex;
  const { appliedTerm, nextIncarnation, appliedCommands, hotBytes, configuration } = meta;
  const { bytes, objects, objectBytes, gcLength, nextGcSeq, origin } = meta.cold;
  const position = { format: FORMAT, writeUnitBytes: WRITE_UNIT_BYTES, appliedIndex, appliedTerm, nextIncarnation };
  const counters = { hotBytes, bytes, objects, objectBytes, gcLength, nextGcSeq, origin, appliedCommands };
  return META_ROW.encode({ ...position, ...counters }, configuration);
}

export function decodeMeta(row: Uint8Array): Meta {
  const isCounted = row[0] === FORMAT;
  assert(isCounted || row[0] === FORMAT_BEFORE, 'known meta row format');
  const { writeUnitBytes, appliedIndex, appliedTerm, nextIncarnation, hotBytes, ...counters } =
    META_ROW_BEFORE.decode(row);
  // Counters in different units cannot be added, and all replicas must count in the same unit.
  const isSameUnit = writeUnitBytes === WRITE_UNIT_BYTES;
  assert(isSameUnit, `usage is counted in units of ${WRITE_UNIT_BYTES} bytes, not ${writeUnitBytes}`);
  const { bytes, objects, objectBytes, gcLength, nextGcSeq, origin } = counters;
  // Older formats did not count applied commands. The index is an upper bound, exact enough for comparing replicas.
  const appliedCommands = isCounted ? META_ROW.decode(row).appliedCommands : appliedIndex;
  const configuration = row.slice(isCounted ? META_ROW.size : META_ROW_BEFORE.size);
  const cold = { bytes, objects, objectBytes, gcLength, nextGcSeq, origin };
  return { appliedIndex, appliedTerm, nextIncarnation, appliedCommands, hotBytes, configuration, cold };
}
