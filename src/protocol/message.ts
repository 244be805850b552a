/**
 * Messages of queries. They never leave the process, so MessagePack carries a typed object each way, and nothing declares a layout.
 * An operation names the types (asks and says, operation.ts).
 */
import { Packr } from 'msgpackr';

const packr = new Packr({ useRecords: false });

export function pack(message: unknown): Uint8Array {
  return packr.pack(message);
}

/** `bytes` may be shared memory, which TextDecoder refuses, and may be overwritten afterwards: this decodes a copy. */
export function unpack(bytes: Uint8Array): unknown {
  return packr.unpack(new Uint8Array(bytes));
}
