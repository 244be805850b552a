// Turns as a shard hands them to its store, and logs as text.
import { Buffer } from 'node:buffer';
import { ENTRY_DATA, type Entry, type HardState, type LogReader } from '../../src/raft/types.ts';
import type { StoredVote, TurnBatch } from '../../src/shard/ports.ts';
import type { ShardStore } from '../../src/store/shard-store.ts';

export function entry(index: number, term: number, text = `${index}@${term}`): Entry {
  return { index, term, kind: ENTRY_DATA, data: new Uint8Array(Buffer.from(text)) };
}

export function batch(group: number, entries: readonly Entry[], hardState?: HardState): TurnBatch {
  const last = entries.at(-1);
  return {
    group,
    entries,
    hardState,
    snapshot: undefined,
    persistIndex: last?.index ?? 0,
  };
}

/** A snapshot takes over: nothing of the log before it counts. */
export function snapshotBatch(group: number, index: number, term: number): TurnBatch {
  const configuration = { voters: [1], votersOutgoing: [], learners: [] };
  return { ...batch(group, []), snapshot: { index, term, configuration } };
}

/** A group's log as text: `first: 1@1 2@1`. */
export function show(log: LogReader): string {
  const entries = log.entries(log.firstIndex(), log.lastIndex() + 1, Infinity);
  return `${log.firstIndex()}: ${entries.map(({ data }) => Buffer.from(data).toString()).join(' ')}`.trim();
}

/** The applied position of each group: index and term. */
export type Applied = ReadonlyMap<number, readonly [index: number, term: number]>;

export const FRESH: Applied = new Map([1, 2].map((group) => [group, [0, 0] as const]));

/** Opens the logs behind what is applied, as a single node does, or one whose groups others have. */
export function openLogs(
  store: ShardStore,
  applied: Applied,
  node: 'single' | 'of three' = 'single',
): Map<number, LogReader> {
  const logs = new Map<number, LogReader>();
  for (const [group, [index, term]] of applied) logs.set(group, store.openLog(group, index, term));
  store.load(node === 'single' ? [...applied.keys()] : []);
  return logs;
}

/** One of those that openLogs() returned. */
export function logOf(logs: ReadonlyMap<number, LogReader>, group: number): LogReader {
  const log = logs.get(group);
  if (log === undefined) throw new Error(`group ${group} is open`);
  return log;
}

/** The state is on disk as it is: what was compacted is no longer needed. */
export function checkpoint(store: ShardStore): void {
  store.startCheckpoint(() => undefined);
  store.endCheckpoint('wait');
}

export function voteOf(store: ShardStore, group: number): StoredVote {
  const { term, vote } = store.vote(group);
  return { term, vote };
}
