/**
 * Checks an LMDB data file before it is opened. LMDB maps the file and trusts it, so a truncated or overwritten file
 * kills the process with a signal and without a message.
 *
 * Meta page, little-endian (pages 0 and 1): 24 magic u32 | 48 page size u32 | 88 root of the free list u64 | 136 root
 * of the tables u64 | 152 transaction u64. Only the roots are compared with the file's size: the last pages of a valid
 * file may be missing when they are free.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';

const MAGIC = 0xbeefc0de;
const META_BYTES = 160;
const PAGE_BYTES_MAX = 64 * 1024;
/** Root of an empty tree. */
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

/** Throws a sentence for the operator. A missing or empty file is a new one. */
export function checkDataFile(path: string): void {
  if (!existsSync(path)) return;
  const file = openSync(path, 'r');
  try {
    const stat = fstatSync(file);
    if (stat.isFile() && stat.size > 0) checkMetaPages(path, file, stat.size);
  } finally {
    closeSync(file);
  }
}

function checkMetaPages(path: string, file: number, size: number): void {
  const first = readMeta(path, file, 0);
  const pageBytes = first.getUint32(48, true);
  if (pageBytes < 512 || pageBytes > PAGE_BYTES_MAX) throw damaged(path, `a page size of ${pageBytes} bytes`);
  const second = readMeta(path, file, pageBytes);
  const current = first.getBigUint64(152, true) > second.getBigUint64(152, true) ? first : second;
  for (const at of [88, 136]) {
    const root = current.getBigUint64(at, true);
    if (root !== NO_PAGE && (root + 1n) * BigInt(pageBytes) > BigInt(size)) {
      throw damaged(path, `it was cut short: ${size} bytes, and page ${root} is missing`);
    }
  }
}

function readMeta(path: string, file: number, at: number): DataView {
  const bytes = new Uint8Array(META_BYTES);
  const view = new DataView(bytes.buffer);
  if (readSync(file, bytes, 0, META_BYTES, at) < META_BYTES) throw damaged(path, 'it was cut short');
  if (view.getUint32(24, true) !== MAGIC) throw damaged(path, 'it is no LMDB file, or was written over');
  return view;
}

function damaged(path: string, what: string): Error {
  return new Error(`${path} is damaged (${what}); restore the data directory from a copy, nothing was changed`);
}
