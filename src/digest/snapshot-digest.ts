/** A published snapshot is identified by its content type and its bytes. */
import { encodeUtf8 } from '../base/utf8.ts';
import { createHasher } from './blake3.ts';

/** BLAKE3 over the size of the content type (8 bytes, little-endian), the content type, and the bytes. */
export function snapshotDigest(contentType: string, bytes: Uint8Array): Uint8Array {
  const type = encodeUtf8(contentType);
  const size = new Uint8Array(8);
  new DataView(size.buffer).setUint32(0, type.length, true);
  const hasher = createHasher();
  hasher.update(size);
  hasher.update(type);
  hasher.update(bytes);
  return new Uint8Array(hasher.digest());
}
