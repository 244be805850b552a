// One version's data directories and backups, packed, and what clients saw of them, in a folder that is never
// written again.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type World, aboutStreams } from '../backup/world.ts';
import { REPO_ROOT } from '../support/paths.ts';

/** The written data, and the answers to clients about it. */
export interface Golden {
  readonly world: World;
  readonly seen: Record<string, unknown>;
  readonly producers: readonly unknown[];
}

export class Archive {
  readonly folder: string;

  constructor(version: string) {
    this.folder = join(REPO_ROOT, 'test', 'upgrade', version);
  }

  read(name: string): Golden {
    return aboutStreams(
      JSON.parse(gunzipSync(readFileSync(join(this.folder, `${name}.json.gz`))).toString()) as Golden,
    );
  }

  write(name: string, golden: Golden): void {
    writeFileSync(join(this.folder, `${name}.json.gz`), gzipSync(JSON.stringify(golden)));
  }

  /** The folder as it was, holes and all. */
  pack(folder: string, name: string): void {
    const file = join(this.folder, `${name}.tar.gz`);
    execFileSync('tar', ['--sparse', '--sort=name', '--exclude=lock.mdb', '-czf', file, '-C', folder, '.']);
  }

  unpack(name: string, folder: string): void {
    mkdirSync(folder, { recursive: true });
    execFileSync('tar', ['-xzf', join(this.folder, `${name}.tar.gz`), '-C', folder]);
  }
}
