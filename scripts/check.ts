/**
 * `npm run check`: everything that has to hold before a change lands. All steps run, so that one pass shows all faults.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SOURCES = ['src', 'workers', 'bench', 'test', 'scripts'].filter((folder) => existsSync(join(ROOT, folder)));

interface Step {
  readonly name: string;
  /** A file of node_modules/.bin or dist/, and its arguments. */
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const bin = (name: string): string => join(ROOT, 'node_modules', '.bin', name);
const script = (path: string): readonly string[] => [process.execPath, join(ROOT, 'dist', path)];

// `npm run check` has built dist/ before it comes here, so tsc has passed. The import rules are tests (test/tidy).
const STEPS: readonly Step[] = [
  {
    name: 'format',
    command: [bin('oxfmt'), '-c', 'scripts/oxfmt.json', '--check', ...SOURCES, '!**/*.md', '!**/openapi.json'],
  },
  {
    name: 'lint',
    command: [bin('oxlint'), '-c', 'scripts/oxlint.json', '--type-aware', '--deny-warnings', ...SOURCES],
  },
  { name: 'dead code', command: [bin('knip'), '-c', 'scripts/knip.json'] },
  { name: 'dead code in production', command: [bin('knip'), '-c', 'scripts/knip.json', '--production'] },
  { name: 'tests', command: [...script('scripts/test.js'), '--strict'], env: { THOROUGH: '1' } },
  ...(existsSync(join(ROOT, 'dist/test/sim/main.js'))
    ? [
        { name: 'simulation', command: script('test/sim/main.js') },
        { name: 'planted bugs', command: [...script('test/sim/main.js'), '--mutations'] },
      ]
    : []),
];

let failures = 0;
const summary: string[] = [];
for (const { name, command, env } of STEPS) {
  process.stdout.write(`\n== ${name}\n`);
  const startMs = performance.now();
  const [file = '', ...args] = command;
  const { status } = spawnSync(file, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } });
  if (status !== 0) failures++;
  summary.push(
    `${status === 0 ? 'ok    ' : 'FAILED'} ${name} (${((performance.now() - startMs) / 1000).toFixed(1)} s)`,
  );
}
process.stdout.write(`\n${summary.join('\n')}\n`);
process.exitCode = failures === 0 ? 0 : 1;
