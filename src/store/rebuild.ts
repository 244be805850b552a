/**
 * Rebuilds a data file of which pages cannot be read, without the rows that lay there. LMDB never follows
 * the damaged file, which is kept beside it. Groups whose rows lay there are marked (OWN_TAG.torn) and not opened: in a
 * cluster the others restore them, and a single node refuses them alone.
 */
import { linkSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, statfsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { caughtMessage } from '../base/caught.ts';
import type { Tx } from '../base/tx.ts';
import { readTable } from './data-file.ts';
import { Environment, LmdbTx, STATE_TABLE } from './environment.ts';
import { PageDamage } from './lmdb-damage.ts';
import { freeAside, syncPath } from './log-files.ts';
import { ownRow } from './own-rows.ts';
import type { KeyRange } from './path-check.ts';
import { ALL_GROUPS, OWN_TAG, RUN_KEY, SYSTEM_PREFIX, halfOf, prefixKey, systemKey } from './rows.ts';
import { ShardStore, type StoreOptions } from './shard-store.ts';
import { isFull } from './volume.ts';

/** Bytes of one commit. */
const COMMIT_BYTES = 4 * 1024 * 1024;
/** Beside the data file, until the new one is whole. */
const FOLDER = 'rebuilt';
/** Damaged files beside the data file, each as large as that was. */
const KEPT_MAX = 2;
const FLAG = Uint8Array.of(1);
const ONLY_HERE =
  'no other node has what they held; millracectl salvage DIR NEW-DIR goes back one checkpoint where a meta page is all that changed; otherwise restore a backup';

interface Opening extends StoreOptions {
  readonly groups: readonly number[];
  /** No other node can tell what the shard's own rows said. */
  readonly isAlone: boolean;
  /** Told before the copy of so many bytes, which may take minutes. */
  readonly onRebuild: (damage: PageDamage, bytes: number) => void;
}

/** Opens the store of a shard, whose data file is rebuilt before if it has to be. */
export async function openStore(directory: string, opening: Opening): Promise<ShardStore> {
  const { groups, isAlone, onRebuild, ...options } = opening;
  try {
    return new ShardStore(directory, options);
  } catch (error) {
    if (!(error instanceof PageDamage)) throw error;
    const keptBytes = checkRoom(directory, error);
    onRebuild(error, keptBytes);
    const trust = options.salvages === true ? 'one' : 'last';
    const rebuilt = await rebuild(directory, trust, (tx, gaps) => {
      // They are behind all others.
      if (isAlone && gaps.some(({ to }) => to === undefined || isBefore(prefixKey(SYSTEM_PREFIX), to)))
        throw options.salvages === true ? error : notRebuilt(error, ONLY_HERE);
      return markTorn(tx, groups, gaps);
    }).catch((cause: unknown) => {
      if (cause instanceof PageDamage) throw cause;
      throw notRebuilt(error, isFull(directory, cause) ? 'its volume is full' : caughtMessage(cause), cause);
    });
    const store = new ShardStore(directory, options);
    store.found = { ...store.found, rebuilt: { why: error.message, keptBytes, ...rebuilt } };
    return store;
  }
}

/** A copy that ends for lack of room would begin again at every start. Returns the bytes of the file. */
function checkRoom(directory: string, damage: PageDamage): number {
  // A start may have ended in its copy.
  rmSync(join(directory, FOLDER), { recursive: true, force: true });
  const file = join(directory, 'data.mdb');
  const { size } = statSync(file);
  const inode = (path: string): bigint => lstatSync(path, { bigint: true }).ino;
  const asides = readdirSync(directory).filter((name) => name.startsWith('data.mdb.damaged'));
  const paths = asides.map((name) => join(directory, name));
  const kept = paths.filter((path) => inode(path) !== inode(file));
  // A start that ended between its link and its rename left a second name of the data file.
  for (const path of paths) if (!kept.includes(path)) rmSync(path);
  if (kept.length >= KEPT_MAX) throw notRebuilt(damage, `remove the files kept before: ${kept.join(', ')}`);
  const { bavail, bsize } = statfsSync(directory);
  const missing = size - bavail * bsize;
  if (missing > 0) throw notRebuilt(damage, `that takes ${size} free bytes, ${missing} more than its volume has`);
  return size;
}

function notRebuilt(damage: PageDamage, why: string, cause: unknown = damage): PageDamage {
  return new PageDamage(`${damage.message}; it was not rebuilt without its damaged pages: ${why}`, { cause });
}

type Mark = (tx: Tx, gaps: readonly KeyRange[]) => readonly number[];

async function rebuild(
  directory: string,
  trust: 'last' | 'one',
  mark: Mark,
): Promise<{ readonly torn: readonly number[]; readonly aside: string }> {
  const file = join(directory, 'data.mdb');
  const folder = join(directory, FOLDER);
  mkdirSync(folder, { mode: 0o700 });
  try {
    const environment = new Environment(folder);
    let torn: readonly number[] = [];
    try {
      const gaps = copyRows(file, environment, trust);
      environment.commit(() => (torn = mark(new LmdbTx(environment.state), gaps)));
    } finally {
      await environment.close();
    }
    const aside = freeAside(file);
    // At every moment one of them has the name.
    linkSync(file, aside);
    renameSync(join(folder, 'data.mdb'), file);
    syncPath(directory);
    return { torn, aside: basename(aside) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Rows as they are stored: one that changed is told by its checksum, as before. */
function copyRows(file: string, environment: Environment, trust: 'last' | 'one'): KeyRange[] {
  const gaps: KeyRange[] = [];
  let rows: { readonly key: Uint8Array; readonly value: Uint8Array }[] = [];
  let bytes = 0;
  const write = (): void => {
    environment.commit(() => {
      for (const { key, value } of rows) environment.state.putSync(key, value);
    });
    rows = [];
    bytes = 0;
  };
  const row = (key: Uint8Array, value: Uint8Array): void => {
    rows.push({ key, value });
    bytes += key.length + value.length;
    if (bytes >= COMMIT_BYTES) write();
  };
  readTable(file, STATE_TABLE, { row, gap: (range) => gaps.push(range) }, trust);
  write();
  return gaps;
}

/** Inside a commit. A row that was in none of the gaps counts as lost there: what is missing is not known. */
function markTorn(tx: Tx, groups: readonly number[], gaps: readonly KeyRange[]): number[] {
  const isLost = (key: Uint8Array): boolean =>
    gaps.some(({ from, to }) => !isBefore(key, from) && (to === undefined || isBefore(key, to)));
  const isTorn = (prefix: number): boolean =>
    gaps.some(
      ({ from, to }) => isBefore(from, prefixKey(prefix + 1)) && (to === undefined || isBefore(prefixKey(prefix), to)),
    );
  const isUnknown = isLost(RUN_KEY);
  const torn = groups.filter((group) => {
    const areOwnLost = [OWN_TAG.vote, OWN_TAG.half, OWN_TAG.cut, OWN_TAG.lost].some((tag) =>
      isLost(systemKey(tag, group)),
    );
    return isUnknown || areOwnLost || isTorn(halfOf(group, ownRow(tx, systemKey(OWN_TAG.half, group))));
  });
  for (const group of torn) tx.put(systemKey(OWN_TAG.torn, group), FLAG);
  if (isUnknown) tx.put(systemKey(OWN_TAG.torn, ALL_GROUPS), FLAG);
  if (isLost(systemKey(OWN_TAG.used, 0))) tx.put(systemKey(OWN_TAG.used, 0), FLAG);
  return torn;
}

function isBefore(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) < 0;
}
