// The runner of this suite (scripts/suite), over folders of small tests: one that fails once, one that
// always does, one that hangs, a process that ends itself.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Costs, writeCostTable, writeCosts } from '../../scripts/suite/costs.ts';
import { planRun } from '../../scripts/suite/plan.ts';
import { SharedFiles } from '../../scripts/suite/sharing.ts';
import { type Verdict, runSuite } from '../../scripts/suite/suite.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { until } from '../support/until.ts';

const PASSES = `test('passes', () => {});`;
const FAILS = `test('parent', async (t) => { await t.test('always fails', () => { throw new Error('no'); }); });`;
const SKIPS = `test('is left out', { skip: 'why' }, () => {}); ${PASSES}`;
const HANGS = `test('hangs', async () => { setInterval(() => {}, 1000); await new Promise(() => {}); });`;
/** Keeps a file out of shared processes. */
const OWN_PROCESS = `export const used = () => process.memoryUsage();`;
/** Fails unless it has been there before. */
const flaky = (title: string): string => `
import { existsSync, writeFileSync } from 'node:fs';
test('${title}', () => {
  const mark = new URL('./${title}.mark', import.meta.url);
  const isSecond = existsSync(mark);
  writeFileSync(mark, '');
  if (!isSecond) throw new Error('only once');
});`;

interface Ran extends Verdict {
  readonly said: string;
}

function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [path, code] of Object.entries(files)) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `import { test } from 'node:test';\n${code}`);
  }
}

interface Run {
  readonly flakyMax?: number;
  /** Bound of a file; a hang that is meant, so it need not be long. */
  readonly timeoutMs?: number;
  readonly isQuick?: boolean;
  readonly costs?: Costs;
}

async function run(t: TestContext, files: Readonly<Record<string, string>>, options: Run = {}): Promise<Ran> {
  const folder = temporaryFolder('runner');
  t.after(() => removeFolder(folder));
  const [tests, scratch] = [join(folder, 'tests'), join(folder, 'scratch')];
  mkdirSync(scratch, { recursive: true });
  write(tests, files);
  writeFileSync(join(tests, 'package.json'), '{"type":"module"}');
  let said = '';
  const { flakyMax = 3, timeoutMs = 120_000, isQuick = false, costs = new Costs() } = options;
  const verdict = await runSuite({
    place: { tests, scratch },
    units: planRun(tests, { words: [], isQuick }, costs, timeoutMs),
    cores: 2,
    flakyMax,
    signal: new AbortController().signal,
    write: (text) => (said += text),
  });
  return { ...verdict, said };
}

/**
 * A child that nothing waits for stays as a zombie where the first process of a container does not look after orphans.
 */
function isRunning(pid: string): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

const lastLine = (said: string): string => said.trimEnd().split('\n').at(-1) ?? '';

test('what passes is counted, and its outputs are not kept', async (t) => {
  const { isGood, said, results } = await run(t, { 'a/one.test.js': PASSES, 'b/two.test.js': SKIPS + OWN_PROCESS });
  assert.equal(lastLine(said), '2 passed, 0 failed, 1 skipped');
  assert(isGood);
  assert.deepEqual([...results.keys()].sort(), ['a/one.test.js', 'b/two.test.js']);
});

test('a file that fails once is flaky: it counts as passed, and both outputs are there', async (t) => {
  for (const more of ['', OWN_PROCESS]) {
    const { isGood, said } = await run(t, { 'a.test.js': flaky('sometimes') + more, 'b.test.js': PASSES });
    assert(isGood, said);
    assert.equal(lastLine(said), '2 passed, 0 failed');
    const [, first = '', second = ''] = /^flaky: a › sometimes \((\S+), (\S+)\)$/m.exec(said) ?? [];
    assert.match(readFileSync(first, 'utf8'), /only once/);
    assert.match(readFileSync(second, 'utf8'), /✔ sometimes/);
  }
});

test('a strict run takes no flaky file', async (t) => {
  const { isGood, said } = await run(t, { 'a.test.js': flaky('sometimes') }, { flakyMax: 0 });
  assert(!isGood);
  assert.match(said, /^flaky: a › sometimes /m);
  assert.match(said, /^flaky files: 1, allowed: 0$/m);
});

test('three flaky files are endured, four are not', async (t) => {
  const files = Object.fromEntries([1, 2, 3, 4].map((n) => [`f${n}.test.js`, flaky(`flaky${n}`)] as const));
  const four = await run(t, files);
  assert(!four.isGood);
  assert.equal([...four.said.matchAll(/^flaky: /gm)].length, 4);
  assert.equal(lastLine(four.said), '4 passed, 0 failed');
  const { 'f4.test.js': _, ...three } = files;
  assert((await run(t, three)).isGood);
});

test('a file that fails twice has failed, by the names of its own tests', async (t) => {
  const { isGood, said } = await run(t, { 'a.test.js': FAILS, 'b.test.js': PASSES });
  assert(!isGood);
  assert.equal(lastLine(said), '1 passed, 1 failed');
  assert.match(said, /^failed: a › always fails$/m);
  assert.doesNotMatch(said, /^flaky/m);
});

test('an error outside the calls of its test fails the file, and the second run names the test', async (t) => {
  const late = `test('fails later', async () => {
  setTimeout(() => { throw new Error('later'); }, 1);
  await new Promise((resolve) => setTimeout(resolve, 50));
});`;
  for (const more of ['', OWN_PROCESS]) {
    const { isGood, said } = await run(t, { 'a.test.js': late + more, 'b.test.js': PASSES });
    assert(!isGood);
    assert.match(said, /the process ended with exit code 1$/m);
    assert.match(said, /^failed: a › fails later$/m);
    assert.equal(lastLine(said), '1 passed, 1 failed');
  }
});

test('a file that hangs is ended with what it started, and has failed', async (t) => {
  const child = `
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
writeFileSync(new URL('./pid', import.meta.url), String(child.pid));`;
  const folder = temporaryFolder('runner-pid');
  t.after(() => removeFolder(folder));
  const file = join(folder, 'pid');
  const code = child.replace("new URL('./pid', import.meta.url)", JSON.stringify(file)) + HANGS;
  const { isGood, said } = await run(
    t,
    { 'a.test.js': code, 'b.test.js': PASSES },
    {
      timeoutMs: 3000,
      costs: new Costs({ a: [0.1, 0.1] }),
    },
  );
  assert(!isGood);
  assert.match(said, /^a: the process took more than 3 s$/m);
  assert.equal(lastLine(said), '1 passed, 1 failed');
  const pid = readFileSync(file, 'utf8');
  await until('its child has ended', () => !isRunning(pid));
});

test('a process that ends by itself has failed, however its tests did', async (t) => {
  const { isGood, said } = await run(t, {
    'a.test.js': `${OWN_PROCESS} ${PASSES} process.on('exit', () => process.exit(7));`,
  });
  assert(!isGood);
  assert.match(said, /^failed: a › \(it ended with exit code 7\)$/m);
});

test('a file whose outputs are removed while it runs has failed, and the run goes on', async (t) => {
  const remove = `rmSync(new URL('../scratch', import.meta.url), { recursive: true, force: true });`;
  const always = `import { rmSync } from 'node:fs'; test('cleans up', () => { ${remove} }); ${OWN_PROCESS}`;
  const once = flaky('cleans')
    .replace(`throw new Error('only once')`, remove)
    .replace('existsSync', 'rmSync, existsSync');
  const costs = new Costs({ a: [9, 9] });
  // Two run side by side, so the other one may lose its outputs as well; alone it has them.
  const twice = await run(t, { 'a.test.js': once + OWN_PROCESS, 'b.test.js': PASSES + OWN_PROCESS }, { costs });
  assert(twice.isGood, twice.said);
  assert.match(twice.said, /^flaky: a › \(it lost its results: \S+ was removed while it ran\) /m);
  assert.equal(lastLine(twice.said), '2 passed, 0 failed');
  const never = await run(t, { 'a.test.js': always, 'b.test.js': PASSES }, { costs });
  assert(!never.isGood);
  assert.match(never.said, /^failed: a › \(it lost its results: \S+ was removed while it ran\)$/m);
  assert.equal(lastLine(never.said), '1 passed, 1 failed');
});

test('files that share a process run alone when the process ends, and the end counts as flaky', async (t) => {
  const kill = `test('ends the process', () => { if (process.argv.length > 3) process.kill(process.pid, 'SIGKILL'); });`;
  const { isGood, said } = await run(t, { 'a.test.js': PASSES, 'b.test.js': kill, 'c.test.js': PASSES });
  assert(isGood, said);
  assert.match(said, /^flaky: pure\/1 › the process was killed by SIGKILL/m);
  assert.equal(lastLine(said), '3 passed, 0 failed');
});

test('files share a process that are pure, and those that start nodes', (t) => {
  const folder = temporaryFolder('sharing');
  t.after(() => removeFolder(folder));
  const server = `import '../support/server.js';`;
  const files: Readonly<Record<string, string>> = {
    pure: `import { a } from './helper.js';`,
    starts: `import './starts.js';`,
    environment: `process.env['A'] = 'b';`,
    reads: `const seed = process.env['SEED'];`,
    mocks: `test('x', (t) => t.mock.method(console, 'log'));`,
    nodes: server,
    blocks: `${server} import { spawnSync } from 'node:child_process';`,
    helper: `${server} import './measures.js';`,
    plants: `import './hooks/load.js';`,
  };
  write(folder, {
    'support/server.js': `import 'node:net';`,
    'room/helper.js': 'export const a = 1;',
    'room/starts.js': `import 'node:child_process';`,
    'room/measures.js': OWN_PROCESS,
    'room/hooks/load.js': `import { register } from 'node:module';`,
    ...Object.fromEntries(Object.entries(files).map(([name, code]) => [`room/${name}.test.js`, code] as const)),
  });
  const shared = new SharedFiles();
  const found = Object.keys(files).map((name) => [name, shared.sharingOf(join(folder, `room/${name}.test.js`))]);
  assert.deepEqual(
    found.filter(([, how]) => how !== undefined),
    [
      ['pure', 'pure'],
      ['starts', 'nodes'],
      ['reads', 'pure'],
      ['nodes', 'nodes'],
    ],
  );
});

test('a quick run leaves out what is known to take long', async (t) => {
  const files = { 'slow.test.js': PASSES + OWN_PROCESS, 'fast.test.js': PASSES + OWN_PROCESS, 'pure.test.js': PASSES };
  const costs = new Costs({ slow: [60, 60], fast: [0.5, 0.5] });
  const { said, results } = await run(t, files, { isQuick: true, costs });
  assert.deepEqual([...results.keys()].sort(), ['fast.test.js', 'pure.test.js']);
  assert.equal(lastLine(said), '2 passed, 0 failed');
});

test('a suite in a shared process costs what its tests take', async (t) => {
  const suite = "import { describe } from 'node:test'; describe('suite', () => { test('inside', () => {}); });";
  const { said, results } = await run(t, { 'a.test.js': PASSES, 'b.test.js': suite });
  assert.equal(lastLine(said), '2 passed, 0 failed');
  assert((results.get('b.test.js')?.seconds ?? 0) > 0);
});

test('tests that a helper makes count for the files that ask for them', async (t) => {
  const files = {
    'helper.js':
      "import { describe } from 'node:test'; export const made = () => describe('suite', () => { test('inside', () => {}); });",
    ...Object.fromEntries(
      ['a', 'b', 'c'].map((name) => [`${name}.test.js`, "import { made } from './helper.js'; made();"]),
    ),
  };
  const { said, results } = await run(t, files);
  assert.equal(lastLine(said), '3 passed, 0 failed');
  for (const [file, { passed, seconds }] of results)
    assert(passed === 1 && seconds > 0, `${file}: ${passed}, ${seconds} s`);
});

test('costs are written for later runs and for readers', async (t) => {
  const { results } = await run(t, {
    'a/one.test.js': PASSES,
    'a/two.test.js': SKIPS,
    'b/c/three.test.js': OWN_PROCESS + PASSES,
  });
  const folder = temporaryFolder('costs');
  t.after(() => removeFolder(folder));
  const [table, page] = [join(folder, 'costs.json'), join(folder, 'README.md')];
  writeCosts(table, results);
  assert.match(readFileSync(table, 'utf8'), /"b\/c\/three": \[[\d.]+, [\d.]+\]/);
  assert.equal(Costs.read(join(folder, 'none')).secondsOf('a/one.test.js'), new Costs().secondsOf('x'));
  writeFileSync(page, 'before\n<!-- costs: written by npm test -- --costs -->\nstale\n<!-- end of costs -->\nafter\n');
  const dearly = [...results].map(
    ([file, one]) => [file, { ...one, cpuSeconds: file.startsWith('a/') ? 2 : 0.1 }] as const,
  );
  writeCostTable(page, new Map(dearly));
  const text = readFileSync(page, 'utf8');
  assert.match(
    text,
    /^before\n[\s\S]*\| `a` \| 2 \| 3 \| [\s\S]*\| others \| 1 \| 1 \| [\s\S]*\| all \| 3 \| 4 \| [\s\S]*\nafter\n$/,
  );
  assert.doesNotMatch(text, /stale/);
});
