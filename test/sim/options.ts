/** Everything that a seed decides before its run begins. Each kind of fault is absent, usual or frequent in a run. */
import { type BackupOptions, NO_BACKUP, drawBackup } from './backup/options.ts';
import { COLD_STORM, type ColdOptions, drawCold } from './cold/options.ts';
import type { PieceBounds } from '../../src/group/large-commands.ts';
import type { PinBounds } from '../../src/shard/log-pins.ts';
import type { NetworkOptions } from './network.ts';
import { type Random, createRandom } from '../support/random.ts';

export interface SimOptions {
  readonly seed: number;
  readonly nodes: readonly number[];
  /** First voters; the other nodes start outside the groups. */
  readonly voters: readonly number[];
  readonly groups: readonly number[];
  /** Those that clients use from the start; one more may be there for a backup to come into. */
  readonly served: readonly number[];
  readonly clients: number;
  /** Length of the phase with faults, in simulated milliseconds. */
  readonly safetyMs: number;
  readonly thinkMs: number;
  readonly network: NetworkOptions;
  readonly disk: DiskOptions;
  /** One node is behind thin links, and nothing else happens. */
  readonly thin: ThinLinks | undefined;
  /** All nodes get the processor rarely, and nothing else happens. */
  readonly starved: boolean;
  /** Bounds of Raft's messages. */
  readonly messages: { readonly maxMessageBytes: number; readonly maxInflightBytes: number };
  /** Target size for combining commands into entries; undefined: as in a server. */
  readonly entryFillBytes: number | undefined;
  /** How large commands are cut; undefined: as in a server, where none is that large. */
  readonly pieces: PieceBounds | undefined;
  /** Chance that an append is many times as large as usual. */
  readonly large: number;
  /** Chance that a new leader is struck within a few messages' time: elections follow each other, and logs diverge. */
  readonly ambush: number;
  /** Each node gives leaderships away that it has too many of. */
  readonly balanced: boolean;
  /** Nodes outside the groups come with an empty disk that counts as a lost one, as a node that is added does. */
  readonly lostOutside: boolean;
  /** Some clients fork streams. */
  readonly forks: boolean;
  /** Undefined: a run without a cold store. */
  readonly cold: ColdOptions | undefined;
  readonly backup: BackupOptions;
  /** Short-lived streams have their own bucket, which is purged occasionally. */
  readonly purges: boolean;
  /** Buckets get bounds, for a while. */
  readonly quotas: boolean;
  /** Some clients are sessions. */
  readonly sessions: boolean;
  /** Appends of text say where they expect to begin. */
  readonly compares: boolean;
  /** Mean time between two faults of a kind, in milliseconds; Infinity: never. */
  readonly faults: Readonly<Record<FaultKind, number>>;
  /** Mean time between two times that bits of a log flip. */
  readonly rotMs: number;
  /** The same of rows of the state, on one node at a time. */
  readonly rowRotMs?: number;
  /** Mean time between changes of rows without which a group cannot be opened. */
  readonly groupRotMs?: number;
  /** How far a node that gets a snapshot may be behind, if not as usual. */
  readonly pinBounds?: PinBounds;
  /** Checkpoints take up to so much longer, and changes that wait for them have one of these bounds in bytes. */
  readonly slowCheckpoints?: { readonly extraMs: number; readonly changedBytesMax: readonly [number, number] };
  /** Syncs of the log take up to so long, and the shards go on meanwhile. */
  readonly slowSyncMs?: number;
}

/**
 * thin: traffic to the node, or both ways, has little bandwidth. large: only small messages leave it. stale: answers to
 * it trickle in, and eventually nothing from it arrives. requests: its clients send large bodies and small ones, for
 * leaders elsewhere, and traffic from it has little bandwidth.
 */
export type ThinLinks = 'thin in' | 'thin both' | 'large' | 'stale' | 'requests';

export interface DiskOptions {
  readonly commitMs: number;
  /** Chance that the process dies in a commit. */
  readonly crash: number;
  /** Log that slow followers are left, in bytes: beyond it they get a snapshot. */
  readonly logKeptBytes: number;
  readonly chunkBytes: number;
}

/** Interval in seeds. */
const STORM_EVERY = 8;
const COLD_STORM_EVERY = 11;
const FORKS_EVERY = 7;
/** First seed, and number of seeds: nodes that get snapshots fall too far behind. */
const LAGGING_FROM = 0x5000;
const LAGGING = 256;
/** Entries that a few appends fill: seeds that found bugs before keep theirs. */
const SMALL_ENTRIES_EVERY = 13;
const SMALL_ENTRIES_AT = 9;
const SMALL_ENTRY_BYTES = 300;

export const FAULT_KINDS = [
  'crash',
  'blackout',
  'stop',
  'pause',
  'partition',
  'oneway',
  'reset',
  'full',
  'slow',
  'clock',
  'wipe',
  'transfer',
  'membership',
  'purge',
  'shed',
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

/** Mean time between two faults in a run with the usual number of them. */
const USUAL_MS: Readonly<Record<FaultKind, number>> = {
  crash: 5000,
  blackout: 9000,
  stop: 9000,
  pause: 7000,
  partition: 8000,
  oneway: 9000,
  reset: 4000,
  full: 9000,
  slow: 8000,
  clock: 8000,
  wipe: 4000,
  transfer: 4000,
  membership: 3000,
  purge: 3000,
  shed: 9000,
};

/** They found their bugs when there were no backups and no quotas in a run, and would not with them. */
const AS_BEFORE: ReadonlySet<number> = new Set([0x42d]);

/** Runs with thin links have separate seeds, so that all others stay as they are. */
export const THIN_SEEDS = 0x7_0000;
/** And so do those with nodes that get the processor rarely. */
export const STARVED_SEEDS = 0x7_1000;
export const REQUEST_SEEDS = 0x7_2000;
/** And those whose checkpoints take longer than the writes that they hold. */
export const SLOW_SEEDS = 0x7_5000;
/** And those in which large commands are cut into pieces. */
export const LARGE_SEEDS = 0x7_3000;
/** And those whose disks change rows of the state. */
export const ROW_ROT_SEEDS = 0x7_4000;
/** And those whose disks also change rows about whole groups. */
export const GROUP_ROT_SEEDS = 0x7_6000;
/** And those whose clients compare and append. */
export const COMPARE_SEEDS = 0x7_7000;
/** And those with sessions. */
export const SESSION_NODE_SEEDS = 0x7_8000;
/** And those whose logs are synced while the shards go on. */
export const SYNC_SEEDS = 0x7_9000;
const THIN_KINDS: readonly ThinLinks[] = ['thin in', 'thin both', 'large', 'stale'];

export function drawOptions(seed: number): SimOptions {
  const options = drawUsual(seed);
  const isAmong = (seeds: number): boolean => Math.floor(seed / 0x1000) === seeds / 0x1000;
  const thin = isAmong(THIN_SEEDS) ? THIN_KINDS[seed % THIN_KINDS.length] : undefined;
  if (thin !== undefined) return { ...betweenThreeNodes(options), thin };
  if (isAmong(REQUEST_SEEDS)) return { ...betweenThreeNodes(options), thin: 'requests' };
  if (isAmong(STARVED_SEEDS)) return { ...betweenThreeNodes(options), starved: true };
  if (isAmong(SLOW_SEEDS)) return slow(options);
  if (isAmong(LARGE_SEEDS)) return inPieces(options);
  if (isAmong(ROW_ROT_SEEDS)) return rowRot(options);
  if (isAmong(GROUP_ROT_SEEDS)) return { ...rowRot(options), rowRotMs: 2000, groupRotMs: 1500 };
  if (isAmong(COMPARE_SEEDS)) return { ...options, compares: true };
  if (isAmong(SESSION_NODE_SEEDS)) return withSessions(options);
  if (isAmong(SYNC_SEEDS)) return slowSyncs(options);
  if (AS_BEFORE.has(seed))
    return { ...options, backup: NO_BACKUP, groups: options.served, quotas: false, rotMs: Infinity };
  if (seed >= LAGGING_FROM && seed < LAGGING_FROM + LAGGING) return lagging(options);
  if (seed % STORM_EVERY === 0) return storm(options);
  return seed % COLD_STORM_EVERY === 0 ? coldStorm(options) : options;
}

/**
 * Leader after leader falls, and each message holds one entry: for what needs several elections in a row with logs that
 * differ (thesis figures 7 and 8). Longer, because an election takes its time, and cheap, because little happens else.
 */
function storm(options: SimOptions): SimOptions {
  const quiet = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, Infinity])) as Record<FaultKind, number>;
  return {
    ...options,
    nodes: [1, 2, 3],
    voters: [1, 2, 3],
    groups: [0],
    served: [0],
    clients: 4,
    safetyMs: 60_000,
    thinkMs: 100,
    network: { ...options.network, delayMs: 10 },
    disk: { ...options.disk, commitMs: 1, crash: 0.005 },
    messages: { maxMessageBytes: 1, maxInflightBytes: 1 },
    ambush: 0.9,
    balanced: false,
    forks: false,
    cold: undefined,
    backup: NO_BACKUP,
    purges: false,
    quotas: false,
    faults: { ...quiet, crash: 10_000, transfer: 10_000 },
    rotMs: Infinity,
  };
}

/** Nothing but the links and the nodes' turns matters. */
function betweenThreeNodes(options: SimOptions): SimOptions {
  return {
    ...options,
    nodes: [1, 2, 3],
    voters: [1, 2, 3],
    groups: [0, 1, 2],
    served: [0, 1, 2],
    clients: 2,
    safetyMs: 25_000,
    thinkMs: 200,
    network: { delayMs: 1, loss: 0, duplicate: 0, reorder: 0 },
    disk: { commitMs: 0.3, crash: 0, logKeptBytes: 4 * 1024 * 1024, chunkBytes: 200_000 },
    messages: { maxMessageBytes: 1024 * 1024, maxInflightBytes: 16 * 1024 * 1024 },
    ambush: 0,
    balanced: false,
    lostOutside: false,
    forks: false,
    cold: undefined,
    backup: NO_BACKUP,
    purges: false,
    quotas: false,
    faults: Object.fromEntries(FAULT_KINDS.map((kind) => [kind, Infinity])) as Record<FaultKind, number>,
    rotMs: Infinity,
  };
}

/** Nodes restart all the time, every second time with logs that are larger than what may wait for a checkpoint. */
function slow(options: SimOptions): SimOptions {
  const quiet = betweenThreeNodes(options);
  return {
    ...quiet,
    clients: 16,
    safetyMs: 15_000,
    thinkMs: 20,
    entryFillBytes: 1,
    disk: { ...quiet.disk, crash: 0.0005 },
    faults: { ...quiet.faults, crash: 3000, stop: 6000, transfer: 4000 },
    slowCheckpoints: { extraMs: 3000, changedBytesMax: [2500, 100_000] },
  };
}

/** Every second time logs diverge as well, and processes die often: what replaces entries is not on disk then. */
function slowSyncs(options: SimOptions): SimOptions {
  const slowSyncMs = [3, 30, 300][options.seed % 3] as number;
  if (options.seed % 2 === 1) return { ...options, slowSyncMs };
  const stormy = storm(options);
  return { ...stormy, slowSyncMs, safetyMs: 20_000, faults: { ...stormy.faults, crash: 1500 } };
}

/** A disk is not lost as well: then too few would have the row. */
function rowRot(options: SimOptions): SimOptions {
  const { seed, faults } = options;
  const logKeptBytes = [1, 4000, 4 * 1024 * 1024][seed % 3] as number;
  return {
    ...options,
    ...{ forks: false, cold: undefined, backup: NO_BACKUP, groups: options.served, rotMs: Infinity },
    disk: { ...options.disk, logKeptBytes },
    faults: { ...faults, wipe: Infinity },
    rowRotMs: 500,
  };
}

/** Sessions' streams stay, so nothing else may be about a whole node. */
function withSessions(options: SimOptions): SimOptions {
  const { served } = options;
  return {
    ...options,
    sessions: true,
    forks: false,
    cold: undefined,
    backup: NO_BACKUP,
    groups: served,
    quotas: false,
  };
}

/** Every fourth append takes several turns, and nodes change in the middle of it. */
function inPieces(options: SimOptions): SimOptions {
  const piece = [300, 700, 1500][options.seed % 3] as number;
  return { ...options, pieces: { piece, turn: piece, alone: piece, inFlight: 3 * piece }, large: 0.25 };
}

/** Next to no log is kept, and the network is slow. */
function lagging(options: SimOptions): SimOptions {
  const { seed, faults } = options;
  return {
    ...options,
    clients: 8,
    thinkMs: 20,
    network: { ...options.network, delayMs: 30 },
    disk: { ...options.disk, commitMs: 0.3, logKeptBytes: 1, chunkBytes: 200 },
    faults: { ...faults, crash: USUAL_MS.crash, partition: USUAL_MS.partition },
    pinBounds: { bytes: [300, 2000, 10_000][seed % 3] as number, entries: 1000 },
  };
}

/** Leaderships go to and fro while the cold store answers late. */
function coldStorm(options: SimOptions): SimOptions {
  const { seed } = options;
  const quiet = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, Infinity])) as Record<FaultKind, number>;
  return {
    ...options,
    nodes: [1, 2, 3],
    voters: [1, 2, 3],
    groups: [0],
    served: [0],
    clients: 6,
    safetyMs: 20_000,
    thinkMs: 20,
    network: { ...options.network, delayMs: seed % 2 === 0 ? 1 : 25, loss: 0 },
    disk: { ...options.disk, commitMs: 0.3, crash: 0 },
    messages: { maxMessageBytes: 1024 * 1024, maxInflightBytes: 16 * 1024 * 1024 },
    ambush: 0,
    balanced: false,
    cold: COLD_STORM,
    backup: { exportsMs: 2500, restore: undefined },
    purges: COLD_STORM.purges,
    quotas: false,
    faults: { ...quiet, transfer: [700, 4000, Infinity][seed % 3] as number, partition: 3000, crash: 10_000 },
    rotMs: Infinity,
  };
}

function drawUsual(seed: number): SimOptions {
  const random = createRandom(seed ^ 0x0f71_0a5e);
  const size = random.pick([3, 3, 3, 4, 5]);
  const nodes = Array.from({ length: size }, (_, i) => i + 1);
  const served = Array.from({ length: random.pick([1, 2, 2, 3]) }, (_, i) => i);
  const faults = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, frequency(random, kind)]));
  // A node outside the groups is only useful when the operator adds it.
  if (size === 4 && faults['membership'] === Infinity) faults['membership'] = USUAL_MS.membership;
  const clients = random.int(3, 8);
  const safetyMs = random.int(8, 16) * 1000;
  const cold = drawCold(seed);
  const tenants = createRandom(seed ^ 0x7e4a_0b51);
  const forks = seed % FORKS_EVERY === 0;
  const drawn = drawBackup(seed, served.length, safetyMs);
  // Forks refer to streams of other groups, by names that are taken there.
  const backup = forks ? { ...drawn, restore: undefined } : drawn;
  return {
    seed,
    nodes,
    voters: size === 4 ? [1, 2, 3] : nodes,
    groups: backup.restore === undefined ? served : [...served, backup.restore.target],
    served,
    clients,
    safetyMs,
    thinkMs: random.pick([20, 60, 200]),
    network: {
      delayMs: random.pick([0.3, 1, 5, 30]),
      loss: random.pick([0, 0.01, 0.05, 0.2]),
      duplicate: random.pick([0, 0.02, 0.1]),
      reorder: random.pick([0, 0.05, 0.3]),
    },
    disk: {
      commitMs: random.pick([0.3, 1, 4]),
      crash: random.pick([0, 0, 0.002, 0.01]),
      logKeptBytes: random.pick([1, 600, 4000, 4 * 1024 * 1024]),
      chunkBytes: random.pick([200, 2000, 200_000]),
    },
    thin: undefined,
    starved: false,
    messages: random.pick([
      { maxMessageBytes: 1024 * 1024, maxInflightBytes: 16 * 1024 * 1024 },
      { maxMessageBytes: 400, maxInflightBytes: 2000 },
      { maxMessageBytes: 1, maxInflightBytes: 1 },
    ]),
    entryFillBytes: seed % SMALL_ENTRIES_EVERY === SMALL_ENTRIES_AT ? SMALL_ENTRY_BYTES : undefined,
    pieces: undefined,
    large: 0.03,
    ambush: 0,
    balanced: random.chance(0.3),
    lostOutside: random.chance(0.5),
    forks,
    cold,
    backup,
    purges: cold?.purges ?? (!forks && tenants.chance(0.4)),
    quotas: !forks && tenants.chance(0.25),
    sessions: false,
    compares: false,
    faults: faults as Record<FaultKind, number>,
    rotMs: createRandom(seed ^ 0x07b1_f11b).pick([Infinity, Infinity, Infinity, 1500]),
  };
}

function frequency(random: Random, kind: FaultKind): number {
  const factor = random.pick([0, 0, 1, 1, 4]);
  return factor === 0 ? Infinity : USUAL_MS[kind] / factor;
}
