/**
 * Where things are in a ring's shared memory. Control words are i32, each group on its own 128 bytes: the two threads
 * write different lines, and 128 instead of 64 because the adjacent-line prefetcher pulls lines in pairs.
 *
 *   word  0  TAIL             writer: bytes published, modulo 2^32        } written by the producer only
 *   word  1  RECORDS_IN       writer: records published, modulo 2^32      }
 *   word 32  HEAD             reader: bytes given back, modulo 2^32       } written by the consumer only
 *   word 33  RECORDS_OUT      reader: records given back, modulo 2^32     }
 *   word 64  READER_PARKED    1: the reader sleeps and has to be notified } set by one side, cleared by the other
 *   word 96  WRITER_WAITS     1: the writer waits for space               }
 *   byte 512 data             capacityBytes, a power of two
 */
export const TAIL = 0;
export const RECORDS_IN = 1;
export const HEAD = 32;
export const RECORDS_OUT = 33;
export const READER_PARKED = 64;
export const WRITER_WAITS = 96;

export const CONTROL_WORDS = 128;
export const CONTROL_BYTES = CONTROL_WORDS * 4;

/** Smaller rings would refuse ordinary records (a record may take half of the ring). */
export const RING_BYTES_MIN = 64 * 1024;
/** Larger rings only queue: at 300 bytes a record this is 200,000 waiting requests. Must divide 2^32 (see ring.ts). */
export const RING_BYTES_MAX = 64 * 1024 * 1024;

export const RECORD_HEADER_BYTES = 4;
/** Replaces a record's size: the rest of the data area is empty, continue at its start. */
export const SKIP_TO_START = -1;

/** Bytes that a record takes in the ring: header and payload, padded to 8. */
export function recordBytes(payloadBytes: number): number {
  return (payloadBytes + RECORD_HEADER_BYTES + 7) & ~7;
}
