/** Rows of neighbouring groups, which must not be read or written. */
import assert from 'node:assert/strict';
import { GROUP, type Replica } from './replica.ts';

const TAGS = 'aBbcCdfghmopqrswx';

export function plantNeighbours(replica: Replica): void {
  replica.tx.begin();
  for (const group of [GROUP - 1, GROUP + 1]) {
    for (const tag of TAGS) {
      for (const fill of [0, 0xff]) {
        const key = new Uint8Array(17).fill(fill);
        key.set([group >> 8, group & 0xff, tag.charCodeAt(0)]);
        replica.tx.put(key, new Uint8Array([0x77]));
      }
    }
  }
  replica.tx.commit();
}

export function checkNeighbours(replica: Replica): void {
  let seen = 0;
  for (const [key, value] of replica.tx.entries()) {
    if (key.startsWith(String.fromCharCode(GROUP >> 8, GROUP & 0xff))) continue;
    assert(value.length === 1 && value[0] === 0x77, 'rows of other groups are as they were');
    seen++;
  }
  assert.equal(seen, 4 * TAGS.length);
}
