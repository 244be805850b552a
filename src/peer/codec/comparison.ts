/**
 * The words between nodes when the leader of a group compares its replicas. Questions travel as forwarded requests do;
 * their first byte is no command's.
 */
import { crc32c } from '@node-rs/crc32';
import { compareBytes } from '../../base/bytes.ts';
import type { RowBytes } from '../../base/row-bytes.ts';
import { f64, struct, u32, u8, zeros } from '../../base/struct.ts';

/** Rows have shorter keys. */
const KEY_BYTES_MAX = 1900;
/** A digest is asked for. */
export const OP_DIGEST = 0xf0;
/** The rows of this node are not those of the majority. */
export const OP_DIFFERS = 0xf1;

/** `index`: applied, and nothing behind it. `bytesMax`: from so many on the next row is not part of it. */
export const COMPARISON = struct(
  { op: u8, zero: zeros(3), bytesMax: u32, index: f64 },
  'the first key, without its prefix',
);
/** `isMeasured` 0: this node could not, at that index. `bytes`: of keys and values. */
export const DIGEST = struct(
  { isMeasured: u8, isEnd: u8, zero: zeros(2), check: u32, bytes: f64 },
  'the first key behind it, unless it is the end',
);

export interface RowQuestion {
  readonly op: number;
  readonly index: number;
  readonly bytesMax: number;
  readonly from: Uint8Array;
}

/** A digest of the rows of a group at one index, from one key to another. */
export interface Digest {
  /** See sumRow. */
  readonly check: number;
  readonly bytes: number;
  /** Undefined: there are no more rows. */
  readonly to: Uint8Array | undefined;
}

export function encodeRowQuestion({ from, ...fields }: RowQuestion): Uint8Array {
  return COMPARISON.encode(fields, from);
}

/** Undefined: it is another request. Copied. */
export function decodeRowQuestion(bytes: Uint8Array): RowQuestion | undefined {
  if (bytes.length < COMPARISON.size || (bytes[0] !== OP_DIGEST && bytes[0] !== OP_DIFFERS)) return undefined;
  if (bytes.length > COMPARISON.size + KEY_BYTES_MAX) return undefined;
  return { ...COMPARISON.decode(bytes), from: new Uint8Array(bytes.subarray(COMPARISON.size)) };
}

export function encodeDigest(digest: Digest | undefined): Uint8Array {
  const { check, bytes, to } = digest ?? { check: 0, bytes: 0, to: undefined };
  const [isMeasured, isEnd] = [digest === undefined ? 0 : 1, to === undefined ? 1 : 0];
  return DIGEST.encode({ isMeasured, isEnd, check, bytes }, to);
}

export function decodeDigest(answer: Uint8Array | undefined): Digest | undefined {
  if (answer === undefined || answer.length < DIGEST.size) return undefined;
  const { isMeasured, isEnd, ...sum } = DIGEST.decode(answer);
  if (isMeasured !== 1) return undefined;
  return { ...sum, to: isEnd === 1 ? undefined : new Uint8Array(answer.subarray(DIGEST.size)) };
}

/** The CRC-32C of all rows so far, of which this is the last one; of none it is 0. Replicas err, but do not forge. */
export function sumRow(check: number, { key, value }: RowBytes): number {
  return crc32c(value, crc32c(key, (check ^ key.length) >>> 0));
}

export function areSame(one: Digest, other: Digest): boolean {
  return compareBytes(encodeDigest(one), encodeDigest(other)) === 0;
}
