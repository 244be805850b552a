// Where things are. The compiled benchmark runs from dist/bench, but Lua scripts are not compiled: they stay in the
// source tree, so both places lead to the repository root first.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function findRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    assert(parent !== folder, 'no package.json above the benchmark: run it inside the repository');
    folder = parent;
  }
  return folder;
}

export const REPO_ROOT: string = findRoot();

/** A file that is not compiled (Lua), relative to the repository root. */
export function sourceFile(...parts: string[]): string {
  return join(REPO_ROOT, ...parts);
}

/** A module of the same folder to be run as a separate process: `.ts` from source, `.js` from dist. */
export function siblingModule(importMetaUrl: string, name: string): string {
  const extension = importMetaUrl.endsWith('.ts') ? '.ts' : '.js';
  return fileURLToPath(new URL(`./${name}${extension}`, importMetaUrl));
}
