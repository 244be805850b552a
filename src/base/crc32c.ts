/**
 * CRC-32C (Castagnoli), sixteen bytes a round. TCP's own 16-bit sum misses about one damaged segment in 65,000, and
 * data received here goes into a log that is never checked again. Measured on Node 20: 2 GB/s and more, 30 ns for 64
 * bytes; eight bytes a round reach three quarters of that, single bytes instead of 32-bit loads two thirds. The native
 * zlib.crc32 is faster from 4 KiB on (4 GB/s), slower below, and not allowed in a pure folder.
 */

import { int32At } from './bytes.ts';

/** x^32 + x^28 + ... with the bits reversed, as the table method needs it. */
const POLYNOMIAL = 0x82f63b78;

/** Sixteen consecutive tables of 256: table k advances a byte over k further zero bytes. */
const TABLES = makeTables();

function makeTables(): Int32Array {
  const tables = new Int32Array(16 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    tables[byte] = crc;
  }
  for (let at = 256; at < tables.length; at++) {
    const before = int32At(tables, at - 256);
    tables[at] = (before >>> 8) ^ int32At(tables, before & 0xff);
  }
  return tables;
}

/** Unsigned checksum of the bytes [start, end) of a view. */
export function crc32c(view: DataView, start: number, end: number): number {
  const tables = TABLES;
  let crc = -1;
  let at = start;
  for (; at + 16 <= end; at += 16) {
    const a = crc ^ view.getInt32(at, true);
    const b = view.getInt32(at + 4, true);
    const c = view.getInt32(at + 8, true);
    const d = view.getInt32(at + 12, true);
    crc =
      int32At(tables, 3840 + (a & 0xff)) ^
      int32At(tables, 3584 + ((a >>> 8) & 0xff)) ^
      int32At(tables, 3328 + ((a >>> 16) & 0xff)) ^
      int32At(tables, 3072 + (a >>> 24)) ^
      int32At(tables, 2816 + (b & 0xff)) ^
      int32At(tables, 2560 + ((b >>> 8) & 0xff)) ^
      int32At(tables, 2304 + ((b >>> 16) & 0xff)) ^
      int32At(tables, 2048 + (b >>> 24)) ^
      int32At(tables, 1792 + (c & 0xff)) ^
      int32At(tables, 1536 + ((c >>> 8) & 0xff)) ^
      int32At(tables, 1280 + ((c >>> 16) & 0xff)) ^
      int32At(tables, 1024 + (c >>> 24)) ^
      int32At(tables, 768 + (d & 0xff)) ^
      int32At(tables, 512 + ((d >>> 8) & 0xff)) ^
      int32At(tables, 256 + ((d >>> 16) & 0xff)) ^
      int32At(tables, d >>> 24);
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ int32At(tables, (crc ^ view.getUint8(at)) & 0xff);
  return (crc ^ -1) >>> 0;
}
