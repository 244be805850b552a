/** An entry of one command as the entries of its pieces; sometimes the first try is cut short. */
import { viewOf } from '../../src/base/bytes.ts';
import { EntryBuilder, ITEM } from '../../src/group/entry.ts';
import { Command } from '../../src/protocol/command.ts';
import type { Random } from '../support/random.ts';

interface CutPiece {
  readonly piece: Uint8Array;
  readonly isLast: boolean;
}

export function* inPieces(data: Uint8Array, random: Random): Generator<CutPiece> {
  const whole = data.subarray(ITEM.size);
  const command = new Command();
  command.read(whole, viewOf(whole), 0);
  const { nowMs } = command;
  const builder = new EntryBuilder();
  const cut = { parts: [whole], totalBytes: whole.length, offset: 0 };
  let ends = random.chance(0.2) ? random.int(1, whole.length) : Infinity;
  while (cut.offset < whole.length) {
    if (cut.offset >= ends) [cut.offset, ends] = [0, Infinity];
    const sizeBytes = Math.min(whole.length - cut.offset, random.int(1, Math.max(50, whole.length / 3)));
    builder.addPiece(cut, sizeBytes, nowMs);
    cut.offset += sizeBytes;
    yield { piece: builder.finish(), isLast: cut.offset === whole.length };
  }
}
