/**
 * Ties the log in its segment files to the applied state in LMDB: which log belongs to the state,
 * from which record on it is needed, and up to which record it holds nothing of a group. Also
 * takes over the log of a version that kept it in LMDB.
 */
import { viewOf } from '../base/bytes.ts';
import { caughtMessage } from '../base/caught.ts';
import type { Tx } from '../base/tx.ts';
import { planted } from '../base/planted.ts';
import type { Environment } from './environment.ts';
import type { GroupLog } from './group-log.ts';
import { LmdbLog } from './lmdb-log.ts';
import { type LogFolder, type SegmentFile, isOutOfSpace } from './log-files.ts';
import { type Cut, isUnwritten } from './log-end.ts';
import { LogDamage } from './log-record.ts';
import { type Covered, contentOf, holdsRecords, scanLog } from './log-scan.ts';
import { ownRow } from './own-rows.ts';
import { CUT_ROW, OWN_TAG, VOTE_ROW, decodeLog, encodeLog, systemKey } from './rows.ts';
import type { LogSyncer } from './log-sync.ts';
import { type Salvage, salvageLog } from './log-salvage.ts';
import { type SegmentSizes, Segments } from './segments.ts';
import { TurnLog, type Vote } from './turn-log.ts';

const LOG_KEY = systemKey(OWN_TAG.log, 0);
const LOG_ID_BYTES = 8;

export interface StoredLogOptions {
  readonly environment: Environment;
  readonly tx: Tx;
  readonly folder: LogFolder;
  readonly sizes: SegmentSizes;
  readonly syncer?: LogSyncer | undefined;
  readonly randomBytes: (sizeBytes: number) => Uint8Array;
}

/** A finding of load() that the operator should know. */
export interface LogFinding {
  /** Entries that came from the log of a version before. */
  readonly converted?: number;
  /** The last record, whose write did not end. */
  readonly cut?: Cut;
  /** Segments of which nothing was needed, and why they were not used again. */
  readonly removed?: readonly string[];
}

/** Why a segment of which nothing is needed cannot be used again; undefined: it can. */
function whyUseless(file: SegmentFile, log: bigint): string | undefined {
  try {
    if (isUnwritten(contentOf(file), log)) return undefined;
  } catch (error) {
    return caughtMessage(error);
  }
  return `${file.name} holds what the log did not write`;
}

export class LogStore {
  readonly turns = new TurnLog();
  readonly #options: StoredLogOptions;
  /** Groups whose applied state is not there. */
  readonly abandoned = new Set<number>();
  #log = 0n;
  /** The number of the first record that the last checkpoint on disk needs. */
  #oldest = 1;
  /** The votes of the last write(). */
  #votes: ReadonlyMap<number, Vote> = new Map();

  constructor(options: StoredLogOptions) {
    this.#options = options;
  }

  /** As turns.open(): it begins with the oldest entry from which on there is no gap. */
  abandon(group: number): GroupLog {
    this.abandoned.add(group);
    const log = this.turns.open(group, 0, 0);
    log.startAnywhere();
    return log;
  }

  /** Throws LogDamage: acknowledged entries cannot be read. Nothing was changed then. */
  load(): LogFinding {
    const covered = this.#covered();
    return covered === undefined ? this.#begin() : this.#recover(covered);
  }

  /** Undefined: the store has no log yet. Throws LogDamage. */
  #covered(): Covered | undefined {
    const row = ownRow(this.#options.tx, LOG_KEY);
    const covered = row && decodeLog(row);
    if (row !== undefined && covered === undefined)
      throw new LogDamage('the row that says which log belongs to the state is damaged');
    return covered;
  }

  /** Another log begins behind the state: the one that was there is damaged. Returns where it was moved. */
  replace(): string | undefined {
    const { folder } = this.#options;
    const aside = folder.names().length > 0 ? folder.setAside() : undefined;
    for (const log of this.turns.groups.values()) log.startAt(log.firstIndex() - 1, log.term(log.firstIndex() - 1));
    this.turns.forget();
    this.#create();
    for (const log of this.turns.groups.values()) log.finishLoad();
    return aside;
  }

  /**
   * Another log begins with what can be read of the damaged one, whose files are moved aside. Throws LogDamage when the
   * state does not say which log belongs to it.
   */
  salvage(): Salvage {
    const { environment, folder } = this.#options;
    const covered = this.#covered();
    if (covered === undefined) throw new LogDamage('the state does not say which log belongs to it');
    const files = folder.names().map((name) => folder.open(name));
    const starts = new Map([...this.turns.groups].map(([group, log]) => [group, log.firstIndex()] as const));
    const { groups, ...salvage } = salvageLog(files, covered, { starts, cuts: this.#cuts(covered.log) });
    for (const file of files) file.close();
    this.replace();
    for (const [group, { entries, vote }] of groups) this.turns.append([{ group, entries, hardState: vote }]);
    environment.commit(() => this.write());
    this.written();
    return salvage;
  }

  #recover(covered: Covered): LogFinding {
    const { environment, folder, sizes, syncer } = this.#options;
    const { log, oldest, place } = covered;
    const files = folder.names().map((name) => folder.open(name));
    const removed: string[] = [];
    const isFree = (file: SegmentFile): boolean => {
      const why = whyUseless(file, log);
      // Format 3 wrote no stamps.
      if (why !== undefined && place !== undefined) removed.push(why);
      return why === undefined;
    };
    let cut: Cut | undefined;
    try {
      const found = scanLog(files, covered);
      cut = found.cut;
      const segments = new Segments(folder, log, sizes, syncer);
      this.turns.attach(segments);
      this.turns.load(segments.adopt(files, found, isFree), this.#cuts(log));
    } catch (error) {
      for (const file of files) file.close();
      throw error;
    }
    this.#log = log;
    this.#oldest = oldest;
    if (place === undefined) {
      environment.commit(() => this.write());
      this.written();
    }
    return { ...(cut === undefined ? {} : { cut }), ...(removed.length === 0 ? {} : { removed }) };
  }

  /**
   * A new directory, or one whose log is in LMDB. Nothing counts before the row is
   * there, so a start that was cut off begins again.
   */
  #begin(): LogFinding {
    const { environment, folder, tx } = this.#options;
    const lmdbLog = new LmdbLog(environment.log);
    const isUsed = ownRow(tx, systemKey(OWN_TAG.used, 0)) !== undefined;
    // Before format 3 the log was in LMDB, and may be empty; then there are no records here.
    if (isUsed && lmdbLog.isEmpty && folder.names().some((name) => holdsRecords(() => folder.open(name))))
      throw new LogDamage('the row that says which log belongs to the state is missing, and the log holds records');
    for (const name of folder.names()) folder.remove(name);
    this.#create();
    for (const log of this.turns.groups.values()) log.finishLoad();
    if (lmdbLog.isEmpty) {
      environment.commit(() => this.write());
      return {};
    }
    let converted = 0;
    const firsts = new Map([...this.turns.groups].map(([group, log]) => [group, log.firstIndex()] as const));
    for (const { group, entries } of lmdbLog.entries(firsts)) {
      this.turns.append([{ group, entries, hardState: undefined }]);
      converted += entries.length;
    }
    environment.commit(() => {
      this.write();
      environment.log.clearSync();
    });
    return { converted };
  }

  #create(): void {
    const { folder, sizes, syncer, randomBytes } = this.#options;
    this.#log = viewOf(randomBytes(LOG_ID_BYTES)).getBigUint64(0);
    this.#oldest = 1;
    const segments = new Segments(folder, this.#log, sizes, syncer);
    segments.reserve(0);
    this.turns.attach(segments);
  }

  #cuts(log: bigint): Map<number, number> {
    const cuts = new Map<number, number>();
    for (const group of this.turns.groups.keys()) {
      if (this.abandoned.has(group)) continue;
      const row = this.#options.tx.get(systemKey(OWN_TAG.cut, group));
      if (row === undefined) continue;
      const cut = CUT_ROW.decode(row);
      if (cut.log === log) cuts.set(group, cut.sequence);
    }
    return cuts;
  }

  seal(): void {
    try {
      this.turns.segments.seal();
    } catch (error) {
      // Without room for it, the end of the log is what it was.
      if (!isOutOfSpace(error)) throw error;
    }
  }

  /** Inside each commit of a checkpoint: what it covers, and the votes that only the log has. written() follows. */
  write(): void {
    const { tx } = this.#options;
    const { lastSequence: last } = this.turns.segments;
    this.#oldest = this.turns.segments.oldestNeeded;
    if (planted('log-freed-early')) this.#oldest = last + 1;
    tx.put(
      LOG_KEY,
      encodeLog({
        ...{ log: this.#log, oldest: this.#oldest, place: this.turns.segments.place },
        last: planted('checkpoint-ahead-of-log') ? last + 1 : last,
      }),
    );
    this.#votes = this.turns.unsavedVotes();
    for (const [group, vote] of this.#votes) this.#putVote(group, vote);
  }

  /** Inside the commit in which a snapshot takes over: nothing that the log holds of the group counts from now on. */
  cut(group: number, vote: Vote | undefined): void {
    const { lastSequence: sequence } = this.turns.segments;
    const { tx } = this.#options;
    tx.put(systemKey(OWN_TAG.cut, group), CUT_ROW.encode({ log: this.#log, sequence }));
    const last = vote ?? this.turns.vote(group);
    if (last !== undefined) this.#putVote(group, last);
  }

  /** The commit with write() is on disk. */
  written(): void {
    this.turns.votesSaved(this.#votes);
    this.turns.segments.release(this.#oldest);
  }

  #putVote(group: number, { term, vote }: Vote): void {
    this.#options.tx.put(systemKey(OWN_TAG.vote, group), VOTE_ROW.encode({ term, vote }));
  }
}
