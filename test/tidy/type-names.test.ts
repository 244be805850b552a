// A type's name is exported once, so that a name in an error, in a search or in an editor means one thing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSync } from 'oxc-parser';
import type { Sources } from './import-rules.ts';
import { readText, sourcePaths } from './repository.ts';

const TYPES = new Set(['TSInterfaceDeclaration', 'TSTypeAliasDeclaration', 'ClassDeclaration', 'TSEnumDeclaration']);

/** One sentence for each name that several files declare and export. */
function repeatedNames(sources: Sources): string[] {
  const files = new Map<string, string[]>();
  for (const [path, text] of sources) {
    for (const statement of parseSync(path, text).program.body) {
      const declared = statement.type === 'ExportNamedDeclaration' ? statement.declaration : null;
      if (declared === null || !TYPES.has(declared.type) || !('id' in declared)) continue;
      const name = declared.id !== null && 'name' in declared.id ? declared.id.name : '';
      files.set(name, [...(files.get(name) ?? []), path]);
    }
  }
  return [...files].filter(([, paths]) => paths.length > 1).map(([name, paths]) => `${name}: ${paths.join(', ')}`);
}

test('the name of an exported type is exported once', () => {
  const sources = new Map(sourcePaths(['src', 'workers']).map((path) => [path, readText(path)]));
  assert.deepEqual(repeatedNames(sources), []);
});

test('planted repetitions are found', () => {
  const first = ['src/a/x.ts', 'export interface Answer { readonly a: number }'] as const;
  for (const text of [
    'export interface Answer {}',
    'export type Answer = 1;',
    'export class Answer {}',
    'export abstract class Answer {}',
  ]) {
    assert.deepEqual(repeatedNames(new Map([first, ['src/b/y.ts', text]])), ['Answer: src/a/x.ts, src/b/y.ts']);
  }
  const others = "interface Answer {} export type { Answer as B } from './z.ts'; export const f = (x: Answer) => x;";
  assert.deepEqual(repeatedNames(new Map([first, ['src/b/y.ts', others]])), []);
});
