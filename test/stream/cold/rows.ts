// Checks the rows of a settled state against each other: rows and chunks without gaps, references that add up.
import assert from 'node:assert/strict';
import { decodeHead } from '../../../src/stream/core/head.ts';
import type { State } from '../../../src/stream/core/state.ts';
import { decodeChunkRow, decodeObjectId } from '../../../src/protocol/cold.ts';
import type { SortedMapTx } from '../sorted-map-tx.ts';

export function checkColdRows(tx: SortedMapTx, prefix: number, state: State): void {
  const front = String.fromCharCode(prefix >> 8, prefix & 0xff);
  const of = (tag: string): [string, Uint8Array][] =>
    [...tx.entries()].filter(([key]) => key.startsWith(front + tag)).map(([key, value]) => [key.slice(3), value]);

  const chunks = new Map<number, { start: number; end: number }[]>();
  const refs = new Map<string, number>();
  let coldBytes = 0;
  for (const [key, value] of of('c')) {
    const chunk = decodeChunkRow(value);
    const incarnation = number(key, 0, 6);
    assert.equal(number(key, 6, 8), chunk.start);
    const list = chunks.get(incarnation) ?? [];
    list.push(chunk);
    chunks.set(incarnation, list);
    coldBytes += chunk.end - chunk.start;
    const id = `${chunk.object.run}-${chunk.object.seq}`;
    refs.set(id, (refs.get(id) ?? 0) + 1);
  }
  assert.equal(state.cold.bytes, coldBytes);

  let hotBytes = 0;
  const hot = new Set<number>();
  for (const [key, value] of of('h')) {
    const head = decodeHead(new Uint8Array(Buffer.from(key, 'latin1')), 0, value);
    hotBytes += head.tail - head.hotStart;
    if (head.tail > head.hotStart) hot.add(head.incarnation);
    const list = chunks.get(head.incarnation) ?? [];
    let end = head.startOffset;
    for (const chunk of list) {
      assert(
        chunk.start === end || (chunk.start < head.startOffset && end === head.startOffset),
        'chunks follow each other',
      );
      end = chunk.end;
    }
    assert.equal(end, head.hotStart, 'chunks reach up to the rows');
  }
  assert.equal(state.hotBytes, hotBytes);
  assert.deepEqual(new Set(of('f').map(([key]) => number(key, 8, 6))), hot, 'the flush index lists what is hot');

  const rows = new Map<number, number>();
  for (const [key] of of('d')) {
    const incarnation = number(key, 0, 6);
    if (!rows.has(incarnation)) rows.set(incarnation, number(key, 6, 8));
  }
  for (const [, value] of of('h')) {
    const head = decodeHead(new Uint8Array(0), 0, value);
    assert.equal(rows.get(head.incarnation) ?? head.tail, head.hotStart, 'rows begin at hotStart');
  }

  let objectBytes = 0;
  const queued = new Map(of('q').map(([key, value]) => [number(key, 0, 6), decodeObjectId(value, 9)]));
  const objects = of('o');
  for (const [key, value] of objects) {
    const object = decodeObjectId(new Uint8Array(Buffer.from(key, 'latin1')));
    const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
    const counted = view.getUint32(0, true);
    const seq = view.getFloat64(16, true);
    const id = `${object.run}-${object.seq}`;
    assert.equal(counted, refs.get(id) ?? 0, `references to ${id}`);
    refs.delete(id);
    objectBytes += view.getFloat64(8, true);
    assert.equal(seq >= 0, counted === 0, 'what nothing refers to is queued, and nothing else');
    if (seq >= 0) assert.deepEqual(queued.get(seq), object);
  }
  assert.equal(refs.size, 0, 'every chunk has its object');
  assert.equal(queued.size, state.cold.gcLength);
  assert.equal(objects.length, state.cold.objects);
  assert.equal(objectBytes, state.cold.objectBytes);
}

function number(key: string, at: number, size: number): number {
  let value = 0;
  for (let i = at; i < at + size; i++) value = value * 256 + key.charCodeAt(i);
  return value;
}
