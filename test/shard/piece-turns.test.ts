// How much of the large commands one turn takes: a piece while others are there, and several groups by turns.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PieceTurns, type PieceTurnsOptions } from '../../src/shard/piece-turns.ts';

const PIECES = { piece: 10, turn: 20, alone: 80, inFlight: 40 };

/** A group with `bytes` of a large command, of which a turn may propose as much as may be in flight. */
class Cutting {
  #left: number;
  #inFlight = 0;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  get nextPieceBytes(): number {
    return Math.min(this.#left, PIECES.piece, PIECES.inFlight - this.#inFlight);
  }

  cut(): number {
    const bytes = this.nextPieceBytes;
    this.#left -= bytes;
    this.#inFlight += bytes;
    return bytes;
  }

  /** Bytes that the turn took; they are applied. */
  applied(): number {
    const bytes = this.#inFlight;
    this.#inFlight = 0;
    return bytes;
  }
}

function turnsOf(groups: readonly Cutting[], links?: PieceTurnsOptions['links']): (clockMs: number) => number[] {
  const turns = new PieceTurns({ groups, pieces: PIECES, links });
  return (clockMs) => {
    if (clockMs % 2 === 1) turns.otherCame(clockMs);
    turns.cut(0, clockMs);
    return groups.map((group) => group.applied());
  };
}

test('one piece beside others, of the groups by turns; more when none has come for 100 ms', () => {
  const cut = turnsOf([new Cutting(1000), new Cutting(1000), new Cutting(0)]);
  assert.deepEqual(cut(0), [40, 40, 0], 'a single node with nothing else to do');
  const beside = [cut(1001), cut(1002), cut(1100)];
  assert.deepEqual(
    beside.map((taken) => taken.reduce((a, b) => a + b)),
    [10, 10, 10],
  );
  assert.equal(new Set(beside.map(String)).size, 2, 'both groups get pieces');
  assert.deepEqual(cut(1102), [40, 40, 0]);
});

test('a node of a cluster takes less also alone: the record delays groups of other nodes', () => {
  const cut = turnsOf([new Cutting(1000), new Cutting(1000)], {});
  assert.deepEqual(cut(0), [10, 10]);
  assert.deepEqual(
    cut(1).reduce((a, b) => a + b),
    10,
  );
});
