/**
 * Elements of typed arrays at positions that the caller has checked. Beyond the end they are
 * undefined, whatever the type says. A function for each kind of array: V8 inlines it, and one that
 * met several kinds would be slow for all. The JSON scanner (json/json-scan.ts) reads its bytes
 * itself: through these functions it took 15 to 30 % longer.
 */

export function byteAt(bytes: Uint8Array, at: number): number {
  return bytes[at] as number;
}

export function int32At(words: Int32Array, at: number): number {
  return words[at] as number;
}

export function uint32At(words: Uint32Array, at: number): number {
  return words[at] as number;
}

export function float64At(numbers: Float64Array, at: number): number {
  return numbers[at] as number;
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A copy with memory of its own, which may be kept or moved to another thread. `slice` of a Buffer copies nothing. */
export function ownCopy(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes);
}

/** Byte-wise comparison. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = byteAt(a, i) - byteAt(b, i);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
