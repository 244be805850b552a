import assert from 'node:assert/strict';
import { test } from 'node:test';
import { majorityValue, quorumValue, voteOutcome } from '../../src/raft/quorum.ts';
import type { Ballot } from '../../src/raft/quorum.ts';
import { Random } from '../../src/raft/random.ts';
import type { Configuration } from '../../src/raft/types.ts';

/** The dumb second implementation: try every subset of voters, straight from the definition of a majority. */
function isQuorum(ids: readonly number[], agrees: (id: number) => boolean): boolean {
  return 2 * ids.filter(agrees).length > ids.length || ids.length === 0;
}

function dumbValue(configuration: Configuration, values: ReadonlyMap<number, number>): number {
  const candidates = [0, Infinity, ...values.values()].sort((a, b) => b - a);
  for (const candidate of candidates) {
    const reached = (id: number): boolean => (values.get(id) ?? 0) >= candidate;
    if (isQuorum(configuration.voters, reached) && isQuorum(configuration.votersOutgoing, reached)) return candidate;
  }
  return 0;
}

function subsets(ids: readonly number[]): number[][] {
  return ids.reduce<number[][]>((all, id) => [...all, ...all.map((subset) => [...subset, id])], [[]]);
}

/** Enumerates how the missing ballots could still come in. */
function dumbOutcome(configuration: Configuration, ballots: ReadonlyMap<number, Ballot>): string {
  const open = [...new Set([...configuration.voters, ...configuration.votersOutgoing])].filter(
    (id) => (ballots.get(id) ?? 0) === 0,
  );
  const wins = subsets(open).map((granted) => {
    const grants = (id: number): boolean => ballots.get(id) === 1 || granted.includes(id);
    return isQuorum(configuration.voters, grants) && isQuorum(configuration.votersOutgoing, grants);
  });
  // The empty subset comes first: no other node grants.
  if (wins[0]) return 'won';
  return wins.includes(true) ? 'pending' : 'lost';
}

function randomIds(random: Random, most: number): number[] {
  const ids = [1, 2, 3, 4, 5, 6, 7].filter(() => random.below(2) === 0);
  return ids.slice(0, random.below(most + 1));
}

test('the quorum value equals the definition, in 50,000 random configurations', () => {
  const random = new Random(3);
  for (let round = 0; round < 50_000; round += 1) {
    const configuration = { voters: randomIds(random, 7), votersOutgoing: randomIds(random, 7), learners: [] };
    const values = new Map([1, 2, 3, 4, 5, 6, 7].map((id) => [id, random.below(random.below(12) + 1)]));
    const fast = quorumValue(configuration, (id) => values.get(id) ?? 0);
    assert.equal(fast, dumbValue(configuration, values), JSON.stringify([configuration, [...values]]));
  }
});

test('the outcome of a vote equals the enumeration of what can still happen, in 20,000 cases', () => {
  const random = new Random(4);
  for (let round = 0; round < 20_000; round += 1) {
    const configuration = { voters: randomIds(random, 5), votersOutgoing: randomIds(random, 4), learners: [] };
    const ballots = new Map([1, 2, 3, 4, 5, 6, 7].map((id): [number, Ballot] => [id, (random.below(3) - 1) as Ballot]));
    const fast = voteOutcome(configuration, (id) => ballots.get(id) ?? 0);
    assert.equal(fast, dumbOutcome(configuration, ballots), JSON.stringify([configuration, [...ballots]]));
  }
});

test('any two quorums overlap, also across a joint step', () => {
  assert.equal(
    majorityValue([1, 2, 3, 4], (id) => (id <= 2 ? 9 : 1)),
    1,
    'half is no majority',
  );
  assert.equal(
    majorityValue([1, 2, 3, 4], (id) => (id <= 3 ? 9 : 1)),
    9,
  );
  const joint = { voters: [3, 4, 5], votersOutgoing: [1, 2, 3], learners: [] };
  assert.equal(
    quorumValue(joint, (id) => (id >= 3 ? 9 : 1)),
    1,
    'the outgoing half must agree too',
  );
});
