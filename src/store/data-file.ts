/**
 * Checks an LMDB data file. LMDB maps the file and trusts it, so a changed page kills the process with a signal and
 * without a message. Both meta pages are checked in full (meta-pages.ts). checkTrees() also follows every branch page, and looks
 * whether the rows of leaves lie inside of them; a LeafReader does that for some leaves while the file is open.
 * readTable() reads past pages that changed. The content of rows is what their checksums are for.
 */
import { closeSync, existsSync, fstatSync, openSync } from 'node:fs';
import { viewOf } from '../base/bytes.ts';
import { keysBesideStray } from './key-order.ts';
import { PageDamage, StateError } from './lmdb-damage.ts';
import { MetaPages, type MetaTrust } from './meta-pages.ts';
import { FIRST_KEY, type KeyRange, PathCheck, type Pages } from './path-check.ts';
import {
  BRANCH,
  DEPTH_MAX,
  FIRST_PAGE,
  FREE_FLAGS,
  KINDS,
  LEAF,
  NODE,
  NODE_IS_LONG,
  NODE_IS_TREE,
  NO_PAGE,
  OVERFLOW,
  PAGE_HEAD,
  PAGE_HEAD_BYTES,
  PAGE_NUMBER,
  POINTER_BYTES,
  TREE,
  type Tree,
} from './pages.ts';

/** A file with the data file's name and this one behind it: the next start looks at all leaves. */
export const DOUBTED = '.doubted';

/** Leaves that a start looks at: 128 MiB of rows, which take some 0.3 s, or some seconds from a disk that seeks. */
const LEAVES_MAX = 32_768;
/** Leaves of the free list that are looked at before a commit. */
const FREE_LEAVES_MAX = 32;
const FREE_NUMBER_BYTES = 8;

/** A leaf, and the key from which on its rows are there. */
interface Leaf {
  readonly page: bigint;
  readonly from: Uint8Array;
}

interface Row {
  readonly key: Uint8Array;
  readonly value: () => Uint8Array;
  readonly long: readonly [page: bigint, bytes: number] | undefined;
}

/** Throws StateError. A missing or empty file is a new one. */
export function checkDataFile(path: string): void {
  withFile(path, (file) => void new DataFile(path, file, 'shared'));
}

/**
 * As checkDataFile(), and the branch pages of all tables, and so many leaves; where they are all asked for, rows with
 * pages of their own too. Nothing writes to the file.
 */
export function checkTrees(path: string, leaves: 'first' | 'all' = 'first'): void {
  withFile(path, (file) => new DataFile(path, file, 'all').checkTrees(leaves === 'all' ? Infinity : LEAVES_MAX));
}

/** The leaves of a table that LMDB may follow next: so many from the one on that has `from`. */
export interface LeafRange {
  readonly table: string;
  readonly from: Uint8Array;
  readonly leaves: number;
  /** Those that hold so many bytes of rows, their own pages counted, are enough. */
  readonly bytes?: number;
  /** Rows with pages of their own. */
  readonly long: 'read' | 'skipped';
}

/** Looks at leaves while the file is open, by one descriptor: a process may have no other left. */
export class LeafReader {
  readonly #path: string;
  readonly #file: number;
  #isClosed = false;

  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, 'r');
  }

  /**
   * For the commit that is under way, or for reads as long as no more than one commit has ended since: LMDB writes over
   * no page of the two last ones. Throws StateError.
   */
  paths(table: string, free: 'checked' | 'skipped'): PathCheck {
    return new DataFile(this.#path, this.#file, 'shared').paths(table, free);
  }

  /**
   * Leaves as of the last commit, also while another thread commits, as long as a read transaction of before holds its
   * pages. Returns where a cursor may go to: the first key of the next leaf, which is sound; undefined: everywhere.
   * Throws StateError.
   */
  latest(): (range: LeafRange) => Uint8Array | undefined {
    const file = new DataFile(this.#path, this.#file, 'shared');
    return (range) => file.checkLeaves(range);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    closeSync(this.#file);
  }
}

/** Told of what a table holds, in the order of the keys. */
export interface TableReader {
  row(key: Uint8Array, value: Uint8Array): void;
  /** A page that leads to these cannot be read. */
  gap(range: KeyRange): void;
}

/**
 * Reads a table as far as its pages are sound; without meta pages or the table of tables, all is a gap. Throws
 * StateError. Nothing writes to the file.
 */
export function readTable(path: string, table: string, reader: TableReader, trust: 'last' | 'one' = 'last'): void {
  const all = { from: FIRST_KEY, to: undefined };
  orGap(all, reader, () => withFile(path, (file) => new DataFile(path, file, trust).readTable(table, reader)));
}

function withFile(path: string, check: (file: number) => void): void {
  if (!existsSync(path)) return;
  const file = openSync(path, 'r');
  try {
    const stat = fstatSync(file);
    if (stat.isFile() && stat.size > 0) check(file);
  } finally {
    closeSync(file);
  }
}

/** Pages below one that was read tell their own gaps. */
function orGap(range: KeyRange, reader: TableReader, read: () => void): void {
  try {
    read();
  } catch (error) {
    if (!(error instanceof PageDamage)) throw error;
    reader.gap(range);
  }
}

const keysOf = (rows: readonly Row[]): Uint8Array[] => rows.map(({ key }) => key);

class DataFile extends MetaPages {
  #leavesLeft = 0;

  constructor(path: string, file: number, trust: MetaTrust) {
    super(path, file, trust);
    for (const tree of [this.meta.free, this.meta.tables]) this.#checkRoot(TREE.decode(tree));
  }

  checkTrees(leavesMax: number): void {
    this.#leavesLeft = leavesMax;
    this.#walk(TREE.decode(this.meta.free));
    if (leavesMax === Infinity) this.#checkFree(Infinity);
    this.#walk(TREE.decode(this.meta.tables));
    for (const { tree } of this.#tables()) this.#walk(tree);
  }

  paths(table: string, free: 'checked' | 'skipped'): PathCheck {
    if (free === 'checked') this.#checkFree(FREE_LEAVES_MAX);
    const pages: Pages = {
      pageBytes: this.pageBytes,
      lastPage: Number(this.meta.lastPage),
      read: (at, bytes) => this.read(at, bytes),
      need: (isSound, what) => this.need(isSound, what),
    };
    return new PathCheck(pages, this.#tree(table));
  }

  /** Pages that LMDB takes for free, as far as one commit may read of them. */
  #checkFree(leavesMax: number): void {
    let left = leavesMax;
    for (const { page } of this.#leavesOf(TREE.decode(this.meta.free))) {
      if (left-- <= 0) return;
      for (const { long, value } of this.#rowsOf(page)) {
        if (long !== undefined) this.#checkLongHead(...long);
        const list = viewOf(long === undefined ? value() : this.#longStart(long[0]));
        const bytes = long?.[1] ?? list.byteLength;
        const count = list.byteLength < FREE_NUMBER_BYTES ? Infinity : list.getBigUint64(0, true);
        this.need(count < bytes / FREE_NUMBER_BYTES, `page ${page} counts more free pages than it names`);
      }
    }
  }

  #longStart(page: bigint): Uint8Array {
    return this.read(Number(page) * this.pageBytes + PAGE_HEAD_BYTES, FREE_NUMBER_BYTES);
  }

  #tree(table: string): Tree {
    const tree = [...this.#tables()].find(({ name }) => name === `${table}\0`)?.tree;
    this.need(tree !== undefined, `it has no table ${table}`);
    return tree;
  }

  checkLeaves({ table, from, leaves, bytes = Infinity, long }: LeafRange): Uint8Array | undefined {
    const tree = this.#tree(table);
    let [left, bytesLeft] = [leaves, bytes];
    for (const leaf of this.#leavesOf(tree, from)) {
      const rows = this.#longRows(leaf.page);
      if (left-- <= 0 || bytesLeft <= 0) return leaf.from.slice();
      bytesLeft -= rows.reduce((sum, [, rowBytes]) => sum + rowBytes, this.pageBytes);
      if (long === 'read') for (const row of rows) this.#checkLong(...row);
    }
    return undefined;
  }

  readTable(table: string, reader: TableReader): void {
    for (const { name, tree } of this.#tables()) {
      if (name === `${table}\0`) this.#readUnder(tree.root, tree.depth, { from: FIRST_KEY, to: undefined }, reader);
      else if (tree.root !== NO_PAGE) throw new StateError('it has rows of a version before');
    }
  }

  #readUnder(page: bigint, depth: number, range: KeyRange, reader: TableReader): void {
    if (page === NO_PAGE) return;
    orGap(range, reader, () => {
      this.#needReach(page);
      const children = depth > 1 ? this.#children({ page, from: range.from }) : [];
      const rows = depth > 1 ? [] : this.#rowsOf(page);
      this.#checkOrder(
        page,
        depth > 1 ? children.map(({ from }) => from) : keysBesideStray(keysOf(rows), range),
        range,
      );
      for (const { key, value } of rows)
        orGap({ from: key, to: Uint8Array.of(...key, 0) }, reader, () => reader.row(key, value()));
      for (const [i, child] of children.entries())
        this.#readUnder(child.page, depth - 1, { from: child.from, to: children[i + 1]?.from ?? range.to }, reader);
    });
  }

  /** A page in the place of another has other keys. */
  #checkOrder(page: bigint, keys: readonly Uint8Array[], { from, to }: KeyRange): void {
    const all = [from, ...keys, ...(to === undefined ? [] : [to])];
    const isSorted = all.every((key, i) => i === 0 || Buffer.compare(all[i - 1] as Uint8Array, key) <= 0);
    this.need(isSorted, `page ${page} has the keys of another page`);
  }

  #checkRoot({ root, depth }: Tree): void {
    this.need(depth <= DEPTH_MAX && (root === NO_PAGE) === (depth === 0), `a table of ${depth} levels`);
    if (root === NO_PAGE) return;
    this.need(root >= FIRST_PAGE && root <= this.meta.lastPage, `root ${root} is beyond the last page`);
    this.#needReach(root);
  }

  /** All branch pages, that their children are pages of the file, and leaves. */
  #walk(tree: Tree): void {
    for (const { page, from } of this.#leavesOf(tree)) {
      if (this.#leavesLeft-- <= 0) continue;
      const rows = this.#rowsOf(page);
      if (this.#leavesLeft < Infinity) continue;
      if (tree.flags !== FREE_FLAGS) this.#checkOrder(page, keysOf(rows), { from, to: undefined });
      for (const { long } of rows) if (long !== undefined) this.#checkLong(...long);
    }
  }

  *#leavesOf({ root, depth }: Tree, key: Uint8Array = FIRST_KEY): IterableIterator<Leaf> {
    if (root !== NO_PAGE) yield* this.#leavesUnder({ page: root, from: FIRST_KEY }, depth, key);
  }

  /** From the one on that has `key`. */
  *#leavesUnder({ page, from }: Leaf, depth: number, key: Uint8Array): IterableIterator<Leaf> {
    if (depth <= 1) return void (yield { page, from });
    const children = this.#children({ page, from });
    const first = children.findLastIndex((child) => Buffer.compare(child.from, key) <= 0);
    for (const child of children.slice(Math.max(0, first))) {
      this.#checkNumber(child.page, page);
      this.#needReach(child.page);
      yield* this.#leavesUnder(child, depth - 1, key);
    }
  }

  #children({ page, from }: Leaf): Leaf[] {
    const branch = this.#page(page, BRANCH);
    const children = this.#nodes(page, branch).map((at, i) => {
      const { low, high, flags, keyBytes } = NODE.read(viewOf(branch), at);
      const child = BigInt(low) + (BigInt(high) << 16n) + (BigInt(flags) << 32n);
      return { page: child, from: i === 0 ? from : branch.subarray(at + NODE.size, at + NODE.size + keyBytes) };
    });
    this.need(children.length > 0, `page ${page} has no child`);
    return children;
  }

  *#tables(): IterableIterator<{ readonly name: string; readonly tree: Tree }> {
    for (const { page } of this.#leavesOf(TREE.decode(this.meta.tables))) {
      const leaf = this.#page(page, LEAF);
      for (const at of this.#nodes(page, leaf)) {
        const { low, flags, keyBytes } = NODE.read(viewOf(leaf), at);
        const [key, data] = [at + NODE.size, at + NODE.size + keyBytes];
        const isTree = flags === NODE_IS_TREE && low === TREE.size && data + TREE.size <= leaf.length;
        this.need(isTree, `page ${page} names a table that is none`);
        const tree = TREE.decode(leaf.subarray(data, data + TREE.size));
        this.#checkRoot(tree);
        yield { name: Buffer.from(leaf.subarray(key, data)).toString('latin1'), tree };
      }
    }
  }

  /** The pages of a leaf's rows that have some of their own, and the bytes in them. */
  #longRows(page: bigint): readonly (readonly [page: bigint, bytes: number])[] {
    return this.#rowsOf(page).flatMap(({ long }) => (long === undefined ? [] : [long]));
  }

  /** Checks a leaf. */
  #rowsOf(page: bigint): Row[] {
    const leaf = this.#page(page, LEAF);
    const view = viewOf(leaf);
    const rows: Row[] = [];
    const nodes = this.#nodes(page, leaf);
    this.need(nodes.length > 0, `page ${page} has no row`);
    for (const at of nodes) {
      const { low, high, flags, keyBytes } = NODE.read(view, at);
      const bytes = low + high * 0x1_0000;
      const data = at + NODE.size + keyBytes;
      const isLong = flags === NODE_IS_LONG;
      const end = data + (isLong ? PAGE_NUMBER.size : bytes);
      const isSound = (isLong || flags === 0 || flags === NODE_IS_TREE) && keyBytes > 0 && end <= leaf.length;
      this.need(isSound, `page ${page} has a row outside of it`);
      const key = leaf.subarray(at + NODE.size, data);
      if (!isLong) {
        rows.push({ key, value: () => leaf.subarray(data, end), long: undefined });
        continue;
      }
      const first = PAGE_NUMBER.read(view, data).page;
      this.#checkNumber(first, page);
      this.#needReach(first + BigInt(this.#pagesOf(bytes) - 1));
      const value = (): Uint8Array => this.read(Number(first) * this.pageBytes + PAGE_HEAD_BYTES, bytes);
      rows.push({ key, value, long: [first, bytes] });
    }
    return rows;
  }

  /** LMDB frees as many pages as their head says: more than the row fills when it was written again in its commit. */
  #checkLong(page: bigint, bytes: number): void {
    // LMDB ends the process where the disk cannot read it.
    this.read(Number(page) * this.pageBytes, PAGE_HEAD_BYTES + bytes);
    this.#checkLongHead(page, bytes);
  }

  #checkLongHead(page: bigint, bytes: number): void {
    const head = PAGE_HEAD.decode(this.read(Number(page) * this.pageBytes, PAGE_HEAD_BYTES));
    const pages = head.lower + head.upper * 0x1_0000;
    const isSound = head.page === page && (head.flags & KINDS) === OVERFLOW && pages >= this.#pagesOf(bytes);
    const isInside = page + BigInt(pages) - 1n <= this.meta.lastPage;
    this.need(isSound && isInside, `page ${page} has the head of another page`);
  }

  #pagesOf(bytes: number): number {
    return Math.ceil((PAGE_HEAD_BYTES + bytes) / this.pageBytes);
  }

  #checkNumber(page: bigint, by: bigint): void {
    this.need(page >= FIRST_PAGE && page <= this.meta.lastPage, `page ${by} names page ${page}`);
  }

  /** Where the nodes of a page begin. */
  #nodes(page: bigint, content: Uint8Array): number[] {
    const view = viewOf(content);
    const { lower } = PAGE_HEAD.read(view, 0);
    const places: number[] = [];
    for (let at = 0; at < lower; at += POINTER_BYTES) {
      const place = PAGE_HEAD_BYTES + view.getUint16(PAGE_HEAD_BYTES + at, true);
      const isInside = place >= PAGE_HEAD_BYTES + lower && place + NODE.size <= content.length;
      this.need(isInside, `page ${page} has a node outside of it`);
      places.push(place);
    }
    return places;
  }

  #page(page: bigint, kind: number): Uint8Array {
    this.#needReach(page);
    const content = this.read(Number(page) * this.pageBytes, this.pageBytes);
    const head = PAGE_HEAD.decode(content);
    const isSound =
      head.page === page &&
      (head.flags & KINDS) === kind &&
      head.lower % POINTER_BYTES === 0 &&
      head.lower <= head.upper &&
      head.upper <= this.pageBytes - PAGE_HEAD_BYTES;
    this.need(isSound, `page ${page} has the head of another page`);
    return content;
  }

  #needReach(page: bigint): void {
    const isThere = (page + 1n) * BigInt(this.pageBytes) <= BigInt(this.size);
    this.need(isThere, `it was cut short: ${this.size} bytes, and page ${page} is missing`);
  }
}
