import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cycles, faultsOfPlan, importsIn, violations } from './import-rules.ts';
import { readText, sourcePaths } from './repository.ts';
import { FLOORS } from './rooms.ts';

test('the source tree keeps the import rules', () => {
  const sources = new Map(sourcePaths(['src', 'workers']).map((path) => [path, readText(path)]));
  assert.ok(sources.size > 20, 'the rules looked at the real tree');
  assert.deepEqual(violations(sources), []);
});

test('the table of rooms lets none import a room that is not on a lower floor', () => {
  assert.deepEqual(faultsOfPlan(FLOORS), []);
  assert.deepEqual(faultsOfPlan([{ base: ['group'] }, { group: ['base'], raft: ['group'] }]), [
    'base may not name group, which is not on a lower floor',
    'raft may not name group, which is not on a lower floor',
  ]);
});

test('files of benchmarks, scripts and tests form no circles', () => {
  // The parts of the simulated world know each other as the parts of a node know each other at run time.
  const paths = sourcePaths(['bench', 'scripts', 'test']).filter((path) => !path.startsWith('test/sim/'));
  assert.deepEqual(cycles(new Map(paths.map((path) => [path, importsIn(path, readText(path))]))), []);
});

/** Every rule, each with a planted violation. A gate that cannot fail guards nothing. */
const PLANTED: readonly (readonly [string, string, string, RegExp])[] = [
  ['base imports up', 'src/base/x.ts', `import { a } from '../protocol/a.ts'; a();`, /base must not import protocol/],
  [
    'raft imports stream',
    'src/raft/x.ts',
    `import type { A } from '../stream/a.ts'; export type B = A;`,
    /raft must not import stream/,
  ],
  [
    'stream imports raft',
    'src/stream/x.ts',
    `export { a } from '../raft/a.ts'; export const b = 1;`,
    /stream must not import raft/,
  ],
  [
    'protocol imports group',
    'src/protocol/x.ts',
    `import { a } from '../group/a.ts'; a();`,
    /protocol must not import group/,
  ],
  ['group imports shard', 'src/group/x.ts', `import { a } from '../shard/a.ts'; a();`, /group must not import shard/],
  [
    'shard imports an adapter',
    'src/shard/x.ts',
    `import { a } from '../store/a.ts'; a();`,
    /shard must not import store/,
  ],
  [
    'shard imports the server',
    'src/shard/x.ts',
    `import { a } from '../server/a.ts'; a();`,
    /shard must not import server/,
  ],
  [
    'adapter imports adapter',
    'src/http/x.ts',
    `import { a } from '../mailbox/a.ts'; a();`,
    /http must not import mailbox/,
  ],
  [
    'adapter imports the core',
    'src/store/x.ts',
    `import { a } from '../stream/a.ts'; a();`,
    /store must not import stream/,
  ],
  [
    'adapter imports configuration',
    'src/peer/x.ts',
    `import { a } from '../config/a.ts'; a();`,
    /peer must not import config/,
  ],
  [
    'pure folder imports a port above it',
    'src/stream/x.ts',
    `import type { A } from '../raft/types.ts'; export type B = A;`,
    /stream must not import raft/,
  ],
  ['ports with code', 'src/ports.ts', `import { a } from './protocol/a.ts'; a();`, /ports are types/],
  [
    'configuration imports the server',
    'src/config/x.ts',
    `import { a } from '../server/a.ts'; a();`,
    /config must not import server/,
  ],
  [
    'operator imports the server',
    'src/operator/x.ts',
    `import { a } from '../server/a.ts'; a();`,
    /operator must not import server/,
  ],
  [
    'operator imports an adapter',
    'src/operator/x.ts',
    `import { a } from '../store/a.ts'; a();`,
    /operator must not import store/,
  ],
  [
    'server imports the operator',
    'src/server/x.ts',
    `import { a } from '../operator/a.ts'; a();`,
    /server must not import operator/,
  ],
  ['source imports a test', 'src/shard/x.ts', `import { a } from '../../test/a.ts'; a();`, /not a source file/],
  ['import without .ts', 'src/shard/x.ts', `import { a } from './a'; a();`, /not a source file/],
  ['unknown folder', 'src/misc/x.ts', `export const a = 1;`, /has no floor/],
  ['a part without a row in a room that has only parts', 'src/cold/x.ts', `export const a = 1;`, /has no floor/],
  [
    'a port of a higher floor',
    'src/logging/x.ts',
    `import type { A } from '../shard/ports.ts'; export type B = A;`,
    /logging on floor 4 must not import shard\/ports.ts on floor \d+/,
  ],
  [
    'a port of a neighbour',
    'src/cold/ports.ts',
    `import type { A } from '../ports.ts'; export type B = A;`,
    /cold\/ports.ts on floor 4 must not import ports.ts on floor 4/,
  ],
  [
    'a neighbour',
    'src/peer/x.ts',
    `import type { A } from '../store/a.ts'; export type B = A;`,
    /peer must not import store/,
  ],
  [
    'a port imports its own room',
    'src/shard/ports.ts',
    `import type { A } from './a.ts'; export type B = A;`,
    /shard\/ports.ts must not import shard \(/,
  ],
  [
    'a part imports the room above it',
    'src/cold/shard/x.ts',
    `import type { A } from '../../shard/a.ts'; export type B = A;`,
    /cold\/shard must not import shard/,
  ],
  [
    'node module in a pure folder',
    'src/protocol/x.ts',
    `import { join } from 'node:path'; join();`,
    /nothing from outside/,
  ],
  ['package in a pure folder', 'src/group/x.ts', `import { pino } from 'pino'; pino();`, /nothing from outside/],
  ['uWebSockets.js elsewhere', 'src/server/x.ts', `import uws from 'uws-glibc236'; uws();`, /only src\/http/],
  ['lmdb elsewhere', 'src/shard/x.ts', `import { open } from 'lmdb'; open();`, /only src\/store/],
  ['a checksum elsewhere', 'src/stream/x.ts', `import { crc32c } from '@node-rs/crc32'; crc32c();`, /only src\/store/],
  ['yargs elsewhere', 'src/server/x.ts', `import yargs from 'yargs'; yargs();`, /only src\/operator/],
  ['progress bars elsewhere', 'src/server/x.ts', `import bar from 'cli-progress'; bar();`, /only src\/operator/],
  ['barrel', 'src/shard/x.ts', `export { a } from './a.ts'; export * from './b.ts';`, /only re-exports/],
  [
    'barrel by import',
    'src/shard/x.ts',
    `import { a } from './a.ts'; export { a }; export type { B } from './b.ts';`,
    /only re-exports/,
  ],
  ['index file', 'src/shard/index.ts', `export const a = 1;`, /only re-exports/],
  [
    'a part of the state machine imports one above it',
    'src/stream/core/x.ts',
    `import { a } from '../cold/a.ts'; a();`,
    /stream\/core must not import stream\/cold/,
  ],
  [
    "a feature's pure state imports its service",
    'src/stream/cold/x.ts',
    `import { a } from '../../cold/service/a.ts'; a();`,
    /stream\/cold must not import cold\/service/,
  ],
  [
    "timers in a feature's pure state",
    'src/stream/forks/x.ts',
    `export const f = () => setTimeout(f, 1);`,
    /: setTimeout in/,
  ],
  [
    'a feature imports HTTP',
    'src/cold/shard/x.ts',
    `import { a } from '../../http/a.ts'; a();`,
    /cold\/shard must not import http/,
  ],
  ['cycle of one', 'src/shard/x.ts', `import { x } from './x.ts'; export const y = x;`, /import cycle/],
  [
    'cycle through types',
    'src/shard/x.ts',
    `import type { A } from './loop.ts'; export type X = A;`,
    /import cycle: .*x\.ts -> .*loop\.ts -> .*x\.ts|import cycle: .*loop/,
  ],
  ['Date', 'src/raft/x.ts', `export const f = () => Date.now();`, /: Date in a pure/],
  ['new Date', 'src/raft/x.ts', `export const f = () => new Date();`, /: Date in a pure/],
  ['Math.random', 'src/base/x.ts', `export const f = () => Math.random();`, /: Math\.random in/],
  ['performance', 'src/group/x.ts', `export const f = () => performance.now();`, /: performance in/],
  ['process', 'src/protocol/x.ts', `export const f = () => process.pid;`, /: process in/],
  ['timers', 'src/stream/x.ts', `export const f = () => setTimeout(f, 1);`, /: setTimeout in/],
  ['Buffer', 'src/stream/x.ts', `export const f = (x: string) => Buffer.from(x);`, /: Buffer in/],
  ['crypto', 'src/base/x.ts', `export const f = () => crypto.randomUUID();`, /: crypto in/],
  ['globalThis', 'src/base/x.ts', `export const f = () => globalThis['Date'];`, /: globalThis in/],
  ['async', 'src/raft/x.ts', `export const f = async () => 1;`, /: async function in/],
  ['await', 'src/raft/x.ts', `export const f = await g;`, /: await in/],
  ['Promise', 'src/raft/x.ts', `export const f = () => Promise.resolve();`, /: Promise in/],
  ['dynamic import', 'src/raft/x.ts', `export const f = () => import('./a.ts');`, /: import\(\) in/],
];

/** Files that the planted ones may refer to. */
const SURROUNDINGS: readonly (readonly [string, string])[] = [
  ...[
    'base',
    'protocol',
    'raft',
    'stream',
    'stream/cold',
    'group',
    'shard',
    'store',
    'mailbox',
    'server',
    'config',
    'operator',
    'http',
    'cold/service',
  ].map((folder) => [`src/${folder}/a.ts`, 'export const a = () => 1; export type A = 1;'] as const),
  ['src/raft/types.ts', 'export type A = 1;'],
  ['src/ports.ts', 'export type A = 1;'],
  ['src/shard/ports.ts', 'export type A = 1;'],
  ['src/shard/b.ts', 'export type B = 1;'],
  ['src/shard/loop.ts', `import type { X } from './x.ts'; export type A = X;`],
  ['src/shard/x.ts', 'export type X = 1; export const x = 1;'],
];

test('each planted violation is found, alone', async (t) => {
  assert.deepEqual(violations(new Map(SURROUNDINGS)), [], 'the surroundings themselves keep the rules');
  for (const [name, path, text, expected] of PLANTED) {
    await t.test(name, () => {
      const found = violations(new Map([...SURROUNDINGS, [path, text]]));
      assert.equal(found.length, 1, found.join('\n'));
      assert.match(found[0] ?? '', expected);
      assert.ok(found[0]?.includes(path), found[0]);
    });
  }
});

test('what only looks like a violation is left alone', () => {
  const innocent: readonly (readonly [string, string])[] = [
    [
      'src/raft/x.ts',
      `// Date.now() and setTimeout are not used.\nexport const f = (x: { process: 1 }) => x.process + 'Date.now()'.length;`,
    ],
    [
      'src/stream/x.ts',
      `export class A { fetch() { return Math.max(1, 2); } }\nexport const o = { crypto: 1, Date: 2 };`,
    ],
    [
      'src/store/x.ts',
      `import type { A } from '../raft/types.ts'; import { open } from 'lmdb'; export const f = (a: A) => open(a);`,
    ],
    [
      'src/http/x.ts',
      `import { a } from '../protocol/a.ts'; import process from 'node:process'; export const f = async () => a(process.pid);`,
    ],
    ['src/shard/y.ts', `export type { B } from './b.ts'; export const y = 1;`],
    ['src/operator/x.ts', `import yargs from 'yargs'; import { a } from '../config/a.ts'; yargs(a);`],
    ['workers/x.ts', `import { a } from '../src/store/a.ts'; import { a as b } from '../src/shard/a.ts'; a(b);`],
  ];
  assert.deepEqual(violations(new Map([...SURROUNDINGS, ...innocent])), []);
});
