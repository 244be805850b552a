// The benchmark: `npm run bench`. Without arguments it runs the canonical set; everything it needs it starts itself,
// on 127.0.0.1, and removes again.

import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeMachine, fileSystemOf, machineLine } from './machine.ts';
import { HELP_FLAGS, parseOptions, type Options } from './options.ts';
import { REPO_ROOT } from './paths.ts';
import { removeFolder, temporaryFolder } from './processes.ts';
import { renderProfiles } from './profile.ts';
import { renderScenario, type BenchReport, type ScenarioReport } from './report.ts';
import { appends100, appends500 } from './scenarios/appends.ts';
import { backupLoad } from './scenarios/backup-load.ts';
import { backupSize } from './scenarios/backup-size.ts';
import { clusterIdle } from './scenarios/cluster-idle.ts';
import { cluster } from './scenarios/cluster.ts';
import { coldAppends } from './scenarios/cold-appends.ts';
import { coldBounded } from './scenarios/cold-bounded.ts';
import { coldReplay } from './scenarios/cold-replay.ts';
import { fairness } from './scenarios/fairness.ts';
import { fanOut, subscribers1000, subscribers5000 } from './scenarios/fan-out.ts';
import { largeBodies } from './scenarios/large-bodies.ts';
import { replay } from './scenarios/replay.ts';
import { scale } from './scenarios/scale.ts';
import type { Context, Scenario } from './scenarios/scenario.ts';
import { sessions } from './scenarios/sessions.ts';
import { singleWriter } from './scenarios/single-writer.ts';
import { slowDisk } from './scenarios/slow-disk.ts';
import { bare, broadcaster } from './targets/bare.ts';
import { etcd } from './targets/etcd.ts';
import { TOKEN_TARGETS, millraceLimits } from './targets/millrace-access.ts';
import { millraceCluster, millraceClusterBefore, millraceClusterTls } from './targets/millrace-cluster.ts';
import { millrace, millraceBefore } from './targets/millrace.ts';
import { nats } from './targets/nats.ts';
import { redis } from './targets/redis.ts';
import { referenceFile, referenceMemory } from './targets/reference.ts';
import type { Target } from './targets/target.ts';

const SCENARIOS: readonly Scenario[] = [
  appends100,
  appends500,
  sessions,
  singleWriter,
  slowDisk,
  fanOut,
  subscribers1000,
  subscribers5000,
  replay,
  scale,
  fairness,
  cluster,
  clusterIdle,
  largeBodies,
  coldAppends,
  coldReplay,
  coldBounded,
  backupLoad,
  backupSize,
];
const TARGETS: readonly Target[] = [
  millrace,
  millraceBefore,
  ...TOKEN_TARGETS,
  millraceLimits,
  referenceFile,
  referenceMemory,
  bare,
  broadcaster,
  redis,
  millraceCluster,
  millraceClusterBefore,
  millraceClusterTls,
  etcd,
  nats,
];

const SECONDS_DEFAULT = 4;
const ROUNDS_DEFAULT = 3;
const WARM_UP_MS = 1_500;

function help(): string {
  const scenarios = SCENARIOS.map(({ name, summary }) => `  ${name.padEnd(16)} ${summary}`).join('\n');
  return `usage: npm run bench -- [scenario...] [flags]\n\nscenarios (all by default):\n${scenarios}\n\n${HELP_FLAGS}`;
}

/** Durable figures need a disk: a temporary folder in memory is no place for them. */
function defaultDir(): string {
  if (fileSystemOf(tmpdir()) !== 'tmpfs') return tmpdir();
  const dir = join(REPO_ROOT, 'data');
  mkdirSync(dir, { recursive: true });
  return dir;
}

function selectScenarios(options: Options): Scenario[] {
  const wanted = options.scenarios.length === 0 && options.profile ? ['appends-100'] : options.scenarios;
  for (const name of wanted) {
    if (!SCENARIOS.some((scenario) => scenario.name === name)) throw new Error(`no scenario ${name}\n\n${help()}`);
  }
  for (const name of options.targets ?? []) {
    if (!TARGETS.some((target) => target.name === name)) throw new Error(`no target ${name}\n\n${help()}`);
  }
  return SCENARIOS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
}

function wantedTargets({ profile, targets, before }: Options): ReadonlySet<string> | undefined {
  if (profile) return new Set(['millrace', 'millrace-cluster']);
  const builds = TARGETS.filter(({ name, isExtra }) => name.startsWith('millrace') && !isExtra);
  return targets ?? (before === undefined ? undefined : new Set(builds.map(({ name }) => name)));
}

function contextOf(options: Options, dir: string, profileDir: string, notRun: string[]): Context {
  const interactive = process.stderr.isTTY;
  return {
    smoke: options.smoke,
    durationMs: (options.seconds ?? (options.smoke ? 0.2 : SECONDS_DEFAULT)) * 1000,
    warmUpMs: options.smoke ? 20 : WARM_UP_MS,
    rounds: options.rounds ?? (options.smoke || options.profile ? 1 : ROUNDS_DEFAULT),
    gib: options.gib,
    start: {
      dir,
      cpus: options.serverCpus,
      cores: options.cores ?? Math.max(1, availableParallelism() - 1),
      nodeArgs: options.profile ? ['--cpu-prof', `--cpu-prof-dir=${profileDir}`] : [],
      entry: options.server ?? join(REPO_ROOT, 'dist', 'main.js'),
      before: options.before,
    },
    load: {
      cpus: options.loadCpus,
      threads: options.loadThreads ?? Math.max(1, availableParallelism() >> 2),
    },
    only: wantedTargets(options),
    say: (line) => {
      if (interactive) process.stderr.write(`\r\x1b[K${line}`);
    },
    notRun: (line) => {
      notRun.push(line);
      console.log(`not run: ${line}`);
    },
  };
}

async function main(): Promise<number> {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(help());
    return 0;
  }
  const scenarios = selectScenarios(options);
  const parent = options.dir ?? defaultDir();
  mkdirSync(parent, { recursive: true });
  const dir = temporaryFolder(parent, 'run');
  const profileDir = options.profileDir ?? join(dir, 'profiles');
  const notRun: string[] = [];
  const context = contextOf(options, dir, profileDir, notRun);
  const machine = describeMachine(dir);
  const offered = TARGETS.filter(({ isBefore }) => !isBefore || options.before !== undefined);
  const durability = Object.fromEntries(offered.map(({ name, durability: promise }) => [name, promise]));
  console.log(machineLine(machine));
  if (options.smoke) console.log('smoke run: the parameters are tiny, the figures and goals mean nothing');
  if (machine.fileSystem === 'tmpfs')
    console.log('warning: data is in memory, so durable figures mean nothing (--dir)');
  for (const [name, promise] of Object.entries(durability)) console.log(`  ${name.padEnd(24)} ${promise}`);

  const startedAt = new Date().toISOString();
  const reports: ScenarioReport[] = [];
  let failed = false;
  for (const scenario of scenarios) {
    try {
      for (const report of await scenario.run(context)) {
        if (report.rows.length === 0 && report.checks.length === 0) continue;
        reports.push(report);
        context.say('');
        console.log(renderScenario(report));
      }
    } catch (error) {
      // One broken scenario must not hide the figures of the others.
      failed = true;
      notRun.push(`${scenario.name}: ${String(error)}`);
      console.error(`\n${scenario.name} failed:`, error);
    }
  }
  if (options.profile) console.log(renderProfiles(profileDir));
  if (options.json !== undefined) {
    const report: BenchReport = {
      machine,
      startedAt,
      arguments: process.argv.slice(2),
      durability,
      scenarios: reports,
      notRun,
    };
    writeFileSync(options.json, `${JSON.stringify(report, undefined, 2)}\n`);
  }
  removeFolder(dir);
  return failed ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
