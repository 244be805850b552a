/** Files of the tool that are replaced whole or not at all. */
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  openSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { Failure, reasonOf } from '../nodes/failure.ts';

const OWNER_ONLY = 0o600;
const GROUP_TOO = 0o640;

/** `as-before`: a service reads it too, which is another user than the one who writes it. */
export type Readers = 'owner' | 'as-before';

/** `folder`: makes the folder first, where the file may be the first one in it. Throws Failure. */
export function writeWhole(path: string, text: string, readers: Readers, folder: () => void = () => undefined): void {
  const part = `${path}.${randomUUID()}.part`;
  try {
    folder();
    const file = openSync(part, 'wx', OWNER_ONLY);
    try {
      writeFileSync(file, text);
      if (readers === 'as-before') letRead(file, path);
    } finally {
      closeSync(file);
    }
    renameSync(part, path);
  } catch (error) {
    try {
      unlinkSync(part);
    } catch {
      // It was never made.
    }
    throw new Failure(`${path} cannot be written: ${reasonOf(error)}`);
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
