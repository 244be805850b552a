/**
 * The two meta pages of an LMDB data file. Transaction N writes page N mod 2, behind all pages that it wrote, and reuses
 * none of transaction N - 1. So when the older meta page has changed, the newer one still names all that was committed.
 * When the newer one has changed, the older names a whole state, too, but not what was acknowledged since: votes, lost
 * marks and snapshots that took over. Only salvage goes back to it.
 */
import { fstatSync, readSync } from 'node:fs';
import { caughtCode } from '../base/caught.ts';
import { viewOf } from '../base/bytes.ts';
import { PageDamage, damageOf } from './lmdb-damage.ts';
import {
  DEPTH_MAX,
  FREE_FLAGS,
  MAGIC,
  MAP_BYTES_MAX,
  META,
  META_PAGE,
  type MetaPage,
  NO_PAGE,
  PAGE_BYTES_MAX,
  PAGE_HEAD,
  PAGE_HEAD_BYTES,
  TREE,
  VERSION,
} from './pages.ts';

/** A thread that commits meanwhile changes the meta pages between two reads of them. */
const READS_MAX = 100;
/** Pages of files whose first meta page does not say it. */
const USUAL_PAGE_BYTES = 4096;
/** Read at once when all pages are looked at. */
const SCAN_BYTES = 1024 * 1024;

/**
 * `shared`: both are whole, and the file may be in use. `all`: it is not, so they are also held against the trees that they
 * name. `last`: one of them is whole and names the last commit. `one`: one of them is whole.
 */
export type MetaTrust = 'shared' | 'all' | 'last' | 'one';

export class MetaPages {
  readonly #path: string;
  readonly #file: number;
  protected readonly size: number;
  protected readonly pageBytes: number;
  /** The newer meta page, of those that are whole. */
  protected readonly meta: MetaPage;

  constructor(path: string, file: number, trust: MetaTrust) {
    this.#path = path;
    this.#file = file;
    const { pageBytes, metas } = this.#readMetas(trust);
    this.pageBytes = pageBytes;
    // Asked last: a thread that commits makes the file longer before it names the new pages.
    this.size = fstatSync(file).size;
    this.meta = this.#newer(metas, trust);
  }

  #newer(metas: readonly MetaPage[], trust: MetaTrust): MetaPage {
    const damages: PageDamage[] = [];
    const whole = metas.filter((meta, i) => {
      try {
        this.#checkMeta(meta, i);
        if (trust !== 'shared') this.#checkWriter(meta, i);
        return true;
      } catch (error) {
        if (!(error instanceof PageDamage)) throw error;
        damages.push(error);
        return false;
      }
    });
    const [first, second] = whole.toSorted((a, b) => Number(b.transaction - a.transaction));
    const [damage = new PageDamage(damageOf(this.#path, 'its meta pages have changed'))] = damages;
    if (first === undefined) throw damage;
    if (second !== undefined) {
      const numbers = `the transactions ${second.transaction} and ${first.transaction}`;
      this.need(first.transaction - second.transaction === 1n, `its meta pages are of ${numbers}`);
    } else if (trust !== 'one' && (trust !== 'last' || this.#hasYounger(first.transaction))) throw damage;
    return first;
  }

  #readMetas(trust: MetaTrust): { readonly pageBytes: number; readonly metas: readonly MetaPage[] } {
    for (let reads = 0; ; reads++) {
      const first = this.read(0, META_PAGE.size);
      const pageBytes = this.#pageBytesOf(META_PAGE.decode(first), trust);
      const second = this.read(pageBytes, META_PAGE.size);
      const isStill = (page: Uint8Array, at: number): boolean =>
        Buffer.compare(page, this.read(at, META_PAGE.size)) === 0;
      if (reads < READS_MAX && !(isStill(first, 0) && isStill(second, pageBytes))) continue;
      return { pageBytes, metas: [META_PAGE.decode(first), META_PAGE.decode(second)] };
    }
  }

  #pageBytesOf({ magic, free }: MetaPage, trust: MetaTrust): number {
    const { pad } = TREE.decode(free);
    const isSound = magic === MAGIC && (pad & (pad - 1)) === 0 && pad >= 512 && pad <= PAGE_BYTES_MAX;
    if (!isSound && (trust === 'last' || trust === 'one')) return USUAL_PAGE_BYTES;
    this.need(magic === MAGIC, 'it is no LMDB file, or was written over');
    this.need(isSound, `a page size of ${pad} bytes`);
    return pad;
  }

  #checkMeta(
    { head, magic, version, address, mapBytes, free, tables, lastPage, transaction }: MetaPage,
    i: number,
  ): void {
    const page = `meta page ${i}`;
    this.need(magic === MAGIC && version === VERSION, `${page} is no meta page of LMDB, or was written over`);
    const { page: number, flags } = PAGE_HEAD.decode(head);
    this.need(number === BigInt(i) && flags === META, `${page} has the head of another page`);
    this.need(transaction % 2n === BigInt(i), `${page} names transaction ${transaction}`);
    const trees = [TREE.decode(free), TREE.decode(tables)] as const;
    this.need(trees[0].pad === this.pageBytes, `${page} names a page size of ${trees[0].pad} bytes`);
    this.need(trees[0].flags === FREE_FLAGS && trees[1].flags === 0 && trees[1].pad === 0, `${page} has other flags`);
    const pages = mapBytes / BigInt(this.pageBytes);
    const isMapped = address === 0n && mapBytes <= MAP_BYTES_MAX && mapBytes % BigInt(this.pageBytes) === 0n;
    this.need(
      isMapped && lastPage < pages,
      `${page} names a map of ${mapBytes} bytes and page ${lastPage} as its last`,
    );
    for (const tree of trees) {
      const used = tree.branchPages + tree.leafPages + tree.overflowPages;
      this.need(used <= lastPage && tree.depth <= DEPTH_MAX, `${page} counts ${used} pages in ${tree.depth} levels`);
      this.need((tree.root === NO_PAGE) === (tree.depth === 0), `${page} names a root of ${tree.depth} levels`);
    }
  }

  /** Each transaction writes its own root of the table of tables. */
  #checkWriter({ tables, transaction, lastPage }: MetaPage, i: number): void {
    const { root } = TREE.decode(tables);
    if (root === NO_PAGE) return;
    this.need(root <= lastPage, `root ${root} is beyond the last page`);
    const { transaction: writer } = PAGE_HEAD.decode(this.read(Number(root) * this.pageBytes, PAGE_HEAD_BYTES));
    this.need(writer === transaction, `meta page ${i} names transaction ${transaction}, and a root of ${writer}`);
  }

  /** Whether a later transaction wrote a page: the meta page that has changed may have named it. */
  #hasYounger(transaction: bigint): boolean {
    const step = Math.max(SCAN_BYTES, this.pageBytes);
    for (let from = 0; from + PAGE_HEAD_BYTES <= this.size; from += step) {
      const view = viewOf(this.read(from, Math.min(step, this.size - from)));
      for (let at = 0; at + PAGE_HEAD_BYTES <= view.byteLength; at += this.pageBytes) {
        const head = PAGE_HEAD.read(view, at);
        // The pages of long rows have no heads but the first.
        const isHead = head.flags !== META && head.page === BigInt((from + at) / this.pageBytes);
        if (isHead && head.transaction > transaction) return true;
      }
    }
    return false;
  }

  protected read(at: number, size: number): Uint8Array {
    const page = new Uint8Array(size);
    try {
      if (readSync(this.#file, page, 0, size, at) === size) return page;
    } catch (error) {
      if (caughtCode(error) !== 'EIO') throw error;
      throw new PageDamage(damageOf(this.#path, `EIO at byte ${at}`), { cause: error });
    }
    throw new PageDamage(damageOf(this.#path, 'it was cut short'));
  }

  protected need(isSound: boolean, what: string): asserts isSound {
    if (!isSound) throw new PageDamage(damageOf(this.#path, what));
  }
}
