// The benchmark runs in every test run, with tiny parameters, so it cannot rot: most scenarios, and in `npm run check` all
// of them. No figure is asserted.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseOptions } from '../../bench/options.ts';
import { REPO_ROOT } from '../../bench/paths.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { tried } from '../support/tries.ts';
import type { BenchReport } from '../../bench/report.ts';

const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
const MAIN = fileURLToPath(new URL(`../../bench/main.${EXTENSION}`, import.meta.url));
/** Scenario → rows it must have when its tools are installed. appends-500 and subscribers-5000 are others with more connections. */
const ALL_ROWS: Readonly<Record<string, readonly string[]>> = {
  'appends-100': ['millrace', 'reference-file', 'bare', 'redis'],
  sessions: ['millrace', 'millrace, sessions', 'redis'],
  'single-writer': ['millrace', 'reference-file', 'bare', 'redis'],
  'fan-out': ['millrace', 'reference-memory', 'broadcaster'],
  'subscribers-1000': ['millrace', 'broadcaster'],
  replay: ['millrace', 'reference-memory', 'bare'],
  scale: ['200 streams', '2000 streams'],
  'cold-appends': ['cold tier off', 'directory', 'S3 (Ceph)'],
  'cold-replay': ['millrace', 'plain-sdk'],
  'cold-bounded': ['millrace'],
  'backup-load': ['alone', 'beside a backup'],
  cluster: [
    'millrace-cluster',
    'millrace-cluster, sessions',
    'reference-file',
    'etcd',
    'etcd, shared',
    'nats',
    'nats, shared',
  ],
  'large-bodies': ['millrace', 'millrace, alone', 'reference-file', 'disk', 'millrace-cluster'],
};

/** These start what others start as well, here or in the tests of pairs below: in `npm run check` only. */
const CHECKED = [
  ...['appends-100', 'sessions', 'single-writer', 'subscribers-1000', 'backup-load'],
  ...['scale', 'cold-appends', 'cold-replay', 'cold-bounded', 'large-bodies'],
];
const CHECKED_FIGURES = ['backup-size', 'cluster-idle'];
/** Other products run in `npm run check` only. */
const OWN_TARGETS = ['millrace', 'millrace-cluster', 'bare'];
const IS_PEER = /^(reference|redis|etcd|nats|broadcaster)/;
const ROWS = Object.fromEntries(
  Object.entries(ALL_ROWS)
    .filter(([name]) => IS_THOROUGH || !CHECKED.includes(name))
    .map(([name, rows]) => [name, rows.filter((row) => IS_THOROUGH || !IS_PEER.test(row))]),
);

/** Scenario → the target that gets a twin of another build: one of them, and in `npm run check` every one that has pairs. */
const EVERY_PAIR: Readonly<Record<string, string>> = {
  'appends-100': 'millrace',
  'single-writer': 'millrace',
  'fan-out': 'millrace',
  'subscribers-1000': 'millrace',
  replay: 'millrace',
  cluster: 'millrace-cluster',
};
const PAIRED = Object.fromEntries(
  Object.entries(EVERY_PAIR).filter(([scenario]) => IS_THOROUGH || scenario === 'single-writer'),
);

/** Scenario → nodes with a setting, each with the node that it is compared with: half of them in `npm run check` only. */
const EVERY_SETTING: Readonly<Record<string, readonly (readonly [name: string, without: string])[]>> = {
  'appends-100': [
    ['millrace-token', 'millrace'],
    ['millrace-scoped', 'millrace'],
    ['millrace-jwt', 'millrace'],
    ['millrace-limits', 'millrace-scoped'],
  ],
  cluster: [['millrace-cluster-tls', 'millrace-cluster']],
};
const IS_CHECKED_SETTING = /-(token|jwt|tls)$/;
const SETTINGS = Object.entries(EVERY_SETTING)
  .map(
    ([scenario, pairs]) => [scenario, pairs.filter(([name]) => IS_THOROUGH || !IS_CHECKED_SETTING.test(name))] as const,
  )
  .filter(([, pairs]) => pairs.length > 0);

function runBench(args: readonly string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const keep = (chunk: Buffer): void => {
      output += chunk.toString('utf8');
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('close', (code) => resolve({ code, output }));
  });
}

interface Ran {
  readonly report: BenchReport;
  readonly output: string;
}

function checkRows(scenario: string, { report, output }: Ran): void {
  const rows = report.scenarios.filter((one) => one.scenario === scenario).flatMap((one) => one.rows);
  for (const target of ROWS[scenario] ?? []) {
    const program = target.replace(/, shared| \(Ceph\)/, '');
    if (report.notRun.some((line) => line.startsWith(`${scenario}: ${program}: `))) continue;
    const row = rows.find((one) => one.target === target);
    assert.ok(row, `${scenario} has no row for ${target}\n${output}`);
    assert.ok(row.requests > 0 && row.p50Ms > 0, `${scenario} measured nothing for ${target}`);
    assert.equal(row.failed, 0, `${scenario}: ${target}: ${row.failures}`);
  }
}

test('the scenarios run against their targets and clean up after themselves', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'bench-smoke-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const json = join(dir, 'report.json');
  const scenarios = [...Object.keys(ROWS), ...(IS_THOROUGH ? CHECKED_FIGURES : [])];
  const targets = IS_THOROUGH ? [] : ['--targets', OWN_TARGETS.join()];
  const { code, output } = await runBench(['--smoke', ...targets, '--json', json, '--dir', dir, ...scenarios]);
  assert.equal(code, 0, output);
  const report = JSON.parse(readFileSync(json, 'utf8')) as BenchReport;

  // Programs from the system (wrk, redis) may be absent; then the run says so and says what to install.
  const excused = report.notRun.filter((line) => /not installed: apt(-get)? install/.test(line));
  assert.deepEqual(report.notRun, excused, output);
  for (const scenario of Object.keys(ROWS)) {
    if (excused.some((line) => line.startsWith(`${scenario}: wrk`) || line.startsWith(`${scenario}: ceph`))) continue;
    let latest: Ran = { report, output };
    // The load of a benchmark repeats no request, and on a machine that stalls a node
    // may refuse one, or all of a second.
    await tried(
      async () => checkRows(scenario, latest),
      async () => {
        const again = await runBench(['--smoke', ...targets, '--json', json, '--dir', dir, scenario]);
        assert.equal(again.code, 0, again.output);
        latest = { report: JSON.parse(readFileSync(json, 'utf8')) as BenchReport, output: again.output };
      },
    );
  }
  assert.deepEqual(readdirSync(dir), ['report.json'], 'data folders are removed');
  if (!IS_THOROUGH) return;
  const size = report.scenarios.find(({ scenario }) => scenario === 'backup-size');
  assert.equal(size?.checks.length, 2, `memory of node and tool\n${output}`);
  const idle = report.scenarios.find(({ scenario }) => scenario === 'cluster-idle');
  assert.equal(idle?.checks.length, 3, `a figure for each node\n${output}`);
});

test('two builds run in one go and each pair is compared', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'bench-pairs-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const json = join(dir, 'report.json');
  const args = ['--smoke', '--json', json, '--dir', dir, '--before', REPO_ROOT, ...Object.keys(PAIRED)];
  const { code, output } = await runBench(args);
  assert.equal(code, 0, output);
  const report = JSON.parse(readFileSync(json, 'utf8')) as BenchReport;
  const withoutWrk = report.notRun.filter((line) => /: wrk is not installed: apt install/.test(line));
  assert.deepEqual(report.notRun, withoutWrk, output);
  for (const [scenario, target] of Object.entries(PAIRED)) {
    if (withoutWrk.some((line) => line.startsWith(`${scenario}: `))) continue;
    const found = report.scenarios.filter((one) => one.scenario === scenario);
    assert.ok(found.length > 0, `${scenario} has no report\n${output}`);
    for (const { rows, pairs } of found) {
      // A row of sessions has no twin.
      const nodes = rows.map((row) => row.target).filter((name) => !name.includes(','));
      assert.deepEqual(nodes.sort(), [target, `${target}-before`], output);
      const names = pairs?.map(({ now, before }) => [now, before]);
      assert.deepEqual(names, [[target, `${target}-before`]], output);
      assert.ok(
        pairs?.[0]?.figures.some(({ what }) => what === 'rate'),
        output,
      );
    }
  }
});

test('tokens, limits and TLS are paired with a node without them', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'bench-settings-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const json = join(dir, 'report.json');
  const targets = new Set(SETTINGS.flatMap(([, pairs]) => pairs.flat()));
  const scenarios = SETTINGS.map(([scenario]) => scenario);
  await tried(async () => {
    const args = ['--smoke', '--json', json, '--dir', dir, '--targets', [...targets].join(), ...scenarios];
    const { code, output } = await runBench(args);
    assert.equal(code, 0, output);
    const report = JSON.parse(readFileSync(json, 'utf8')) as BenchReport;
    for (const [scenario, expected] of SETTINGS) {
      if (report.notRun.some((line) => line.startsWith(`${scenario}: wrk is not installed`))) continue;
      const found = report.scenarios.find((one) => one.scenario === scenario);
      for (const row of found?.rows ?? []) assert.equal(row.failed, 0, `${row.target}: ${row.failures}`);
      const pairs = found?.pairs?.map(({ now, before }) => [now, before]);
      assert.deepEqual(pairs, expected, output);
    }
  });
  assert.deepEqual(readdirSync(dir), ['report.json'], 'data folders are removed');
});

test('an unknown scenario, target or flag ends with usage and code 2', async () => {
  for (const args of [['no-such-scenario'], ['--targets', 'no-such-target']]) {
    const { code, output } = await runBench(args);
    assert.equal(code, 2, output);
    assert.match(output, /no scenario|no target/);
  }
  for (const args of [['--no-such-flag'], ['--seconds', 'x'], ['--before', 'x']])
    assert.throws(() => parseOptions(args), /Unknown option|must be a number|no build at/, args.join(' '));
});
