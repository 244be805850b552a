/**
 * CRC-32C (Castagnoli), eight bytes a round. TCP's own 16-bit sum misses about one damaged segment in 65,000, and what
 * comes in here goes into a log that is never looked at again. Measured on Node 20: 0.5 to 1 GB/s, 0.1 µs for 64 bytes.
 */

/** x^32 + x^28 + ... with the bits reversed, as the table method wants it. */
const POLYNOMIAL = 0x82f63b78;

/** Eight tables of 256 behind each other: table k advances a byte over k further zero bytes. */
const TABLES = makeTables();

function makeTables(): Int32Array {
  const tables = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    tables[byte] = crc;
  }
  for (let at = 256; at < tables.length; at++) {
    const before = tables[at - 256] as number;
    tables[at] = (before >>> 8) ^ (tables[before & 0xff] as number);
  }
  return tables;
}

/** Unsigned checksum of bytes [start, end). */
export function crc32c(bytes: Uint8Array, start: number, end: number): number {
  const tables = TABLES;
  let crc = -1;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    const low =
      crc ^
      ((bytes[at] as number) |
        ((bytes[at + 1] as number) << 8) |
        ((bytes[at + 2] as number) << 16) |
        ((bytes[at + 3] as number) << 24));
    crc =
      (tables[1792 + (low & 0xff)] as number) ^
      (tables[1536 + ((low >>> 8) & 0xff)] as number) ^
      (tables[1280 + ((low >>> 16) & 0xff)] as number) ^
      (tables[1024 + (low >>> 24)] as number) ^
      (tables[768 + (bytes[at + 4] as number)] as number) ^
      (tables[512 + (bytes[at + 5] as number)] as number) ^
      (tables[256 + (bytes[at + 6] as number)] as number) ^
      (tables[bytes[at + 7] as number] as number);
  }
  for (; at < end; at++) crc = (crc >>> 8) ^ (tables[(crc ^ (bytes[at] as number)) & 0xff] as number);
  return (crc ^ -1) >>> 0;
}
