import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { REPO_ROOT } from '../support/paths.ts';

/**
 * One planted fault for each rule that this project leans on; `npm run check` applies the same file to the real tree.
 */
const PLANTED: Readonly<Record<string, string>> = {
  'src/raft/a.ts': `import { b } from './b.ts';
import { readFileSync } from 'node:fs';
export const a = (): number => Date.now() + b() + readFileSync.length;
export function pick(x: 'p' | 'q'): number {
  switch (x) {
    case 'p':
      return 1;
  }
  return 2;
}
`,
  'src/raft/b.ts': `import { a } from './a.ts';
export const b = (): number => a();
export const any = (x: any): unknown => x;
`,
  'src/http/long.ts': `export function long(): number {\n  let x = 0;\n${'  x += 1;\n'.repeat(70)}  return x;\n}\n`,
  'src/http/floating.ts': `export async function f(): Promise<void> {}\nf();\nconsole.log('x');\n`,
};

const RULES = [
  'no-floating-promises',
  'switch-exhaustiveness-check',
  'no-explicit-any',
  'no-cycle',
  'max-lines-per-function',
  'no-restricted-globals',
  'no-restricted-imports',
  'no-console',
];

test('the linter finds a planted fault for each rule', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-lint-'));
  t.after(() => rmSync(folder, { recursive: true }));
  // Paths in the extended file are its own, hence rootDir and types again.
  const compilerOptions = { rootDir: '.', types: [] };
  const tsconfig = { extends: join(REPO_ROOT, 'tsconfig.json'), compilerOptions, include: ['src'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
  for (const [path, text] of Object.entries(PLANTED)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const config = join(REPO_ROOT, 'scripts', 'oxlint.json');
  const oxlint = join(REPO_ROOT, 'node_modules', '.bin', 'oxlint');
  const { status, stdout } = spawnSync(oxlint, ['-c', config, '--type-aware', 'src'], {
    cwd: folder,
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  for (const rule of RULES) assert.ok(stdout.includes(`(${rule})`), `${rule} was not reported:\n${stdout}`);
});
