/**
 * Messages of queries. They never leave the process, so MessagePack carries a typed object each way, and nothing
 * declares a layout. An operation names the types (asks and says, operation.ts).
 */
import { Packr } from 'msgpackr';

const packr = new Packr({ useRecords: false });

/** A plain view of the packer's memory: `slice` of the Buffer that it returns would copy nothing. */
export function pack(message: unknown): Uint8Array {
  const { buffer, byteOffset, length } = packr.pack(message);
  return new Uint8Array(buffer, byteOffset, length);
}

/** `bytes` may be shared memory, which TextDecoder refuses, and may be overwritten afterwards: this decodes a copy. */
export function unpack(bytes: Uint8Array): unknown {
  return packr.unpack(new Uint8Array(bytes));
}
