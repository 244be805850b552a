import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readText, sourcePaths } from './repository.ts';
import { stateViolations } from './state-rules.ts';

test('modules hold no state', () => {
  const sources = new Map(sourcePaths(['src', 'workers']).map((path) => [path, readText(path)]));
  assert.deepEqual(stateViolations(sources), []);
});

const PLANTED: readonly (readonly [text: string, expected: RegExp])[] = [
  ['let count = 0; export const next = () => ++count;', /count is a module's let/],
  ['export let a: { b: number } | undefined;', /a is a module's let/],
  ['const seen = new Map<string, number>(); export const f = (x: string) => seen.get(x);', /seen is a Map/],
  ['const ids = new WeakMap<object, string>(); export const f = (x: object) => ids.get(x);', /ids is a WeakMap/],
  ['const scratch = new Uint8Array(16); export const f = () => scratch;', /scratch is a Uint8Array/],
  ['const N = 4; export const table = new Float64Array(N);', /table is a Float64Array/],
  ['import { A } from "./a.ts"; export const view = new A();', /view is a A of/],
  ['const list: string[] = []; export const f = (x: string) => list.push(x);', /list of the module is changed/],
  ['const at = { end: 0 }; export const f = () => { at.end = 1; };', /at of the module is changed/],
  ['const at = { b: { c: 0 } }; export const f = () => at.b.c++;', /at of the module is changed/],
  ['const o: Record<string, number> = {}; export const f = (k: string) => { delete o[k]; };', /o of the module is ch/],
  ['const a: [n?: number] = []; export const f = () => (a as number[])[0] = 1;', /a of the module is changed/],
  ['export class A { static made = 0; }', /made is a static field/],
];

test('each planted piece of state is found, alone', () => {
  for (const [text, expected] of PLANTED) {
    const found = stateViolations(new Map([['src/shard/x.ts', text]]), {});
    assert.equal(found.length, 1, `${text}: ${found.join('\n')}`);
    assert.match(found[0] ?? '', expected);
  }
});

test('constants are no state, and exceptions are named and needed', () => {
  const constants = [
    'const NONE = new Uint8Array(0); const NAMES: ReadonlySet<string> = new Set(["a"]); export { NONE, NAMES };',
    'const encoder = new TextEncoder(); export const f = () => { let i = 0; const m = new Map(); m.set(i++, 1); };',
    'export class A { static readonly B = 1; #c = 0; next() { const list: number[] = []; list.push(this.#c++); } }',
    'export const list = [1]; export const f = () => { const list: number[] = []; list.push(1); };',
    'export const O = { a: 1 }; export const f = (x: { a: number }) => { x.a = O.a; };',
  ];
  for (const text of constants) assert.deepEqual(stateViolations(new Map([['src/x.ts', text]]), {}), []);
  const one = new Map([['src/a/x.ts', 'export let b = 0;']]);
  assert.deepEqual(stateViolations(one, { 'src/a/x.ts b': 'a test' }), []);
  assert.deepEqual(stateViolations(one, { 'src/a/': 'a test' }), []);
  assert.match(stateViolations(new Map(), { 'src/a/x.ts b': 'a test' })[0] ?? '', /take it out/);
});
