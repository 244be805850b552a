/** The layout of LMDB's pages, as far as they are checked. */
import { bytes, struct, u16, u32, u64 } from '../base/struct.ts';

export const MAGIC = 0xbeefc0de;
export const VERSION = 2;
/** Bytes of address space that LMDB may have reserved: what 64-bit machines address. */
export const MAP_BYTES_MAX = 2n ** 47n;

export const PAGE_HEAD = struct({ page: u64, transaction: u64, pad: u16, flags: u16, lower: u16, upper: u16 });
export const PAGE_HEAD_BYTES = PAGE_HEAD.size;
export const BRANCH = 1;
export const LEAF = 2;
export const OVERFLOW = 4;
export const META = 8;
/** LMDB may leave other flags than these in a page, which mean something in memory only. */
export const KINDS = 0xff;

const TREE_SHAPE = {
  pad: u32,
  flags: u16,
  depth: u16,
  branchPages: u64,
  leafPages: u64,
  overflowPages: u64,
  entries: u64,
  root: u64,
};
/** A table. The first of a meta page has the size of a page in `pad`, and the flags of the environment. */
export const TREE = struct(TREE_SHAPE);
export type Tree = ReturnType<typeof TREE.decode>;
/** Pages 0 and 1, as LMDB writes them on 64-bit machines. Transaction N writes page N mod 2. */
export const META_PAGE = struct({
  head: bytes(PAGE_HEAD_BYTES),
  magic: u32,
  version: u32,
  address: u64,
  mapBytes: u64,
  free: bytes(TREE.size),
  tables: bytes(TREE.size),
  lastPage: u64,
  transaction: u64,
});
export type MetaPage = ReturnType<typeof META_PAGE.decode>;
/** Keys of the free list are integers. */
export const FREE_FLAGS = 0x08;
export const PAGE_BYTES_MAX = 64 * 1024;
/** Levels that LMDB can follow. */
export const DEPTH_MAX = 32;
/** Root of an empty tree. */
export const NO_PAGE = 0xffff_ffff_ffff_ffffn;
export const FIRST_PAGE = 2n;

export const NODE = struct({ low: u16, high: u16, flags: u16, keyBytes: u16 }, 'key, data');
export const POINTER_BYTES = 2;
/** Its data is the number of the page with what it holds. */
export const NODE_IS_LONG = 1;
export const NODE_IS_TREE = 2;
export const PAGE_NUMBER = struct({ page: u64 });
