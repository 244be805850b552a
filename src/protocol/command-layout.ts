/**
 * The fixed parts of a command (command.ts): its head, and the optional parts in the order in which they follow, with
 * the flags that announce them. Its kind is the number of its operation (operations.ts).
 */
import { f64, f64OrNone, struct, u16, u32, u8 } from '../base/struct.ts';

export const COMMAND = struct(
  {
    ...{ kind: u8, zero: u8, flags: u16, keyBytes: u16, contentTypeBytes: u16, nowMs: f64 },
    ...{ payloadBytes: u32, recordCount: u32 },
  },
  'optional parts; key, content type, producer id, seq, condition, attributes, payload, record ends (u32 each)',
);
export const PRODUCER_PART = struct({ epoch: f64, seq: f64, idBytes: u16 });
export const MATCH_PART = struct({ recordTail: f64 });
export const LIFETIME_PART = struct({ ttlSeconds: f64OrNone, expiresAtMs: f64OrNone });
export const SEQ_PART = struct({ seqBytes: u16 });
export const FORK_PART = struct({ token: f64 });
export const EXPECTED_PART = struct({ tail: f64 });
export const CONDITION_PART = struct({ conditionBytes: u16 });
export const ATTRIBUTES_PART = struct({ attributesBytes: u32 });

/**
 * Added to the kind of a conditional command: one with a condition (condition.ts), one that expects a tail, or both. A
 * node of a version without them does not know the sum and stops, where it would otherwise apply the write
 * unconditionally. Kinds stay below.
 */
export const KIND_CONDITIONAL = 64;
export const KIND_EXPECTING = 128;
export const KIND_MASK = 63;

export const FLAG_CLOSE = 1;
export const FLAG_PRODUCER = 2;
export const FLAG_SEQ = 4;
export const FLAG_MATCH = 8;
/** The payload is normalised JSON, one record a line, followed by its ends. */
export const FLAG_RECORDS = 16;
export const FLAG_LIFETIME = 32;
export const FLAG_ATTRS = 64;
export const FLAG_FORK = 128;

/** Sets the clock of the command at `offset`. */
export function stampCommand(view: DataView, offset: number, nowMs: number): void {
  COMMAND.fields.nowMs.set(view, offset, nowMs);
}
