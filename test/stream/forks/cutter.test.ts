// Where a fork ends, for every way to split its source into pieces.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cutter, decodeParts } from '../../../src/stream/forks/cutter.ts';
import { createRandom } from '../../support/random.ts';

test('inherits the same for any split into pieces', () => {
  const random = createRandom(3);
  for (let round = 0; round < 2000; round++) {
    const json = random.chance(0.5);
    const startOffset = random.pick([0, 100]);
    const recordFirst = startOffset === 0 ? 0 : 9;
    const sizes = Array.from({ length: random.int(0, 8) }, () => random.int(1, 6));
    const ends = sizes.map((_, i) => startOffset + sizes.slice(0, i + 1).reduce((sum, size) => sum + size, 0));
    const tail = ends.at(-1) ?? startOffset;
    const anchor = random.int(startOffset, tail);
    const subOffset = random.chance(0.5) ? 0 : random.int(1, 5);
    const borders = [startOffset, ...ends];
    const nextEnd = ends.find((one) => one > anchor) ?? tail;
    const place = borders.indexOf(anchor);
    let expected: number | string = anchor + subOffset;
    if (json) expected = place < 0 ? 'OFFSET_INSIDE_RECORD' : (borders[place + subOffset] ?? 'FORK_SUB_OFFSET_BEYOND');
    else if (expected > nextEnd) expected = 'FORK_SUB_OFFSET_BEYOND';

    const cutter = new Cutter({ json, anchor, subOffset, startOffset, recordFirst });
    let found: number | string = cutter.at;
    const messages: number[] = [];
    while (!cutter.done && typeof found === 'number') {
      const at: number = cutter.at;
      const from = borders.indexOf(at);
      const some = borders.slice(from + 1, from + 1 + random.int(1, 3)).map((one) => one - at);
      const taken = cutter.take({ ends: some, bytes: new Uint8Array(some.at(-1) ?? 0) });
      if (typeof taken === 'string') found = taken;
      else {
        assert.equal(taken.bytes.length, cutter.at - at);
        for (const one of taken.ends) messages.push(at + one);
        found = cutter.at;
      }
    }
    const what = JSON.stringify({ json, startOffset, ends, anchor, subOffset });
    assert.equal(found, expected, what);
    if (typeof expected === 'string') continue;
    assert.equal(cutter.record, recordFirst + messages.length, what);
    const whole = ends.filter((one) => one <= expected);
    assert.deepEqual(
      messages,
      whole.at(-1) === expected || expected === startOffset ? whole : [...whole, expected],
      what,
    );
  }
  assert.deepEqual(decodeParts(new Uint8Array([1, 0, 0, 0, 2, 0, 0, 0, 65, 66])), {
    ends: [2],
    bytes: new Uint8Array([65, 66]),
  });
});
