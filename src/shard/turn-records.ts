/**
 * Turns make durable what Raft hands out: all groups' entries and votes become one record of the log. On a slow disk of
 * a cluster it is synced behind the turns: they go on, apply and send what may leave, and gather the next record.
 */
import type { Group } from '../group/group.ts';
import type { Message } from '../raft/types.ts';
import { type Backlog, applyWithin, pieceBytes } from './backlog.ts';
import type { Commits } from './commits.ts';
import type { DamagedGroups } from './damaged-groups.ts';
import type { ReplyTarget, TurnBatch } from './ports.ts';
import type { Queries } from './queries.ts';
import type { Replication } from './replication.ts';
import type { TracedSlots } from './traced-slots.ts';

interface TurnRecordsParts {
  readonly groups: readonly Group[];
  readonly group: (id: number) => Group;
  readonly commits: Commits;
  readonly replication: Replication;
  readonly replies: ReplyTarget;
  readonly backlog: Backlog;
  readonly damaged: DamagedGroups;
  readonly queries: Queries;
  readonly traced: TracedSlots;
  readonly counters: { committedEntries: number };
  /** The group's state up to `index` came with a record that is on disk. */
  readonly installed: (group: Group, index: number) => void;
}

interface TurnRecord {
  readonly batches: TurnBatch[];
  /** Sent once the batches are on disk. */
  readonly messages: { readonly group: Group; readonly messages: readonly Message[] }[];
}

const hasSnapshot = ({ batches }: TurnRecord): boolean => batches.some(({ snapshot }) => snapshot !== undefined);

export class TurnRecords {
  readonly #parts: TurnRecordsParts;
  /** The record that is being gathered, and the one that is being written. */
  #next: TurnRecord = { batches: [], messages: [] };
  #written: TurnRecord | undefined;
  #isStopping = false;

  constructor(parts: TurnRecordsParts) {
    this.#parts = parts;
  }

  /** A received state waits to take over: the disk is full, or another record is being written. */
  get haveSnapshot(): boolean {
    if (this.#written === undefined && this.#next.batches.length === 0) return false;
    return hasSnapshot(this.#next) || this.#parts.groups.some(({ raft }) => raft.hasSnapshot);
  }

  /** Applies what is committed and persists what raft returns; false when nothing was persisted. */
  write(clockMs: number): boolean {
    const { groups, commits, replication, replies } = this.#parts;
    this.#end('look', clockMs);
    // Nothing is sent before the disk has taken what waits, perhaps for days: messages of that time are lost.
    if (commits.pendingRetry.length > 0) for (const { raft } of groups) raft.dropMessages();
    else this.#take();
    const record = this.#next;
    if (record.batches.length === 0 || this.#written !== undefined) return false;
    // This node's disk write runs while its entries travel (thesis 10.2.1) and clients learn of commits.
    replication.release();
    for (const group of groups) group.watchers.flush();
    replies.publish();
    replication.flush();
    const isAwaited = this.#isStopping || !replication.hasOthers || hasSnapshot(record);
    if (!commits.append(record.batches, isAwaited ? 'wait' : 'behind', clockMs)) return false;
    this.#written = record;
    this.#next = { batches: [], messages: [] };
    return this.#end('look', clockMs);
  }

  /** Waits for the record that is being written, and from now on for each. */
  stop(clockMs: number): void {
    this.#isStopping = true;
    this.#end('wait', clockMs);
  }

  /** The record that was being written is on disk. False: it is not, or there was none. */
  #end(how: 'look' | 'wait', clockMs: number): boolean {
    const { commits, group, replication, traced, installed } = this.#parts;
    const record = this.#written;
    if (record === undefined || !commits.endAppend(how, clockMs)) return false;
    this.#written = undefined;
    if (!traced.isEmpty) traced.written();
    for (const { group: id, snapshot, persistIndex } of record.batches) {
      const persisted = group(id);
      persisted.raft.persisted(persistIndex);
      if (snapshot !== undefined) installed(persisted, snapshot.index);
    }
    for (const waiting of record.messages) replication.send(waiting.group, waiting.messages);
    return true;
  }

  /** Raft hands out nothing more to write of a group whose last batch is being written, or waits for that. */
  #take(): void {
    const { groups, backlog, damaged, replication, queries, counters } = this.#parts;
    const { batches, messages } = this.#next;
    let { room } = backlog;
    for (const group of groups) {
      const bytesMax = pieceBytes(room);
      if (!group.raft.hasReady(bytesMax)) continue;
      const ready = group.raft.take(bytesMax);
      const { appliedIndex } = group.state;
      room -= damaged.apply(group, ready.committed, () => applyWithin(room, group, ready.committed));
      counters.committedEntries += group.state.appliedIndex - appliedIndex;
      replication.send(group, ready.send);
      if (ready.readStates.length > 0) queries.confirmed(group, ready.readStates);
      if (!ready.mustPersist) {
        replication.send(group, ready.afterPersist);
        continue;
      }
      if (ready.afterPersist.length > 0) messages.push({ group, messages: ready.afterPersist });
      const { entries, hardState, snapshot, keepsLog, persistIndex } = ready;
      batches.push({ group: group.id, entries, hardState, snapshot, keepsLog, persistIndex });
    }
  }
}
