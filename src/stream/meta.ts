/**
 * The meta row of a group: the position that the rows show, and counters. Encoded (format 3; 2 had no count of applied commands),
 * little-endian:
 *   0 format u8 | 1 zeros | 4 write unit u32 | 8 applied index f64 | 16 applied term f64 | 24 next incarnation f64
 *  32 hot bytes f64 | 40 cold bytes f64 | 48 objects f64 | 56 object bytes f64 | 64 GC length f64 | 72 next GC seq f64
 *  80 origin, 16 hex digits | 96 appliedCommands f64 | 104 configuration
 */
import { assert } from '../base/assert.ts';
import { WRITE_UNIT_BYTES } from '../base/limits.ts';
import { readText, writeText } from '../base/text.ts';
import { planted } from '../base/planted.ts';
import type { ColdCounters } from '../cold/state/counters.ts';

const FORMAT = 3;
const FORMAT_BEFORE = 2;
const APPLIED_COMMANDS_AT = 96;
const FIXED_BYTES = 104;
const ORIGIN_AT = 80;
const ORIGIN_BYTES = 16;

export interface Meta {
  appliedIndex: number;
  appliedTerm: number;
  nextIncarnation: number;
  appliedCommands: number;
  hotBytes: number;
  readonly cold: ColdCounters;
  configuration: Uint8Array;
}

export function encodeMeta(meta: Meta): Uint8Array {
  const bytes = new Uint8Array(FIXED_BYTES + meta.configuration.length);
  const view = new DataView(bytes.buffer);
  bytes[0] = FORMAT;
  view.setUint32(4, WRITE_UNIT_BYTES, true);
  view.setFloat64(8, planted('applied-twice') ? Math.max(0, meta.appliedIndex - 1) : meta.appliedIndex, true);
  view.setFloat64(16, meta.appliedTerm, true);
  view.setFloat64(24, meta.nextIncarnation, true);
  view.setFloat64(32, meta.hotBytes, true);
  view.setFloat64(40, meta.cold.bytes, true);
  view.setFloat64(48, meta.cold.objects, true);
  view.setFloat64(56, meta.cold.objectBytes, true);
  view.setFloat64(64, meta.cold.gcLength, true);
  view.setFloat64(72, meta.cold.nextGcSeq, true);
  writeText(bytes, ORIGIN_AT, meta.cold.origin);
  view.setFloat64(APPLIED_COMMANDS_AT, meta.appliedCommands, true);
  bytes.set(meta.configuration, FIXED_BYTES);
  return bytes;
}

/** Fills `meta` from its row. */
export function decodeMeta(bytes: Uint8Array, meta: Meta): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const format = bytes[0];
  assert(format === FORMAT || format === FORMAT_BEFORE, 'known meta row format');
  const unit = view.getUint32(4, true);
  // Counters in different units cannot be added, and all replicas must count in the same unit.
  assert(unit === WRITE_UNIT_BYTES, `usage is counted in units of ${WRITE_UNIT_BYTES} bytes, not ${unit}`);
  meta.appliedIndex = view.getFloat64(8, true);
  meta.appliedTerm = view.getFloat64(16, true);
  meta.nextIncarnation = view.getFloat64(24, true);
  meta.hotBytes = view.getFloat64(32, true);
  meta.cold.bytes = view.getFloat64(40, true);
  meta.cold.objects = view.getFloat64(48, true);
  meta.cold.objectBytes = view.getFloat64(56, true);
  meta.cold.gcLength = view.getFloat64(64, true);
  meta.cold.nextGcSeq = view.getFloat64(72, true);
  meta.cold.origin = readText(bytes, ORIGIN_AT, ORIGIN_BYTES);
  // What was applied before it was counted: at most one per index, as far as anybody compares.
  meta.appliedCommands = format === FORMAT ? view.getFloat64(APPLIED_COMMANDS_AT, true) : meta.appliedIndex;
  meta.configuration = bytes.slice(format === FORMAT ? FIXED_BYTES : APPLIED_COMMANDS_AT);
}
