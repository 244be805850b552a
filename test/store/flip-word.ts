import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Changes a bit of each `word` in the data file of a closed store. */
export function flipWord(directory: string, word: string): void {
  const file = join(directory, 'data.mdb');
  const content = readFileSync(file);
  let found = 0;
  for (let at = content.indexOf(word); at >= 0; at = content.indexOf(word, at + 1), found++) content[at]! ^= 1;
  assert(found > 0, `${word} is in the file`);
  writeFileSync(file, content);
}
