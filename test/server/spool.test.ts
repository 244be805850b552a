// What an import keeps until it is looked at: in order, and never more than there is room for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Spool } from '../../src/server/backup/spool.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const PIECE_BYTES = 300_000;
const pieceOf = (value: number): Uint8Array => new Uint8Array(PIECE_BYTES).fill(value);

test('a spool gives back what it took, and refuses what its volume has no room for', () => {
  const folder = temporaryFolder('spool');
  const spool = new Spool(folder, () => 10 * PIECE_BYTES);
  let taken = 0;
  assert.throws(() => {
    for (;;) spool.push(pieceOf(taken++ % 251));
  }, /no room for more/);
  const pieces: Uint8Array[] = [];
  for (let piece = spool.shift(); piece !== undefined; piece = spool.shift()) pieces.push(piece);
  const bytes = Buffer.concat(pieces);
  // The last one was refused: 13 in memory and 10 in the file.
  assert.equal(bytes.length, (taken - 1) * PIECE_BYTES);
  assert.equal(taken - 1, 13 + 10);
  for (let i = 0; i < taken - 1; i++) assert.equal(bytes[(i + 0.5) * PIECE_BYTES], i % 251);
  // Empty again, it begins anew.
  spool.push(pieceOf(7));
  assert.equal(spool.shift()?.[0], 7);
  spool.close();
  removeFolder(folder);
});
