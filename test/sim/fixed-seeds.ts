import {
  COMPARE_SEEDS,
  GROUP_ROT_SEEDS,
  LARGE_SEEDS,
  REQUEST_SEEDS,
  ROW_ROT_SEEDS,
  SESSION_NODE_SEEDS,
  SLOW_SEEDS,
  STARVED_SEEDS,
  SYNC_SEEDS,
  THIN_SEEDS,
  drawOptions,
} from './options.ts';

/** Run by every `npm run sim`. Seeds that found a bug once come first and stay. */
const FOUND_SOMETHING: readonly number[] = [
  // A crash right after a snapshot took over left the rows of the state before it.
  0x42d,
  // After a restart, rows of a replayed import were a view of the log's memory.
  0xa2,
  // A late BEGIN undid the import that it had begun;
  0xf,
  // or restarted one that had been abandoned, and nothing continued it.
  0x114,
  // A start that found its log damaged moved it away and died: the next one found a log of which nothing was missing.
  0xfa,
  // The same on a full disk.
  0xde,
  // Answers that were kept of one group were given for another, restored one with the
  // same names: only simulations have that.
  0xc95,
  // A leader with half of a backup took the rows that were to come for damaged ones.
  0x7d1fbc,
];
/** Nodes that get snapshots and fall too far behind (options.ts). */
const TOO_FAR_BEHIND = Array.from({ length: 24 }, (_, i) => 0x5000 + i);
const COUNT = 200;
/** Runs in which much happens that is rare in others, by what they cost. */
const EVENTFUL: readonly number[] = [0xd, 0x1c, 0x31, 0x71, 0x5001, 0x5004];
/** Two of each kind of runs behind thin links (options.ts). */
const BEHIND_THIN_LINKS = Array.from({ length: 8 }, (_, i) => THIN_SEEDS + i);
/** Large and small requests on one link (options.ts). */
const REQUESTS = [REQUEST_SEEDS, REQUEST_SEEDS + 1];
/** Nodes without processor (options.ts). */
const STARVED = [STARVED_SEEDS, STARVED_SEEDS + 1];
/** Slow checkpoints (options.ts). */
const SLOW = Array.from({ length: 3 }, (_, i) => SLOW_SEEDS + i);
/** Disks that change rows of the state (options.ts): seeds that found a bug. */
const FOUND_ROW_ROT: readonly number[] = [
  // A drain mark was overridden. A live reader was told of an older tail. A live reader's head that had changed ended
  // the node. Rows that were long rewritten counted as damaged, and no node led.
  ...[0x13, 0x6c, 0x123, 0x290].map((seed) => ROW_ROT_SEEDS + seed),
  // The only other node with the whole log was leaving.
  0x7_4746,
];
const ROW_ROT = [...Array.from({ length: 6 }, (_, i) => ROW_ROT_SEEDS + i), ...FOUND_ROW_ROT];
/** Disks that change rows without which a group cannot be opened (options.ts). */
const GROUP_ROT = Array.from({ length: 4 }, (_, i) => GROUP_ROT_SEEDS + i);
/** Syncs that end later (options.ts). */
const SYNCING = Array.from({ length: 12 }, (_, i) => SYNC_SEEDS + i);
/** Clients that compare and append (options.ts). */
const COMPARING = Array.from({ length: 6 }, (_, i) => COMPARE_SEEDS + i);
/** Sessions (options.ts). */
const WITH_SESSIONS = Array.from({ length: 6 }, (_, i) => SESSION_NODE_SEEDS + i);
/** Large commands in pieces (options.ts). */
const IN_PIECES = Array.from({ length: 12 }, (_, i) => LARGE_SEEDS + i);

/** Simulations of sessions (sessions/run.ts), a twentieth of a second each: each kind of runs is every fourth seed. */
export const SESSION_SEEDS: readonly number[] = Array.from({ length: 24 }, (_, i) => i + 1);

/**
 * The seed that finds a planted bug (src/base/planted-bugs.ts, disk-faults.ts), so that its test need not search for
 * it: finding.ts.
 */
export const FOUND_BY: Readonly<Record<string, number>> = {
  'import-piece-taken-twice': 0x114,
  'import-piece-of-another': 0x114,
  'import-counts-no-hot-bytes': 0xa2,
  'import-numbers-from-one': 0xa2,
  'import-goes-on-counting': 0xa2,
  'import-keeps-old-buckets': 0xa2,
  'import-takes-over-at-once': 0x3b,
  'import-undone-by-its-own-begin': 0xf,
  'import-undone-but-for-indexes': 0x5004,
  'import-begins-again-late': 0x71,
  'import-mark-not-in-snapshots': 0xd,
  'reads-during-import': 0x5004,
  'writes-during-import': 0xf,
  'export-of-an-import': 0x114,
  'export-without-checkpoint': 0xc95,
  'export-loses-producers': 0xa2,
  'export-loses-start-offset': 0xa2,
  'import-lists-no-lifetimes': 0x114,
  'import-lists-no-hot-streams': 0xa2,
  'sent-back-goes-last': 0x78018,
  'session-answers-overtake': 0x1,
  'session-turns-ignored': 0x1,
  'session-keeps-message': 0x1,
  'session-budget-kept': 0x1,
  'session-read-turn-kept': 0x2,
  'session-credit-free': 0x4,
  'session-credit-unheard': 0x5000,
  'session-stall-ignored': 0x7,
  'entry-unbounded': 0x16,
  'missing-in-the-end': 0x17,
  'confirmed-but-not-applied': 0x5004,
  'frontier-moves-back': 0xb,
  'deleted-on-ambiguous-commit': 0x4d,
  'wrong-incarnation-accepted': 0xb,
  'flush-anywhere': 0xb,
  'sweep-takes-uploads': 0xb,
  'sweep-takes-merges': 0xb,
  'merge-keeps-references': 0xb,
  'marks-known-objects': 0x5005,
  'pack-counted-short': 0xb,
  'release-counts-double': 0xb,
  'split-shifts-bytes': 0xb,
  'split-loses-the-rest': 0xb,
  'forgotten-before-removed': 0x1f,
  'gc-without-removal': 0xb,
  'retention-takes-one-more': 0xb,
  'start-offset-passes-rows': 0x2c,
  'rows-stay': 0xb,
  'snapshots-stay': 0xb,
  'foreign-objects-taken': 0xb,
  'flushed-bytes-still-counted': 0xb,
  'expected-offset-ignored': 0x7_700a,
  'quota-lets-one-more-in': 0x2,
  'quota-of-streams-forgotten': 0x5005,
  'quota-not-stored': 0xa2,
  'plan-skips-a-chunk': 0xb,
  'fork-cut-short': 0x7,
  'half-made-fork-shown': 0x5002,
  'fork-never-given-up': 0x7,
  'name-free-while-forks-live': 0x31,
  'name-kept-without-forks': 0x31,
  'living-fork-taken-for-gone': 0x5002,
  'entry-read-back-wrong': 0x42d,
  'log-not-synced': 0x42d,
  'log-checksum-ignored': 0x6a,
  'log-sequence-ignored': 0x42d,
  'unneeded-record-missed': 0x4,
  'rot-taken-for-torn': 0x6a,
  'torn-taken-for-rot': 0xa6,
  'later-record-ignored': 0x5be,
  'covered-record-forgotten': 0xfa,
  'group-not-lost': 0x76008,
  'torn-group-opened': 0x7600c,
  'row-checksum-ignored': 0x74001,
  'repair-not-sent': 0x74000,
  'repair-skips-entries': 0x74014,
  'repair-cuts-log': 0x7400b,
  'entry-applied-otherwise': 0x42d,
  'entry-applied-otherwise, blind': 0x74003,
  'log-freed-early': 0x42d,
  'checkpoint-names-unsynced': 0x79001,
  'checkpoint-ahead-of-log': 0x42d,
  'changes-unbounded': 0x75002,
  'replay-without-checkpoints': 0x75000,
  'ack-before-sync': 0x42d,
  'vote-not-persisted': 0x42d,
  'sent-before-commit': 0x42d,
  'producers-not-in-snapshot': 0x42d,
  'producers-not-in-snapshot, blind': 0x5001,
  'reply-before-apply': 0xa2,
  'reply-before-apply, blind': 0x5000,
  'sent-counts-as-acknowledged': 0x42d,
  'sent-counts-as-acknowledged, blind': 0xf,
  'one-ack-counts-for-two': 0x1,
  'one-ack-counts-for-two, blind': 0x5012,
  'log-tail-forgotten': 0x5002,
  'snapshot-with-wrong-index': 0x42d,
  'snapshot-with-wrong-index, blind': 0x42d,
  'applied-twice': 0x42d,
  'applied-twice, blind': 0x42d,
  'lost-marker-forgotten': 0xfa,
  'lost-marker-forgotten, blind': 0x5001,
  'directories-not-remembered': 0x1d,
  'directories-not-remembered, blind': 0x1d,
  'forwarded-twice': 0x42d,
  'forwarded-twice, blind': 0x42d,
  'broken-link-means-not-done': 0x5000,
  'broken-link-means-not-done, blind': 0x5000,
  'unknown-means-not-done': 0xf,
  'unknown-means-not-done, blind': 0xf,
  'clock-in-apply': 0x42d,
  'checkpoint-not-written': 0x42d,
  'checkpoint-not-written, blind': 0x42d,
  'conflict-not-written': 0xa2,
  'conflict-not-written, blind': 0x5000,
  'any-log-may-lead': 0xf,
  'any-log-may-lead, blind': 0xf,
  'reads-not-held': 0x1d,
  'reads-not-held, blind': 0x5001,
  'missing-not-confirmed': 0x42d,
  'missing-not-confirmed, blind': 0x42d,
  'mark-forgotten': 0x114,
  'import-end-unchecked': 0xa2,
  'orphans-not-found': 0xa2,
  'pressure-for-ever': 0x1,
  'old-term-committed-by-counting': 0x1a30,
  'urgent-waits-in-line': 0x72000,
  'requests-wait-in-line': 0x72000,
  'stale-answers-count': 0x70003,
  'window-never-shrinks': 0x70000,
  'latency-taken-for-a-queue': 0x71001,
  'stall-is-endured': 0x70002,
  'pieces-not-bounded': 0x73001,
  'rows-written-over': 0x1e,
  'pieces-mixed-up': 0x73001,
  'partial-not-stored': 0x7300a,
  'partial-outlives-its-term': 0x73000,
};

const PLAIN = Array.from({ length: COUNT }, (_, i) => i + 1);

export const FIXED_SEEDS: readonly number[] = [
  ...new Set([
    ...FOUND_SOMETHING,
    ...TOO_FAR_BEHIND,
    ...PLAIN,
    ...BEHIND_THIN_LINKS,
    ...REQUESTS,
    ...STARVED,
    ...SLOW,
    ...IN_PIECES,
    ...ROW_ROT,
    ...GROUP_ROT,
    ...COMPARING,
    ...WITH_SESSIONS,
    ...SYNCING,
    ...Object.values(FOUND_BY),
  ]),
];

/** The seeds on record showed these until the draws changed, and neither do the fixed ones: new seeds have to be found. */
export const SOUGHT: ReadonlySet<string> = new Set([
  ...['old-term-committed-by-counting', 'partial-not-stored', 'sweep-takes-merges', 'fork-cut-short'],
  ...['directories-not-remembered', 'directories-not-remembered, blind', 'quota-of-streams-forgotten'],
  'vote-not-persisted, blind',
  ...['export-of-an-import', 'import-piece-of-another'],
  'import-end-unchecked',
]);

export function restoringSeeds(count: number): readonly number[] {
  return FIXED_SEEDS.filter((seed) => drawOptions(seed).backup.restore !== undefined).slice(0, count);
}

/** `npm test` looks for these: for each checker bugs that it finds within a second. */
export const TESTED_BUGS: readonly string[] = [
  // Consensus, and votes and entries on disk.
  ...['sent-before-commit', 'one-ack-counts-for-two', 'vote-not-persisted', 'conflict-not-written', 'mark-forgotten'],
  // Disks that give back other bytes.
  ...['log-not-synced', 'log-checksum-ignored', 'rot-taken-for-torn', 'row-checksum-ignored', 'ack-before-sync'],
  ...['torn-taken-for-rot', 'later-record-ignored', 'covered-record-forgotten'],
  // Histories, and what clients alone see.
  ...['reply-before-apply', 'missing-not-confirmed', 'unknown-means-not-done', 'forwarded-twice'],
  'expected-offset-ignored',
  ...['applied-twice, blind', 'snapshot-with-wrong-index, blind'],
  // Replicas.
  ...['applied-twice', 'clock-in-apply', 'quota-not-stored'],
  // The cold store.
  ...['frontier-moves-back', 'flushed-bytes-still-counted', 'merge-keeps-references', 'gc-without-removal'],
  ...['wrong-incarnation-accepted', 'plan-skips-a-chunk', 'deleted-on-ambiguous-commit'],
  // Backups.
  ...['export-loses-producers', 'import-counts-no-hot-bytes', 'import-undone-by-its-own-begin', 'writes-during-import'],
  // Forks, and liveness.
  ...['half-made-fork-shown', 'pressure-for-ever', 'partial-outlives-its-term'],
  // Sessions.
  ...['session-answers-overtake', 'session-turns-ignored', 'session-keeps-message', 'session-budget-kept'],
  ...['session-read-turn-kept', 'session-credit-free', 'session-credit-unheard', 'session-stall-ignored'],
  // Bounds and links.
  ...['quota-lets-one-more-in', 'changes-unbounded', 'pieces-not-bounded', 'stale-answers-count'],
];

/**
 * `npm test` runs these: every kind of runs, by a part of the work of all fixed seeds. Most kinds have one; those
 * behind thin links that take five to ten seconds have none: large requests, and leaderships that are given up.
 */
export const TESTED_SEEDS: readonly number[] = [
  ...FOUND_SOMETHING,
  ...EVENTFUL,
  ...[SESSION_NODE_SEEDS + 1, THIN_SEEDS + 3, STARVED_SEEDS + 1, SLOW_SEEDS + 5, LARGE_SEEDS],
  ...[ROW_ROT_SEEDS + 4, GROUP_ROT_SEEDS + 3, COMPARE_SEEDS, SYNC_SEEDS],
  ...FOUND_ROW_ROT,
];
