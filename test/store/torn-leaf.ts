// A leaf of a data file that nothing has open, which cannot be read from now on.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { readTable } from '../../src/store/data-file.ts';
import { STATE_TABLE } from '../../src/store/environment.ts';
import { PageDamage } from '../../src/store/lmdb-damage.ts';
import type { KeyRange } from '../../src/store/path-check.ts';

const PAGE_BYTES = 4096;

/** Zeros one whose first row has this prefix. */
export function tearLeaf(file: string, prefix: number): void {
  const content = readFileSync(file);
  for (let at = 2 * PAGE_BYTES; at < content.length; at += PAGE_BYTES) {
    writeFileSync(file, Buffer.from(content).fill(0, at, at + PAGE_BYTES));
    const [gap, ...others] = gapsOf(file);
    if (gap === undefined || others.length > 0 || gap.from.length < 2) continue;
    if (Buffer.from(gap.from).readUInt16BE() === prefix) return;
  }
  assert.fail(`a leaf begins with a row of ${prefix}`);
}

function gapsOf(file: string): KeyRange[] {
  const gaps: KeyRange[] = [];
  try {
    readTable(file, STATE_TABLE, { row: () => undefined, gap: (gap) => gaps.push(gap) });
  } catch (error) {
    // It has the names of the tables.
    assert(error instanceof PageDamage);
  }
  return gaps;
}
