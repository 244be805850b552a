/**
 * Looks at the pages that LMDB is about to change or to walk through, from the root to a leaf and its neighbours. LMDB
 * frees the page whose number stands in a head, so that a page in the place of another gives away one that is in use,
 * and it ends the process where a page breaks its rules. This runs for each row that is written: it makes no objects for
 * rows, as data-file.ts does, which takes several times as long.
 */
import { compareBytes, viewOf } from '../base/bytes.ts';
import {
  BRANCH,
  KINDS,
  LEAF,
  NODE,
  NODE_IS_LONG,
  NO_PAGE,
  OVERFLOW,
  PAGE_HEAD,
  PAGE_HEAD_BYTES,
  PAGE_NUMBER,
  POINTER_BYTES,
  type Tree,
} from './pages.ts';

/** A data file, as of one commit. */
export interface Pages {
  readonly pageBytes: number;
  readonly lastPage: number;
  /** Throws PageDamage. */
  read(at: number, bytes: number): Uint8Array;
  /** Throws PageDamage. */
  need(isSound: boolean, what: string): asserts isSound;
}

export type Change = 'put' | 'delete';

/** [start, end), or from the last key before the end. */
export interface Walk {
  readonly start: Uint8Array;
  readonly end: Uint8Array;
  readonly way: 'forward' | 'back';
}

/** Branch pages that are kept: one is asked for some hundred leaves. */
const BRANCHES_MAX = 512;
const TWO_16 = 0x1_0000;
const TWO_32 = 0x1_0000_0000;
const FIRST = 2;
const NONE = -1;
/** Before all keys. */
export const FIRST_KEY = new Uint8Array(0);

/** Keys from one on; the end is the first key behind them, undefined: there is none. */
export interface KeyRange {
  readonly from: Uint8Array;
  readonly to: Uint8Array | undefined;
}

/** A page whose rows lie inside of it, in the order of their keys. */
interface Page {
  readonly page: number;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly count: number;
}

export class PathCheck {
  readonly #pages: Pages;
  readonly #root: number;
  readonly #depth: number;
  readonly #branches = new Map<number, Page>();
  /** Pages that are sound. */
  readonly #sound = new Set<number>();
  /** The last one that was written to. */
  #leaf: Page | undefined;

  constructor(pages: Pages, tree: Tree) {
    this.#pages = pages;
    this.#depth = tree.depth;
    this.#root = tree.root === NO_PAGE ? NONE : Number(tree.root);
  }

  /** Before the commit writes this row for the first time. A page is looked at once. Throws PageDamage. */
  beforeWrite(key: Uint8Array, change: Change): void {
    if (this.#root === NONE) return;
    let page = this.#root;
    for (let level = this.#depth; level > 1; level--) {
      const branch = this.#branch(page);
      const at = childOf(branch, key);
      if (change === 'delete')
        for (const beside of [at - 1, at + 1])
          if (beside >= 0 && beside < branch.count) this.#checkOnce(childAt(branch, beside), level - 1);
      page = childAt(branch, at);
    }
    // Rows come in the order of their keys more often than not.
    if (this.#leaf?.page !== page) this.#leaf = this.#page(page, LEAF, this.#sound.has(page) ? 'known' : 'whole');
    this.#sound.add(page);
    this.#checkLong(this.#leaf, key);
  }

  /**
   * Before a cursor walks from `start` on, or from `end` back: looks at the leaf where it begins, and at those beside it,
   * if it runs into them. Returns the keys of the leaf: up to there it may walk. Throws PageDamage.
   */
  beforeWalk({ start, end, way }: Walk): KeyRange {
    let range: KeyRange = { from: FIRST_KEY, to: undefined };
    if (this.#root === NONE) return range;
    let page = this.#root;
    let [left, right] = [NONE, NONE];
    for (let level = this.#depth; level > 1; level--) {
      const branch = this.#page(page, BRANCH, 'places');
      const at = way === 'forward' ? childOf(branch, start) : childBefore(branch, end);
      [left, right] = [
        at > 0 ? childAt(branch, at - 1) : this.#childOfPage(left, 'last'),
        at + 1 < branch.count ? childAt(branch, at + 1) : this.#childOfPage(right, 'first'),
      ];
      range = {
        from: at > 0 ? keyAt(branch, at) : range.from,
        to: at + 1 < branch.count ? keyAt(branch, at + 1) : range.to,
      };
      page = childAt(branch, at);
    }
    const leaf = this.#page(page, LEAF, 'places');
    const runsLeft = way === 'back' && compareBytes(keyAt(leaf, 0), start) > 0;
    if (left !== NONE && runsLeft) this.#page(left, LEAF, 'places');
    // A cursor finds the first key behind the end before it goes back.
    const runsRight = compareBytes(keyAt(leaf, leaf.count - 1), end) < 0;
    if (right !== NONE && runsRight) this.#page(right, LEAF, 'places');
    return range;
  }

  #childOfPage(page: number, which: 'first' | 'last'): number {
    if (page === NONE) return NONE;
    const branch = this.#page(page, BRANCH, 'places');
    return childAt(branch, which === 'first' ? 0 : branch.count - 1);
  }

  #branch(page: number): Page {
    const known = this.#branches.get(page);
    if (known !== undefined) return known;
    const branch = this.#page(page, BRANCH, 'whole');
    if (this.#branches.size >= BRANCHES_MAX) this.#branches.clear();
    this.#branches.set(page, branch);
    return branch;
  }

  #checkOnce(page: number, level: number): void {
    if (this.#sound.has(page)) return;
    this.#page(page, level > 1 ? BRANCH : LEAF, 'whole');
    this.#sound.add(page);
  }

  /** LMDB frees as many pages as their head says. */
  #checkLong(leaf: Page, key: Uint8Array): void {
    const { view, count } = leaf;
    const at = firstKey(leaf, 0, (order) => order >= 0, key);
    if (at === count || compareBytes(keyAt(leaf, at), key) !== 0) return;
    const node = placeAt(view, at);
    if (NODE.fields.flags.get(view, node) !== NODE_IS_LONG) return;
    const first = numberAt(view, node + NODE.size + key.length);
    const rowBytes = NODE.fields.low.get(view, node) + NODE.fields.high.get(view, node) * TWO_16;
    this.#checkNumber(first);
    const head = viewOf(this.#pages.read(first * this.#pages.pageBytes, PAGE_HEAD_BYTES));
    const pages = PAGE_HEAD.fields.lower.get(head, 0) + PAGE_HEAD.fields.upper.get(head, 0) * TWO_16;
    const isSound =
      numberAt(head, 0) === first &&
      (PAGE_HEAD.fields.flags.get(head, 0) & KINDS) === OVERFLOW &&
      pages * this.#pages.pageBytes >= PAGE_HEAD_BYTES + rowBytes &&
      first + pages - 1 <= this.#pages.lastPage;
    this.#pages.need(isSound, `page ${first} has the head of another page`);
  }

  #checkNumber(page: number): void {
    this.#pages.need(page >= FIRST && page <= this.#pages.lastPage, `a page names page ${page}`);
  }

  /** `places`: in whatever order, which the reader looks at. */
  #page(page: number, kind: number, how: 'whole' | 'places' | 'known'): Page {
    this.#checkNumber(page);
    const { pageBytes } = this.#pages;
    const bytes = this.#pages.read(page * pageBytes, pageBytes);
    const view = viewOf(bytes);
    const lower = PAGE_HEAD.fields.lower.get(view, 0);
    const found: Page = { page, bytes, view, count: lower / POINTER_BYTES };
    if (how === 'known') return found;
    const upper = PAGE_HEAD.fields.upper.get(view, 0);
    const isHead =
      numberAt(view, 0) === page &&
      (PAGE_HEAD.fields.flags.get(view, 0) & KINDS) === kind &&
      lower % POINTER_BYTES === 0 &&
      lower <= upper &&
      upper <= pageBytes - PAGE_HEAD_BYTES;
    this.#pages.need(isHead, `page ${page} has the head of another page`);
    this.#pages.need(found.count > (kind === BRANCH ? 1 : 0), `page ${page} has ${found.count} rows`);
    for (let i = 0; i < found.count; i++) {
      this.#pages.need(isInside(found, i, kind, upper), `page ${page} has a row outside of it`);
      // The first key of a branch page means nothing.
      const isLater = how === 'places' || i === 0 || (kind === BRANCH && i === 1) || isAfter(found, i);
      this.#pages.need(isLater, `page ${page} has its rows in another order`);
    }
    return found;
  }
}

function isInside({ bytes, view }: Page, i: number, kind: number, upper: number): boolean {
  const node = placeAt(view, i);
  if (node < PAGE_HEAD_BYTES + upper || node + NODE.size > bytes.length) return false;
  const keyEnd = node + NODE.size + NODE.fields.keyBytes.get(view, node);
  if (kind === BRANCH) return keyEnd <= bytes.length;
  const flags = NODE.fields.flags.get(view, node);
  const rowBytes = NODE.fields.low.get(view, node) + NODE.fields.high.get(view, node) * TWO_16;
  if (flags !== 0 && flags !== NODE_IS_LONG) return false;
  const end = keyEnd + (flags === NODE_IS_LONG ? PAGE_NUMBER.size : rowBytes);
  return keyEnd > node + NODE.size && end <= bytes.length;
}

/** Its key is behind that of the one before. No view is made for either: this is the hot loop. */
function isAfter({ bytes, view }: Page, i: number): boolean {
  const [before, node] = [placeAt(view, i - 1), placeAt(view, i)];
  const [beforeBytes, keyBytes] = [NODE.fields.keyBytes.get(view, before), NODE.fields.keyBytes.get(view, node)];
  for (let at = 0; at < beforeBytes && at < keyBytes; at++) {
    const difference = (bytes[node + NODE.size + at] ?? 0) - (bytes[before + NODE.size + at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return keyBytes > beforeBytes;
}

function placeAt(view: DataView, i: number): number {
  return PAGE_HEAD_BYTES + view.getUint16(PAGE_HEAD_BYTES + POINTER_BYTES * i, true);
}

function keyAt({ bytes, view }: Page, i: number): Uint8Array {
  const node = placeAt(view, i);
  return bytes.subarray(node + NODE.size, node + NODE.size + NODE.fields.keyBytes.get(view, node));
}

/** The child whose rows a key is among. */
function childOf(branch: Page, key: Uint8Array): number {
  return firstKey(branch, 1, (order) => order > 0, key) - 1;
}

/** The child with the last key before this one. */
function childBefore(branch: Page, key: Uint8Array): number {
  return firstKey(branch, 1, (order) => order >= 0, key) - 1;
}

/** The first from `low` on whose order to the key is such. */
function firstKey(page: Page, from: number, isSuch: (order: number) => boolean, key: Uint8Array): number {
  let [low, high] = [from, page.count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isSuch(compareBytes(keyAt(page, middle), key))) high = middle;
    else low = middle + 1;
  }
  return low;
}

function childAt({ view }: Page, i: number): number {
  const node = placeAt(view, i);
  const { low, high, flags } = NODE.fields;
  return low.get(view, node) + high.get(view, node) * TWO_16 + flags.get(view, node) * TWO_32;
}

/** A page's number: 48 bits are more than any file has. */
function numberAt(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint32(at + 4, true) * TWO_32;
}
