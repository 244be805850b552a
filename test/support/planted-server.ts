// The server with a planted bug (src/base/planted-bugs.ts): a copy of the built code in which the environment of the
// process switches one on. Its threads load the same copy, not the bundle.
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PlantedBug } from '../../src/base/planted-bugs.ts';
import { REPO_ROOT } from './paths.ts';

const SWITCH = 'PLANTED_BUG';

/** Environment of a process in which the bug is on. */
export const withBug = (bug: PlantedBug): Readonly<Record<string, string>> => ({ [SWITCH]: bug });

/** Builds it in an empty folder; the result is the program. */
export function plantedServer(folder: string): string {
  const dist = join(folder, 'dist');
  mkdirSync(dist);
  for (const part of ['src', 'workers']) cpSync(join(REPO_ROOT, 'dist', part), join(dist, part), { recursive: true });
  for (const name of ['package.json', 'node_modules']) symlinkSync(join(REPO_ROOT, name), join(folder, name));
  writeFileSync(
    join(dist, 'src', 'base', 'planted.js'),
    `export const planted = (bug) => bug === process.env.${SWITCH};\n`,
  );
  const threads = join(dist, 'src', 'threads', 'entry.js');
  writeFileSync(threads, readFileSync(threads, 'utf8').replace('`../../bundle/${file}`', '`../../workers/${name}.js`'));
  return join(dist, 'src', 'server', 'main.js');
}
