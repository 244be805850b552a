/**
 * Files of the tool that are replaced whole or not at all, and are on disk when it says so. The new text waits beside the
 * file, under a name that only one process can make: of two commands at once one is refused, so no change is lost.
 */
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { caughtCode } from '../base/caught.ts';
import { Failure, reasonOf } from '../nodes/failure.ts';

const OWNER_ONLY = 0o600;
const GROUP_TOO = 0o640;

interface Replacement {
  /** As the caller read the file; empty: it was not there. */
  readonly before: string;
  readonly text: string;
  /** `as-before`: a service reads it too, which is another user than the one who writes it. */
  readonly readers: 'owner' | 'as-before';
  /** Makes the folder, where the file may be the first one in it. */
  readonly makeFolder?: () => void;
}

/** Throws Failure. */
export function replaceFile(path: string, replacement: Replacement): void {
  try {
    replacement.makeFolder?.();
    const file = behindLinks(path);
    replace(file, replacement);
    syncFolder(dirname(file));
  } catch (error) {
    throw new Failure(`${path} cannot be written: ${reasonOf(error)}`);
  }
}

/** A link stays, and the file that it names is replaced. One that names no file is refused. */
function behindLinks(path: string): string {
  const isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  return isThere ? realpathSync(path) : path;
}

function replace(path: string, { before, text, readers }: Replacement): void {
  const next = `${path}.lock`;
  const file = openNext(next);
  try {
    if (textOf(path) !== before) throw new Failure('another command has just changed it; repeat this one');
    writeFileSync(file, text);
    if (readers === 'as-before') letRead(file, path);
    fsyncSync(file);
    renameSync(next, path);
  } catch (error) {
    unlinkSync(next);
    throw error;
  } finally {
    closeSync(file);
  }
}

function openNext(next: string): number {
  try {
    return openSync(next, 'wx', OWNER_ONLY);
  } catch (error) {
    if (caughtCode(error) !== 'EEXIST') throw error;
    throw new Failure(`another command is changing it; repeat this one, and if none is, remove ${next}`);
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (caughtCode(error) === 'ENOENT') return '';
    throw error;
  }
}

/** A new name is on disk once its folder is. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Owner, group and mode are those of the file before. A new one has the group of its folder. */
function letRead(file: number, path: string): void {
  const own = fstatSync(file);
  const before = statSync(path, { throwIfNoEntry: false });
  const { uid, gid, mode } = before ?? { uid: own.uid, gid: statSync(dirname(path)).gid, mode: GROUP_TOO };
  try {
    if (uid !== own.uid || gid !== own.gid) fchownSync(file, uid, gid);
  } catch (error) {
    // In a folder of another group, such as /tmp, a new file is the caller's alone.
    if (before === undefined) return;
    throw new Failure(`owner ${uid} and group ${gid} are to stay, and this user cannot keep them (${reasonOf(error)})`);
  }
  fchmodSync(file, mode & 0o777);
}
