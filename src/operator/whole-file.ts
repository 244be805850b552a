/** Files of the tool that are replaced whole or not at all. */
import { randomUUID } from 'node:crypto';
import { renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { Failure, reasonOf } from '../nodes/failure.ts';

/** `folder`: makes the folder first, where the file may be the first one in it. Throws Failure. */
export function writeWhole(path: string, text: string, mode: number, folder: () => void = () => undefined): void {
  const part = `${path}.${randomUUID()}.part`;
  try {
    folder();
    writeFileSync(part, text, { mode, flag: 'wx' });
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
