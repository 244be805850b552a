// Where things are. Compiled tests run from dist/test, but the vitest entry, lists of names and README are not
// compiled: they stay in the source tree, so the way leads over the repository root.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function findRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    assert(parent !== folder, 'no package.json above the test: run it inside the repository');
    folder = parent;
  }
  return folder;
}

export const REPO_ROOT: string = findRoot();

/** `npm start` runs this. */
export const SERVER_ENTRY: string = join(REPO_ROOT, 'dist', 'main.js');

/** The program itself: the file above asks whether this Node will do, and loads it. */
export const SERVER_BUNDLE: string = join(REPO_ROOT, 'dist', 'bundle', 'start-main.cjs');
