import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clockViolations } from './clock-rules.ts';
import { readText, sourcePaths } from './repository.ts';
import { runtimePortViolations } from './runtime-port-rules.ts';

test('wall clocks go into commands and rows, and into no wait', () => {
  const sources = new Map(sourcePaths(['src', 'workers']).map((path) => [path, readText(path)]));
  assert.deepEqual(clockViolations(sources), []);
});

const PLANTED: readonly (readonly [string, RegExp])[] = [
  ['export const f = (): number => Date.now();', /x\.ts reads the wall clock/],
  ['export const f = (runtime: { nowMs(): number }): number => runtime.nowMs();', /x\.ts reads the wall clock/],
  [
    'export class A { readonly #o = { runtime: { nowMs: () => 0 } }; f(): number { return this.#o.runtime.nowMs(); } }',
    /x\.ts reads the wall clock/,
  ],
  ['export const f = (): Date => new Date();', /x\.ts reads the wall clock/],
  ['export const f = (nowMs: number, atMs: number): boolean => nowMs > atMs + 5000;', /x\.ts compares nowMs/],
  ['export const f = (o: { nowMs(): number }): boolean => o.nowMs() >= 1;', /x\.ts compares nowMs/],
  [
    'export class A { #nowMs = 0; f(sinceMs: number): number { return this.#nowMs - sinceMs; } }',
    /x\.ts compares nowMs/,
  ],
  ['export const f = (nowMs: number): boolean => nowMs / 1000 < 7;', /x\.ts compares nowMs/],
];

test('each planted use of the wall clock is found', () => {
  for (const [text, expected] of PLANTED) {
    const found = clockViolations(new Map([['src/shard/x.ts', text]]), {}, {});
    assert.equal(found.length, 1, text);
    assert.match(found[0] ?? '', expected);
  }
  const harmless = 'export const f = (nowMs: number, g: (at: number) => void): void => g(nowMs + Date.parse("2023"));';
  assert.deepEqual(clockViolations(new Map([['src/shard/x.ts', harmless]]), {}, {}), []);
  assert.match(clockViolations(new Map(), { 'src/a.ts': '' }, {})[0] ?? '', /take it out of READERS/);
  assert.match(clockViolations(new Map(), {}, { 'src/a.ts': '' })[0] ?? '', /take it out of JUDGES/);
});

test('clocks, timers and randomness come from the runtime port', () => {
  const sources = new Map(sourcePaths(['src', 'workers']).map((path) => [path, readText(path)]));
  assert.deepEqual(runtimePortViolations(sources), []);
});

const PLANTED_USES: readonly (readonly [string, string])[] = [
  ['setTimeout(() => {}, 1);', 'setTimeout'],
  ['export const later = setInterval;', 'setInterval'],
  ['globalThis.setTimeout(() => {}, 1);', 'globalThis.setTimeout'],
  ['export const f = (): number => performance.now();', 'performance.now'],
  ['export const f = (): number => Date.now();', 'Date.now'],
  ['export const f = (): Date => new Date();', 'Date()'],
  ['export const f = (): number => Math.random();', 'Math.random'],
  ['export const f = (): string => crypto.randomUUID();', 'crypto.randomUUID'],
  ['export const f = (): bigint => process.hrtime.bigint();', 'process.hrtime'],
  ["import { createHash, randomBytes as bytes } from 'node:crypto';", 'randomBytes'],
  ["import { setTimeout as sleep } from 'node:timers/promises';", 'node:timers/promises'],
];

test('each planted use beside the runtime port is found', () => {
  for (const [text, use] of PLANTED_USES) {
    const found = runtimePortViolations(new Map([['src/shard/x.ts', text]]), {});
    assert.equal(found.length, 1, text);
    assert(found[0]?.startsWith(`src/shard/x.ts uses ${use}: `), found[0]);
    assert.deepEqual(runtimePortViolations(new Map([['src/shard/x.ts', text]]), { 'src/shard/': '' }), []);
  }
  const harmless = `import { createHash } from 'node:crypto';
    export type Timer = ReturnType<typeof setTimeout>;
    export const f = (runtime: { random(): number; randomBytes(n: number): void }): void => runtime.randomBytes(8);
    export const g = (atMs: number): Date => new Date(atMs);`;
  assert.deepEqual(runtimePortViolations(new Map([['src/shard/x.ts', harmless]]), {}), []);
  assert.match(runtimePortViolations(new Map(), { 'src/a.ts': '' })[0] ?? '', /take it out of DIRECT/);
});
