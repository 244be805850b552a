/**
 * Objects as files of one directory, which all nodes may share (a network file system). After a crash an object is
 * complete or absent: it is written under another name, synced, renamed, and the directory is synced.
 */
import { randomBytes } from 'node:crypto';
import { type Dirent, constants } from 'node:fs';
import { mkdir, open, opendir, readdir, rename, rmdir, stat, unlink, writeFile } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import type { ListedObject, ObjectPage } from '../ports.ts';
import { type ObjectStore, type Parts, StoreError, checkKey } from './store.ts';
import { caughtCode } from '../../base/caught.ts';

/**
 * Inside the store, so that a rename never crosses file systems. It also distinguishes a store from an empty mount
 * point: only makeDirStore creates it, and neither it nor a parent directory is ever created again. Otherwise objects
 * could be written below the mount point, or next to a store that was moved away.
 */
const TEMPORARY = '.tmp';
/** A temporary file this old belongs to a dead process; no put takes that long. */
const TEMPORARY_MS_MAX = 60 * 60_000;
/** A directory may be removed as empty between its creation and its use; another attempt creates it again. */
const ATTEMPTS = 8;

/** Accessible only to the user of this process. */
const PRIVATE = { mode: 0o700 } as const;

export class DirStore implements ObjectStore {
  readonly place: string;
  readonly #root: string;
  #cleaned = false;

  /** The directory must be a store already (makeDirStore). */
  constructor(directory: string, root: string) {
    this.#root = rootOf(directory, root);
    this.place = `the directory ${this.#root}`;
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    checkKey(key);
    await this.#inside(key, async (root) => {
      await this.#clean(root);
      const temporary = join(root, TEMPORARY, randomBytes(12).toString('hex'));
      try {
        await writeFile(temporary, body, { flag: 'wx', mode: 0o600, flush: true });
        await moveInto(root, temporary, key);
        await syncParents(root, key);
      } catch (error) {
        await unlink(temporary).catch(ignoreMissing);
        throw error;
      }
    });
  }

  async read(key: string, offset: number, { parts, length }: Parts): Promise<void> {
    const at = await this.#fill(key, offset, parts);
    if (at < offset + length)
      throw new StoreError('bad', `${key}: the object ends at byte ${at} of ${offset + length}`);
  }

  async readUpTo(key: string, offset: number, bytesMax: number): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(bytesMax);
    return bytes.subarray(0, (await this.#fill(key, offset, [bytes])) - offset);
  }

  /** Returns where the object ends, or the parts. */
  async #fill(key: string, offset: number, parts: readonly Uint8Array[]): Promise<number> {
    checkKey(key);
    return await this.#guard(key, async () => {
      const file = await open(pathOf(this.#root, key), 'r');
      try {
        let at = offset;
        for (const part of parts) {
          for (let done = 0; done < part.length;) {
            const { bytesRead } = await file.read(part, done, part.length - done, at);
            if (bytesRead === 0) return at;
            done += bytesRead;
            at += bytesRead;
          }
        }
        return at;
      } finally {
        await file.close();
      }
    });
  }

  async list(prefix: string, after: string, limit: number): Promise<ObjectPage> {
    return this.#guard(prefix, async () => {
      await this.#expectStore();
      // One more than requested shows whether there are more.
      const objects: ListedObject[] = [];
      await this.#walk('', prefix, after, limit + 1, objects);
      return { objects: objects.slice(0, limit), more: objects.length > limit };
    });
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      checkKey(key);
      await this.#inside(key, async (root) => {
        const path = pathOf(root, key);
        // Counts as gone: this is the store, and the object would be visible here.
        await unlink(path).catch(ignoreMissing);
        await removeEmpty(root, dirname(path));
      });
    }
  }

  close(): void {
    // Holds no resources.
  }

  /**
   * Depth first in key order: `a-b/x` comes before `a/x`, so directories sort with their slash. Keys are ASCII, but a
   * foreign file may have any name; UTF-16 order is good enough for it.
   */
  async #walk(folder: string, prefix: string, after: string, limit: number, found: ListedObject[]): Promise<void> {
    const entries = await readdir(join(this.#root, ...folder.split('/')), { withFileTypes: true }).catch(noEntries);
    const names = entries
      .filter((entry) => !entry.name.startsWith('.') && (entry.isDirectory() || entry.isFile()))
      .map((entry) => (entry.isDirectory() ? `${folder}${entry.name}/` : folder + entry.name))
      .sort();
    for (const name of names) {
      if (found.length >= limit) return;
      if (name.endsWith('/')) {
        const wanted = name.startsWith(prefix) || prefix.startsWith(name);
        // Everything in it sorts before `after` unless `after` is in it.
        if (wanted && (name > after || after.startsWith(name))) await this.#walk(name, prefix, after, limit, found);
      } else if (name.startsWith(prefix) && name > after) {
        const stats = await stat(pathOf(this.#root, name)).catch(ignoreMissing);
        if (stats !== undefined) found.push({ key: name, bytes: stats.size, writtenAtMs: stats.mtimeMs });
      }
    }
  }

  /** Once per process: files of puts that never ended. */
  async #clean(root: string): Promise<void> {
    if (this.#cleaned) return;
    this.#cleaned = true;
    const folder = join(root, TEMPORARY);
    for (const { name } of await readdir(folder, { withFileTypes: true }).catch(noEntries)) {
      const path = join(folder, name);
      const stats = await stat(path).catch(ignoreMissing);
      if (stats?.isFile() === true && Date.now() - stats.mtimeMs > TEMPORARY_MS_MAX)
        await unlink(path).catch(ignoreMissing);
    }
  }

  /**
   * Every change goes through an open descriptor of the store's root, after a check that it is the store. If the store
   * is moved or unmounted meanwhile, the change still happens inside it and not at the new target of its path.
   */
  async #inside(what: string, action: (root: string) => Promise<void>): Promise<void> {
    await this.#guard(what, async () => {
      const folder = await open(this.#root, constants.O_RDONLY | constants.O_DIRECTORY).catch((error: unknown) => {
        ignoreMissing(error);
        throw this.#gone();
      });
      const root = `/proc/self/fd/${folder.fd}`;
      try {
        if (!(await isDirStore(root))) throw this.#gone();
        await action(root);
      } catch (error) {
        throw renamed(error, root, this.#root);
      } finally {
        await folder.close();
      }
    });
  }

  async #guard<T>(what: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      if (caughtCode(error) === 'ENOENT') await this.#expectStore();
      throw toStoreError(what, error);
    }
  }

  /** Something is missing: one object, or the whole store? */
  async #expectStore(): Promise<void> {
    if (!(await isDirStore(this.#root))) throw this.#gone();
  }

  #gone(): StoreError {
    const sentence =
      `${this.place} is not there or is none of ours (it has no ${TEMPORARY}); is its file system mounted? ` +
      `A new one is made when a node starts, not later`;
    return new StoreError('unreachable', sentence);
  }
}

function rootOf(directory: string, root: string): string {
  return root === '' ? directory : join(directory, ...root.split('/'));
}

/** Turns the directory into a store, if it is not one yet. The only place that creates directories outside a store. */
export async function makeDirStore(directory: string, root: string): Promise<void> {
  const place = rootOf(directory, root);
  await makeFolder(join(place, TEMPORARY));
  // Its parent directories are made as durable as its content. Those of other users may be unreadable, and have long
  // existed.
  for (let folder = place; folder !== dirname(folder); folder = dirname(folder)) {
    await syncDirectory(folder).catch(() => undefined);
  }
}

/**
 * Creates a directory with its parents. Not mkdir's `recursive`: where a file system allows no directories and reports
 * ENOENT (an automounter without its server, /proc), Node retries forever.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, PRIVATE);
    return;
  } catch (error) {
    // It may be a file.
    if (caughtCode(error) === 'EEXIST') return (await opendir(path)).close();
    if (caughtCode(error) !== 'ENOENT') throw error;
  }
  if (dirname(path) !== path) await makeFolder(dirname(path));
  await mkdir(path, PRIVATE).catch((error: unknown) => {
    if (caughtCode(error) === 'EEXIST') return;
    if (caughtCode(error) !== 'ENOENT') throw error;
    throw new StoreError('denied', `${path} cannot be made there (ENOENT)`, { cause: error });
  });
}

function pathOf(root: string, key: string): string {
  return join(root, ...key.split('/'));
}

/** Whether objects may have been written there. */
export async function isDirStore(directory: string, root = ''): Promise<boolean> {
  return stat(join(rootOf(directory, root), TEMPORARY)).then(
    () => true,
    (error: unknown) => {
      ignoreMissing(error);
      return false;
    },
  );
}

/** Creates directories one by one below the root. */
async function moveInto(root: string, temporary: string, key: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await rename(temporary, pathOf(root, key));
      return;
    } catch (error) {
      // No such directory yet, or a concurrent removal deleted it while it was empty.
      if (caughtCode(error) !== 'ENOENT' || attempt === ATTEMPTS) throw error;
    }
    let folder = root;
    for (const name of key.split('/').slice(0, -1)) {
      folder = join(folder, name);
      await mkdir(folder, 0o700).catch((error: unknown) => {
        // A parent was deleted again: next attempt.
        if (caughtCode(error) !== 'EEXIST' && caughtCode(error) !== 'ENOENT') throw error;
      });
    }
  }
}

/**
 * Syncs all of them, including existing ones: another process may have created one a moment ago without syncing it yet.
 * Syncing an unchanged directory costs almost nothing.
 */
async function syncParents(root: string, key: string): Promise<void> {
  let folder = dirname(pathOf(root, key));
  for (; folder.startsWith(root + sep); folder = dirname(folder)) await syncDirectory(folder);
  await syncDirectory(root);
}

/** Removes directories that an object's removal left empty, up to the first non-empty one. */
async function removeEmpty(root: string, start: string): Promise<void> {
  for (let folder = start; folder.startsWith(root + sep); folder = dirname(folder)) {
    try {
      await rmdir(folder);
    } catch {
      return;
    }
  }
}

export async function syncDirectory(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

const DENIED: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EISDIR', 'ELOOP', 'ENAMETOOLONG']);

function toStoreError(what: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const code = caughtCode(error);
  const message = `${what}: ${error instanceof Error ? error.message : String(error)}`;
  if (code === 'ENOENT') return new StoreError('missing', `${what}: there is no such object`, { cause: error });
  return new StoreError(DENIED.has(code) ? 'denied' : 'unreachable', message, { cause: error });
}

/** File system errors show the path that the operator knows. */
function renamed(error: unknown, from: string, to: string): unknown {
  if (error instanceof Error && !(error instanceof StoreError)) error.message = error.message.replaceAll(from, to);
  return error;
}

function ignoreMissing(error: unknown): undefined {
  if (caughtCode(error) !== 'ENOENT') throw error;
}

function noEntries(error: unknown): Dirent[] {
  ignoreMissing(error);
  return [];
}
