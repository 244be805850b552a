// The cost of a backup for concurrent appends: the same appends at a fixed rate, far from saturation, with and without
// continuous backups, in turns.

import { join } from 'node:path';
import { runPaced } from '../load/paced.ts';
import { createStreams } from '../load/streams.ts';
import { removeFolder } from '../processes.ts';
import { check, type ScenarioReport } from '../report.ts';
import { medianRatio, type LoadResult } from '../stats.ts';
import { backupFolder, fillHot, startBackupNode, type BackupNode } from '../targets/backup-node.ts';
import { millrace } from '../targets/millrace.ts';
import { streamPath } from '../targets/target.ts';
import { alternate, rowsOf, selectTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'backup-load';
const CONNECTIONS = 50;
const RATE = 2_000;
const BODY_BYTES = 256;
const GIB = 2 ** 30;
const GIB_DEFAULT = 0.5;
const GIB_SMOKE = 1 / 64;
const P99_RATIO_MAX = 1.25;
/** Enough appends for a p99 that means something: 200 of 20,000 lie beyond it. */
const DURATION_MS_MIN = 10_000;
const ALONE = 'alone';
const BESIDE = 'beside a backup';

/**
 * Backs up again and again until told to stop; the last one is finished. What was written is removed outside the
 * measured time.
 */
class Repeated {
  bytes = 0;
  seconds = 0;
  count = 0;
  #stopping = false;
  readonly #ended: Promise<void>;

  constructor(node: BackupNode, folder: string, bytes: number) {
    this.#ended = this.#run(node, folder, bytes);
    // Awaited in stop(), and not before.
    this.#ended.catch(() => undefined);
  }

  stop(): Promise<void> {
    this.#stopping = true;
    return this.#ended;
  }

  async #run(node: BackupNode, folder: string, bytes: number): Promise<void> {
    while (!this.#stopping) {
      const location = join(folder, `backup-${this.count++}`);
      const { seconds } = await node.ctl('backup-create', '--location', location);
      this.bytes += bytes;
      this.seconds += seconds;
    }
  }
}

async function measure(context: Context, node: BackupNode, bytes: number): Promise<ScenarioReport> {
  const folder = backupFolder(context.start);
  const paths = Array.from({ length: CONNECTIONS }, (_, i) => streamPath(`paced-${i}`));
  await createStreams(node.port, paths);
  const durationMs = context.smoke ? context.durationMs : Math.max(context.durationMs, DURATION_MS_MIN);
  const load = (ms: number): Promise<LoadResult> =>
    runPaced({ port: node.port, paths, ratePerSecond: RATE, bodyBytes: BODY_BYTES, durationMs: ms });
  await load(context.warmUpMs);
  const before = node.databaseBytes();
  const total = { bytes: 0, seconds: 0, count: 0 };
  const rounds = await alternate(context, [{ name: ALONE }, { name: BESIDE }], async ({ name }, round) => {
    if (name === ALONE) return await load(durationMs);
    const place = join(folder, `round-${round}`);
    const backups = new Repeated(node, place, bytes);
    const result = await load(durationMs);
    await backups.stop();
    removeFolder(place);
    total.bytes += backups.bytes;
    total.seconds += backups.seconds;
    total.count += backups.count;
    return result;
  });
  removeFolder(folder);
  const [alone, beside] = [rounds.get(ALONE), rounds.get(BESIDE)] as [LoadResult[], LoadResult[]];
  const ratio = (pick: (result: LoadResult) => number): number => medianRatio(beside, alone, pick);
  const mib = (size: number): string => (size / 2 ** 20).toFixed(0);
  return {
    scenario: NAME,
    title: `${RATE} appends/s of ${BODY_BYTES} B over ${CONNECTIONS} connections, open loop; ${mib(bytes)} MiB of hot state backed up meanwhile`,
    rateUnit: 'appends/s',
    rows: rowsOf(rounds),
    checks: [
      check(
        'p99, beside a backup / alone',
        ratio((r) => r.p99Ms),
        'x',
        { atMost: P99_RATIO_MAX },
      ),
    ],
    notes: [
      `p50, beside / alone: ${ratio((r) => r.p50Ms).toFixed(2)}x`,
      `p99 of each round, alone: ${listed(alone)}; beside: ${listed(beside)}`,
      `${total.count} backups at ${(total.bytes / total.seconds / 1e6).toFixed(0)} MB/s, the start of the tool included`,
      `LMDB: ${mib(before)} MiB before, ${mib(node.databaseBytes())} MiB after`,
    ],
  };
}

function listed(results: readonly LoadResult[]): string {
  return results.map((result) => result.p99Ms.toFixed(2)).join(' ');
}

async function run(context: Context): Promise<ScenarioReport[]> {
  if (selectTargets(context, NAME, [millrace]).length === 0) return [];
  const bytes = GIB * (context.gib ?? (context.smoke ? GIB_SMOKE : GIB_DEFAULT));
  const node = await startBackupNode(context.start);
  try {
    await fillHot(node, bytes);
    return [await measure(context, node, bytes)];
  } finally {
    await node.stop();
  }
}

export const backupLoad: Scenario = { name: NAME, summary: 'appends at a fixed rate beside a backup', run };
