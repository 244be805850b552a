/** Reads the source tree; compiled tests run from dist/, which holds no sources. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPO_ROOT } from '../support/paths.ts';

/** Paths from the repository's root with forward slashes. */
export function sourcePaths(folders: readonly string[]): string[] {
  return folders
    .filter((folder) => existsSync(join(REPO_ROOT, folder)))
    .flatMap((folder) =>
      readdirSync(join(REPO_ROOT, folder), { recursive: true, encoding: 'utf8' }).map(
        (path) => `${folder}/${path.replaceAll('\\', '/')}`,
      ),
    )
    .filter((path) => /\.(tsx?|mjs)$/.test(path));
}

export function readText(path: string): string {
  return readFileSync(join(REPO_ROOT, path), 'utf8');
}

export function exists(path: string): boolean {
  return existsSync(join(REPO_ROOT, path));
}
