import type { Message } from '../../../src/raft/types.ts';
import type { Random } from '../../support/random.ts';

export const MESSAGE_TYPES: readonly Message['type'][] = [
  'vote',
  'vote-response',
  'append',
  'append-response',
  'heartbeat',
  'heartbeat-response',
  'snapshot',
  'timeout-now',
  'read-index',
  'read-index-response',
];

/** Small numbers, large ones, and the edges. */
function count(random: Random): number {
  return random.pick([
    0,
    1,
    random.int(0, 255),
    random.int(0, 2 ** 32),
    2 ** 31,
    2 ** 32,
    2 ** 40 + random.int(0, 9),
    Number.MAX_SAFE_INTEGER - 64,
  ]);
}

function ids(random: Random, most: number): number[] {
  const found = new Set<number>();
  for (let left = random.int(0, most); left > 0; left--) found.add(random.pick([random.int(1, 9), 2 ** 32 - 1]));
  return [...found].sort((a, b) => a - b);
}

/** Any message that raft could send; raft's own type, so that a field which the codecs lack does not compile. */
export function randomMessage(random: Random, type: Message['type'], from: number, to: number): Message {
  const term = count(random);
  const note = { allowedBoot: random.chance(0.7) ? 0 : 1 + count(random), restored: random.chance(0.3) };
  const peer = {
    round: count(random),
    boot: 1 + count(random),
    lost: random.pick([0, 1, 2] as const),
    refusesLead: random.chance(0.5),
    wantsState: random.chance(0.5),
  };
  const head = { from, to, term };
  switch (type) {
    case 'vote': {
      const [pre, force] = [random.chance(0.5), random.chance(0.5)];
      return { type, ...head, pre, force, lastIndex: count(random), lastTerm: count(random) };
    }
    case 'vote-response':
      return { type, ...head, pre: random.chance(0.5), granted: random.chance(0.5) };
    case 'append':
      return { type, ...head, ...note, ...appendBody(random, term) };
    case 'append-response': {
      const reject = random.chance(0.5);
      const hint = reject
        ? { hintIndex: count(random), hintTerm: random.chance(0.2) ? -1 : count(random) }
        : { hintIndex: 0, hintTerm: 0 };
      return { type, ...head, ...peer, reject, index: count(random), ...hint };
    }
    case 'heartbeat':
      return { type, ...head, ...note, commit: count(random), round: count(random) };
    case 'heartbeat-response':
      return { type, ...head, ...peer };
    case 'snapshot': {
      const configuration = { voters: ids(random, 5), votersOutgoing: ids(random, 5), learners: ids(random, 3) };
      const snapshot = { index: count(random), term: count(random), configuration };
      return { type, ...head, ...note, snapshot, round: count(random) };
    }
    case 'timeout-now':
      return { type, ...head };
    case 'read-index':
      return { type, ...head, context: count(random) };
    case 'read-index-response':
      return { type, ...head, context: count(random), index: count(random) };
  }
}

function appendBody(random: Random, term: number) {
  const prevIndex = Math.min(count(random), Number.MAX_SAFE_INTEGER - 100);
  const prevTerm = random.int(0, Math.min(term, 2 ** 31));
  const entries = Array.from({ length: random.pick([0, 0, 1, 2, 30]) }, (_, i) => ({
    term: random.chance(0.5) ? prevTerm : term,
    index: prevIndex + 1 + i,
    kind: random.pick([0, 1, 2] as const),
    data: new Uint8Array(random.bytes(random.pick([0, 1, 7, 300]))),
  }));
  // Terms never fall along a log.
  entries.sort((a, b) => a.term - b.term).forEach((entry, i) => (entry.index = prevIndex + 1 + i));
  return { prevIndex, prevTerm, entries, commit: count(random), round: count(random) };
}
