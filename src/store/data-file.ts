/**
 * Checks an LMDB data file before it is opened. LMDB maps the file and trusts it, so a truncated or overwritten file
 * kills the process with a signal and without a message. Only the roots are compared with the file's size: the last
 * pages of a valid file may be missing when they are free.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { bytes, struct, u32, u64 } from '../base/struct.ts';

const MAGIC = 0xbeefc0de;
/** Pages 0 and 1, as LMDB writes them on 64-bit machines. */
const META_PAGE = struct({
  pageHead: bytes(24),
  magic: u32,
  versionAndMap: bytes(20),
  pageBytes: u32,
  freeListHead: bytes(36),
  freeListRoot: u64,
  tablesHead: bytes(40),
  tablesRoot: u64,
  lastPage: u64,
  transaction: u64,
});
type MetaPage = ReturnType<typeof META_PAGE.decode>;
const PAGE_BYTES_MAX = 64 * 1024;
/** Root of an empty tree. */
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

/** Throws a sentence for the operator. A missing or empty file is a new one. */
export function checkDataFile(path: string): void {
  if (!existsSync(path)) return;
  const file = openSync(path, 'r');
  try {
    const stat = fstatSync(file);
    if (stat.isFile() && stat.size > 0) checkMetaPages(path, file);
  } finally {
    closeSync(file);
  }
}

function checkMetaPages(path: string, file: number): void {
  const first = readMeta(path, file, 0);
  const { pageBytes } = first;
  if (pageBytes < 512 || pageBytes > PAGE_BYTES_MAX) throw damaged(path, `a page size of ${pageBytes} bytes`);
  const second = readMeta(path, file, pageBytes);
  const current = first.transaction > second.transaction ? first : second;
  // Asked last: a thread that commits makes the file longer before it names the new pages.
  const { size } = fstatSync(file);
  for (const root of [current.freeListRoot, current.tablesRoot]) {
    if (root !== NO_PAGE && (root + 1n) * BigInt(pageBytes) > BigInt(size)) {
      throw damaged(path, `it was cut short: ${size} bytes, and page ${root} is missing`);
    }
  }
}

function readMeta(path: string, file: number, at: number): MetaPage {
  const page = new Uint8Array(META_PAGE.size);
  if (readSync(file, page, 0, page.length, at) < page.length) throw damaged(path, 'it was cut short');
  const meta = META_PAGE.decode(page);
  if (meta.magic !== MAGIC) throw damaged(path, 'it is no LMDB file, or was written over');
  return meta;
}

function damaged(path: string, what: string): Error {
  return new Error(`${path} is damaged (${what}); restore the data directory from a copy, nothing was changed`);
}
