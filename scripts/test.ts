/**
 * `npm test`, or `npm test -- conformance crash` for the files whose path contains one of the words. Runs the compiled
 * tests with Node's own runner through its API, because `node --test` sorts the files that it is given by name, and a
 * slow one that starts last keeps one core busy while the others wait.
 */
import { setMaxListeners } from 'node:events';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import process from 'node:process';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';

const TESTS = fileURLToPath(new URL('../test', import.meta.url));

/**
 * Some tests of the official suite count on answers within a few hundred milliseconds: they have the machine to
 * themselves.
 */
const isAlone = (path: string): boolean => path.endsWith('official.test.js');

/**
 * These start first, in this order; all others follow by name. The end of a run names the slowest files, so this list
 * can be kept right; nothing depends on it but the time that the whole takes.
 */
const SLOWEST: readonly string[] = [
  'sim/sim',
  'packaging/node-versions',
  'crash/older-shard',
  'cluster/cold',
  'bench/smoke',
  'crash/sigkill',
  'cluster/faults',
  'cluster/identity',
  'cluster/forks',
  'cluster/operator',
  'cluster/snapshot',
  'cluster/rolling-restart',
  'http/live/races',
  'backup/interrupted',
  'readme/operating',
  'backup/ctl',
  'backup/cluster',
  'cluster/membership',
  'cluster/upgrade',
  'subscriptions/server',
  'cold/compaction',
  'sim/mutants',
  'cluster/reads',
  'conformance/tiers',
  'cluster/partitions',
  'crash/graceful-stop',
  'cluster/half-down',
  'cluster/egress',
  'cluster/failover',
  'fuzz/http',
  'upgrade/golden',
  'cluster/members',
  'cluster/cold-health',
  'server/private-files',
  'backup/adopt',
  'crash/disk-full',
  'cluster/full-disk',
  'crash/log-damage',
  'crash/power-loss',
  'packaging/debian',
  'packaging/tarball',
  'packaging/pods',
  'console/browser',
  'operator/monitoring',
  'cluster/absent',
  'sim/mutations',
  'cold/cluster',
  'operator/tenants',
  'cluster/replication',
  'cluster/subscriptions',
  'backup/http',
  'sim/backup/mutants',
  'cold/directory',
  'stream/differential',
  'cluster/purge',
  'conformance/bucketed-read',
  'cluster/thin-links',
  'cold/reads',
  'readme/backup',
  'cluster/snapshot-behind',
  'backup/export/slow-reader',
  'crash/many-streams',
].map((name) => `${name}.test.js`);

/**
 * Beyond the number of cores, because tests of whole server processes mostly wait: for elections, leases, the disk. One
 * more keeps two cores busy; a large machine gets no more servers side by side than its disk can take.
 */
const WAITING = 1;
const SIDE_BY_SIDE_MAX = 8;

/** One file. The slowest take a minute or two; one that hangs must not hang CI. */
const FILE_TIMEOUT_MS = 15 * 60_000;
const NAMED_AS_SLOW = 12;

interface Tally {
  readonly counts: Readonly<Record<string, number>>;
  /** Of each file, from its start to its end. */
  readonly seconds: ReadonlyMap<string, number>;
}

function testFiles(words: readonly string[]): string[] {
  const all = readdirSync(TESTS, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.test.js'));
  const strangers = SLOWEST.filter((path) => !all.includes(path));
  if (strangers.length > 0) throw new Error(`scripts/test.ts names files that do not exist: ${strangers.join(' ')}`);
  const place = (path: string): number => (SLOWEST.indexOf(path) + SLOWEST.length + 1) % (SLOWEST.length + 1);
  return all
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
    .sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
}

async function runFiles(paths: readonly string[], concurrency: number, signal: AbortSignal): Promise<Tally> {
  const files = paths.map((path) => join(TESTS, path));
  const stream = run({ files, concurrency, timeout: FILE_TIMEOUT_MS, signal });
  const counts: Record<string, number> = {};
  const startedMs = new Map<string, number>();
  const seconds = new Map<string, number>();
  // A file is a test like those in it, and has its path for a name.
  stream.on('test:dequeue', ({ name }) => {
    if (files.includes(name)) startedMs.set(name, performance.now());
  });
  // Node 20 has this event; its types do not.
  stream.on('test:complete' as 'test:dequeue', ({ name }) => {
    const since = startedMs.get(name);
    if (since !== undefined) seconds.set(relative(TESTS, name), (performance.now() - since) / 1000);
  });
  // `pass 12`, `fail 0`, ... once at the end.
  stream.on('test:diagnostic', ({ message, nesting }) => {
    const match = /^(pass|fail|cancelled|skipped|todo) (\d+)$/.exec(message);
    if (nesting === 0 && match !== null) counts[match[1] as string] = Number(match[2]);
  });
  for await (const text of stream.compose(new spec())) process.stdout.write(String(text));
  return { counts, seconds };
}

async function main(words: readonly string[]): Promise<number> {
  const files = testFiles(words);
  if (files.length === 0) {
    process.stderr.write(`no test file matches ${words.join(' ')}\n`);
    return 1;
  }
  // Handed on to the process of each file; not by the environment, which servers under test would inherit.
  process.execArgv.push('--enable-source-maps');
  const stop = new AbortController();
  // Every file that runs listens to it.
  setMaxListeners(0, stop.signal);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  const phases = [
    {
      files: files.filter((path) => !isAlone(path)),
      concurrency: Math.max(availableParallelism(), Math.min(availableParallelism() + WAITING, SIDE_BY_SIDE_MAX)),
    },
    { files: files.filter(isAlone), concurrency: 1 },
  ];
  const total = { pass: 0, fail: 0, skipped: 0 };
  const slowest: [path: string, seconds: number][] = [];
  for (const phase of phases) {
    if (phase.files.length === 0 || stop.signal.aborted) continue;
    const { counts, seconds } = await runFiles(phase.files, phase.concurrency, stop.signal);
    const count = (name: string): number => counts[name] ?? 0;
    total.pass += count('pass');
    total.fail += count('fail') + count('cancelled');
    total.skipped += count('skipped') + count('todo');
    slowest.push(...seconds);
  }
  slowest.sort(([, a], [, b]) => b - a);
  const named = slowest.slice(0, NAMED_AS_SLOW).map(([path, s]) => `${path.replace('.test.js', '')} ${s.toFixed(0)} s`);
  if (files.length > NAMED_AS_SLOW) process.stdout.write(`\nslowest: ${named.join(', ')}\n`);
  const { pass, fail, skipped } = total;
  process.stdout.write(`\n${pass} passed, ${fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
  // A run that executed nothing, or not all, proves nothing.
  return fail === 0 && pass > 0 && !stop.signal.aborted ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
