// Trials of a backup that lies somewhere for years: what was changed is refused, by the check and by the restore.
import { cpSync } from 'node:fs';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ctl, scratchFile } from '../support/ctl.ts';
import { createRandom } from '../support/random.ts';
import { TestServer } from '../support/server.ts';
import { look, wantedOf } from './content.ts';
import { type Verdict, ofLooks } from './ending.ts';
import { damage } from './faults.ts';
import { GROUPS, HOT, type Prepared, clusterFile } from './prepared.ts';
import type { Trial } from './trial.ts';

export async function backup(
  trial: Trial,
  prepared: Prepared,
  folder: string,
  note: (did: string) => void,
): Promise<Verdict> {
  await prepared.make('backup');
  const random = createRandom(trial.seed ^ 0xbb);
  const set = join(folder, 'set');
  cpSync(prepared.backup, set, { recursive: true });
  const files = readdirSync(set)
    .sort()
    .map((name) => join(set, name));
  note(damage(files, [], trial.fault, random));
  // An operator may restore at once.
  if (random.chance(0.5)) {
    const refused = await refusalOf(['backup-verify', '--location', set]);
    if (refused !== undefined) return refused;
  }
  const server = new TestServer({ cores: 1, groups: GROUPS });
  try {
    await server.start();
    const config = scratchFile('c.toml', clusterFile(server));
    const refused = await refusalOf(['restore', '--config', config, '--location', set]);
    if (refused !== undefined) return refused;
    return ofLooks([await look(server.port, wantedOf(HOT))]);
  } finally {
    await server.dispose();
  }
}

async function refusalOf(args: readonly string[]): Promise<Verdict | undefined> {
  const { code, stderr } = await ctl(args);
  if (code === 0) return undefined;
  const sentence = stderr.split('\n').find((line) => line.startsWith('millracectl: '));
  if (sentence !== undefined && !/^\s+at /m.test(stderr)) return { ending: 'refused', why: sentence };
  return { ending: 'BAD', why: `${args[0]}: ${stderr.slice(-600)}` };
}
