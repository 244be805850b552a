import { assert } from '../../../src/base/assert.ts';
import { decodeConfiguration } from '../../../src/raft/configuration.ts';
import { Raft } from '../../../src/raft/raft.ts';
import { ENTRY_CONFIG } from '../../../src/raft/types.ts';
import type { Configuration, Entry, HardState, Message, ReadState, Ready } from '../../../src/raft/types.ts';
import { MemoryLog } from './memory-log.ts';

/** The part that survives a crash. The applied state of these tests is the list of all applied entries. */
export interface Disk {
  readonly log: MemoryLog;
  hardState: HardState;
  mayVote: boolean;
  applied: Entry[];
  configuration: Configuration;
}

export interface NodeOptions {
  readonly electionTicks: number;
  readonly heartbeatTicks: number;
  readonly maxMessageBytes: number;
  readonly maxInflightBytes: number;
}

export const SMALL_OPTIONS: NodeOptions = {
  electionTicks: 10,
  heartbeatTicks: 2,
  maxMessageBytes: 1024,
  maxInflightBytes: 4096,
};

/** Applied states that travel with snapshot messages, by index: applied states are equal at equal index. */
export type Payloads = Map<number, Entry[]>;

export function emptyDisk(configuration: Configuration): Disk {
  return {
    log: new MemoryLog(),
    hardState: { term: 0, vote: 0, commit: 0 },
    mayVote: true,
    applied: [],
    configuration,
  };
}

/** A host as small as it can be: one disk, one raft, a write that takes as long as the test likes. */
export class TestNode {
  readonly id: number;
  readonly disk: Disk;
  readonly raft: Raft;
  /** Applied in memory; `checkpoint` copies it to the disk. */
  readonly applied: Entry[];
  configuration: Configuration;
  readonly reads: ReadState[] = [];
  /** Its applied state is damaged, and it applies nothing. */
  isStopped = false;
  /** Lets a scenario tell what is going on. */
  onReady: ((ready: Ready) => void) | undefined = undefined;
  readonly #payloads: Payloads;
  #writing: Ready | undefined;

  constructor(id: number, disk: Disk, options: NodeOptions, seed: number, payloads: Payloads) {
    this.id = id;
    this.disk = disk;
    this.applied = [...disk.applied];
    this.configuration = disk.configuration;
    this.#payloads = payloads;
    this.raft = new Raft({
      nodeId: id,
      ...options,
      maxEntryBytes: 1e8,
      maxUncommittedBytes: 16 * 1024,
      seed,
      lost: disk.mayVote ? 0 : 1,
      log: disk.log,
      hardState: disk.hardState,
      configuration: disk.configuration,
      applied: this.applied.length,
      snapshotIndex: disk.log.snapshotIndex,
      snapshotTerm: disk.log.snapshotTerm,
    });
  }

  /** A disk write is under way. */
  get isWriting(): boolean {
    return this.#writing !== undefined;
  }

  /** First half of a turn: hands out work, begins the write. Returns what may leave without it. */
  begin(): Message[] {
    if (this.isStopped) this.#passOn();
    const ready = this.raft.take();
    this.onReady?.(ready);
    for (const entry of ready.committed) {
      // Invariant 1: applied state never runs ahead of the local log.
      const stored = entry.index <= this.disk.log.lastIndex() && this.disk.log.term(entry.index) === entry.term;
      assert(stored, `node ${this.id} is to apply ${entry.index}, which its disk does not have`);
      if (!this.isStopped) this.#apply(entry);
    }
    const last = ready.committed[ready.committed.length - 1];
    if (last !== undefined) this.raft.applied(last.index);
    const sent = ready.send.filter((message) => !this.isStopped || message.type !== 'snapshot');
    for (const message of ready.send) {
      if (message.type !== 'snapshot') continue;
      const { index } = message.snapshot;
      if (this.isStopped) this.raft.snapshotFailed(message.to);
      else this.#payloads.set(index, this.applied.slice(0, index));
    }
    this.reads.push(...ready.readStates);
    if (!ready.mustPersist) {
      for (const message of ready.afterPersist) this.#checkDurable(message);
      return [...sent, ...ready.afterPersist];
    }
    assert(this.#writing === undefined, 'two writes at once');
    this.#writing = ready;
    return sent;
  }

  /** Second half: the write is on disk; what waited for it may leave. */
  finish(): readonly Message[] {
    const ready = this.#writing;
    if (ready === undefined) return [];
    this.#writing = undefined;
    const { disk } = this;
    if (ready.snapshot !== undefined) {
      const payload = this.#payloads.get(ready.snapshot.index);
      assert(payload !== undefined, `no payload for the snapshot at ${ready.snapshot.index}`);
      if (!ready.keepsLog) disk.log.install(ready.snapshot.index, ready.snapshot.term);
      this.isStopped = false;
      this.applied.splice(0, this.applied.length, ...payload);
      this.configuration = ready.snapshot.configuration;
      this.checkpoint();
    }
    if (ready.hardState !== undefined) disk.hardState = ready.hardState;
    disk.log.write(ready.entries);
    this.raft.persisted(ready.persistIndex);
    disk.mayVote = this.raft.mayVote;
    for (const message of ready.afterPersist) this.#checkDurable(message);
    return ready.afterPersist;
  }

  /** A whole turn with a fast disk. */
  turn(): Message[] {
    return [...this.begin(), ...this.finish()];
  }

  /** Nothing in memory can be trusted: what the checkpoint has is kept, and the rest comes from a leader. */
  stop(): void {
    this.isStopped = true;
    this.applied.splice(this.disk.applied.length);
    this.configuration = this.disk.configuration;
    this.raft.electionPriority = 'low';
    this.raft.wantState(true);
  }

  checkpoint(): void {
    this.disk.applied = [...this.applied];
    this.disk.configuration = this.configuration;
    // The lazy commit marker rides along.
    this.disk.hardState = { ...this.disk.hardState, commit: Math.max(this.disk.hardState.commit, this.applied.length) };
  }

  /** Compacts the log up to `index`, which the checkpoint must cover. */
  compact(index: number): void {
    assert(index <= this.disk.applied.length, 'the checkpoint must cover what is compacted');
    this.disk.log.compact(index);
    this.raft.compacted(index);
  }

  /** Terms of the log as the raft sees it, from its first known index on. */
  logTerms(): number[] {
    const terms: number[] = [];
    for (let index = this.raft.lastIndex; index > 0; index -= 1) {
      const term = this.raft.termAt(index);
      if (term < 0) break;
      terms.unshift(term);
    }
    return terms;
  }

  #passOn(): void {
    for (const { node } of this.raft.peers()) if (this.raft.transferLeadership(node) === 'started') return;
  }

  #apply(entry: Entry): void {
    assert(
      entry.index === this.applied.length + 1,
      `node ${this.id} applies ${entry.index} after ${this.applied.length}`,
    );
    this.applied.push(entry);
    if (entry.kind === ENTRY_CONFIG) this.configuration = decodeConfiguration(entry.data);
  }

  /** Invariant 4, seen from outside: votes and acknowledgements speak of what the disk has. */
  #checkDurable(message: Message): void {
    const { hardState, log } = this.disk;
    if (message.type === 'vote-response' && message.granted && hardState.term === message.term) {
      assert(hardState.vote === message.to, `node ${this.id} sends a vote that its disk does not know`);
    }
    assert(
      hardState.term >= message.term,
      `node ${this.id} speaks of term ${message.term}, disk has ${hardState.term}`,
    );
    if (message.type === 'append-response' && !message.reject) {
      assert(
        log.lastIndex() >= message.index,
        `node ${this.id} acknowledges ${message.index}, disk has ${log.lastIndex()}`,
      );
    }
  }
}
