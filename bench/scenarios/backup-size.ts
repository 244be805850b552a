// How fast a backup of a given number of GiB of hot state is made, verified and restored, and the memory of node and
// tool meanwhile: `npm run bench -- backup-size --gib 10`. The memory must not depend on the size.

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { removeFolder } from '../processes.ts';
import { check, type ScenarioReport } from '../report.ts';
import {
  backupFolder,
  fillHot,
  runToolAlone,
  startBackupNode,
  type BackupNode,
  type ToolRun,
} from '../targets/backup-node.ts';
import { millrace } from '../targets/millrace.ts';
import { selectTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'backup-size';
const GIB = 2 ** 30;
const MIB = 2 ** 20;
const GIB_DEFAULT = 0.25;
const GIB_SMOKE = 1 / 64;
/** Growth over the initial memory: windows, pieces, and uncollected garbage. */
const SERVER_GROWTH_MIB_MAX = 256;
const TOOL_MIB_MAX = 320;

interface Step extends ToolRun {
  readonly name: string;
  /** Memory of the node before, of heap and buffers. */
  readonly before: number;
}

async function stepOf(name: string, node: BackupNode | undefined, run: () => Promise<ToolRun>): Promise<Step> {
  const before = node?.memory().anonymousMiB ?? 0;
  return { name, before, ...(await run()) };
}

function table(bytes: number, steps: readonly Step[]): string[] {
  const mib = (value: number): string => value.toFixed(0).padStart(11);
  return [
    `${'step'.padEnd(14)}${'seconds'.padStart(9)}${'MB/s'.padStart(7)}  tool MiB  node before   node peak  with mapped files`,
    ...steps.map(({ name, seconds, tool, server, before }) => {
      const rate = (bytes / seconds / 1e6).toFixed(0);
      const own =
        server.residentMiB === 0 ? '' : `${mib(before)} ${mib(server.anonymousMiB)} ${mib(server.residentMiB)}`;
      return `${name.padEnd(14)}${seconds.toFixed(1).padStart(9)}${rate.padStart(7)}${tool.anonymousMiB.toFixed(0).padStart(10)}  ${own}`;
    }),
  ];
}

async function measure(context: Context, bytes: number): Promise<ScenarioReport> {
  const location = join(backupFolder(context.start), 'backup');
  const source = await startBackupNode(context.start);
  const steps: Step[] = [];
  let grown = '';
  try {
    const startedMs = performance.now();
    await fillHot(source, bytes);
    const fillS = (performance.now() - startedMs) / 1000;
    const before = source.databaseBytes();
    const create = (): Promise<ToolRun> => source.ctl('backup-create', '--location', location);
    steps.push(await stepOf('backup-create', source, create));
    const after = source.databaseBytes();
    grown = `filled at ${(bytes / fillS / 1e6).toFixed(0)} MB/s; LMDB ${(before / MIB).toFixed(0)} MiB before the backup, ${(after / MIB).toFixed(0)} MiB after`;
  } finally {
    await source.stop();
  }
  const backedUp = readdirSync(location).reduce((sum, name) => sum + statSync(join(location, name)).size, 0);
  const verify = (): Promise<ToolRun> => runToolAlone(context.start, 'backup-verify', '--location', location);
  steps.push(await stepOf('backup-verify', undefined, verify));
  const copy = await startBackupNode(context.start, false);
  try {
    steps.push(await stepOf('restore', copy, () => copy.ctl('restore', '--location', location)));
  } finally {
    await copy.stop();
    removeFolder(location);
  }
  const growth = Math.max(...steps.map(({ server, before }) => server.anonymousMiB - before));
  return {
    scenario: NAME,
    title: `${(bytes / GIB).toFixed(2)} GiB of hot state through a backup and into another node`,
    rateUnit: 'MB/s',
    rows: [],
    checks: [
      check('memory that a node needs on top', growth, ' MiB', { atMost: SERVER_GROWTH_MIB_MAX }),
      check('memory of the tool', Math.max(...steps.map(({ tool }) => tool.anonymousMiB)), ' MiB', {
        atMost: TOOL_MIB_MAX,
      }),
    ],
    notes: [...table(bytes, steps), `${grown}; the backup has ${(backedUp / MIB).toFixed(0)} MiB`],
  };
}

async function run(context: Context): Promise<ScenarioReport[]> {
  if (selectTargets(context, NAME, [millrace]).length === 0) return [];
  return [await measure(context, GIB * (context.gib ?? (context.smoke ? GIB_SMOKE : GIB_DEFAULT)))];
}

export const backupSize: Scenario = {
  name: NAME,
  summary: 'backup, verify and restore of --gib GiB: rate and memory',
  run,
};
