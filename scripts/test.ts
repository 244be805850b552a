/**
 * `npm test`, or `npm test -- conformance crash` for the files whose path contains one of the words. Runs the compiled
 * tests with Node's own runner. Paths are listed here because a quoted glob fails on Node 20 and a folder on 22.
 */
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const DIST = fileURLToPath(new URL('..', import.meta.url));

/** Tests of whole server processes under load. They mostly wait, so two run side by side. */
const HEAVY_FOLDERS = ['cluster', 'conformance', 'crash', 'fuzz', 'readme'];

/** Some tests of the official suite count on answers within a few hundred milliseconds: they have the machine to themselves. */
const isAlone = (path: string): boolean => isHeavy(path) && path.endsWith('official.test.js');

/** One file. The slowest (50 crash rounds, the official suite) take a few minutes; one that hangs must not hang CI. */
const FILE_TIMEOUT_MS = 15 * 60_000;

interface Tally {
  readonly ok: boolean;
  readonly counts: Readonly<Record<string, number>>;
}

function testFiles(words: readonly string[]): string[] {
  return readdirSync(join(DIST, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.test.js'))
    .filter((path) => words.length === 0 || words.some((word) => path.includes(word)))
    .sort();
}

const isHeavy = (path: string): boolean => HEAVY_FOLDERS.includes(path.split(/[/\\]/)[0] ?? '');

function runFiles(files: readonly string[], concurrency: number): Promise<Tally> {
  return new Promise((resolve, reject) => {
    const args = [
      '--enable-source-maps',
      '--test',
      '--test-reporter=spec',
      `--test-concurrency=${concurrency}`,
      `--test-timeout=${FILE_TIMEOUT_MS}`,
      ...files.map((path) => relative(process.cwd(), join(DIST, 'test', path))),
    ];
    const color = process.stdout.isTTY ? { FORCE_COLOR: '1' } : {};
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...color },
    });
    const stop = (): void => void child.kill('SIGTERM');
    process.once('SIGTERM', stop);
    let tail = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      process.stdout.write(text);
      // The closing lines fit many times over; a failure's details may push them apart, hence the room.
      tail = (tail + text).slice(-1_000_000);
    });
    child.on('error', reject);
    child.on('close', (status) => {
      process.off('SIGTERM', stop);
      resolve({ ok: status === 0, counts: closingCounts(tail) });
    });
  });
}

/** `ℹ tests 13`, `ℹ pass 13`, ... as the runner prints them once at the end. */
function closingCounts(text: string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const match of text.matchAll(/^\S*ℹ (tests|pass|fail|cancelled|skipped|todo) (\d+)/gm)) {
    counts[match[1] ?? ''] = Number(match[2]);
  }
  return counts;
}

async function main(words: readonly string[]): Promise<number> {
  const files = testFiles(words);
  if (files.length === 0) {
    process.stderr.write(`no test file matches ${words.join(' ')}\n`);
    return 1;
  }
  const phases = [
    { files: files.filter((path) => !isHeavy(path)), concurrency: availableParallelism() },
    { files: files.filter((path) => isHeavy(path) && !isAlone(path)), concurrency: 2 },
    { files: files.filter(isAlone), concurrency: 1 },
  ];
  let ok = true;
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const phase of phases) {
    if (phase.files.length === 0) continue;
    const tally = await runFiles(phase.files, phase.concurrency);
    const count = (name: string): number => tally.counts[name] ?? 0;
    passed += count('pass');
    failed += count('fail') + count('cancelled');
    skipped += count('skipped') + count('todo');
    ok &&= tally.ok;
  }
  // A run that executed nothing proves nothing.
  if (passed + failed === 0) ok = false;
  process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
  return ok ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
