import { assert } from '../base/assert.ts';
import { Core } from './core.ts';
import { campaign, onOwnVoteDurable } from './election.ts';
import { advanceCommit } from './commit.ts';
import { entryBytes } from './log.ts';
import { readIndex } from './read-index.ts';
import { appendAsLeader } from './roles.ts';
import { ENTRY_DATA, ENTRY_OVERHEAD_BYTES } from './types.ts';
import type { Configuration, Entry, Message, RaftConfig, Ready, Role } from './types.ts';

const NO_ENTRIES: readonly Entry[] = [];
const NO_MESSAGES: readonly Message[] = [];

/**
 * One node of one Raft group: the only way into this folder. Deterministic: no clock, chance or I/O; time enters by
 * `tick`. Inputs collect until `take` hands out everything that they caused, so many inputs share one disk write.
 * The host's duties are described at `Ready`.
 */
export class Raft {
  readonly #core: Core;
  #inflight = false;
  #inflightTerm = 0;
  #inflightVote = 0;

  constructor(config: RaftConfig) {
    this.#core = new Core(config);
  }

  get term(): number {
    return this.#core.term;
  }
  get leader(): number {
    return this.#core.leader;
  }
  get role(): Role {
    return this.#core.role;
  }
  get commitIndex(): number {
    return this.#core.log.commit;
  }
  get lastIndex(): number {
    return this.#core.log.last;
  }
  get configuration(): Configuration {
    return this.#core.configuration;
  }
  get mayVote(): boolean {
    return this.#core.mayVote;
  }

  campaign(): void {
    campaign(this.#core);
  }

  tick(): void {}

  step(message: Message): void {
    assert(message.to === this.#core.id, `message for node ${message.to}`);
  }

  /** Appends to the log; the index, or 0 when this node does not lead, is handing over or has too much uncommitted. */
  propose(data: Uint8Array): number {
    const core = this.#core;
    if (core.role !== 'leader' || core.transferee !== 0 || !core.isVoter()) return 0;
    const bytes = core.uncommittedBytes + data.length + ENTRY_OVERHEAD_BYTES;
    if (bytes > core.config.maxUncommittedBytes && core.uncommittedBytes > 0) return 0;
    return appendAsLeader(core, ENTRY_DATA, data).index;
  }

  readIndex(context: number): boolean {
    return readIndex(this.#core, context);
  }

  hasReady(): boolean {
    const core = this.#core;
    return (
      (!this.#inflight && (this.#hardStateChanged() || core.log.handed < core.log.last || core.afterPersist.length > 0)) ||
      core.log.hasDeliverable() ||
      core.send.length > 0 ||
      core.readStates.length > 0
    );
  }

  take(): Ready {
    const core = this.#core;
    const { log } = core;
    let hardState: Ready['hardState'];
    let entries = NO_ENTRIES;
    let afterPersist = NO_MESSAGES;
    let mustPersist = false;
    if (!this.#inflight) {
      if (this.#hardStateChanged()) hardState = { term: core.term, vote: core.vote, commit: log.commit };
      if (log.handed < log.last) entries = log.takeUnhanded();
      if (core.afterPersist.length > 0) {
        afterPersist = core.afterPersist;
        core.afterPersist = [];
      }
      mustPersist = hardState !== undefined || entries.length > 0;
      this.#inflight = mustPersist;
      this.#inflightTerm = core.term;
      this.#inflightVote = core.vote;
    }
    let committed = NO_ENTRIES;
    if (log.hasDeliverable()) {
      committed = log.takeDeliverable(core.config.maxUncommittedBytes);
      if (core.uncommittedBytes > 0) this.#uncharge(committed);
    }
    return {
      hardState,
      entries,
      snapshot: undefined,
      mustPersist,
      persistIndex: log.handed,
      persistTerm: log.term(log.handed),
      send: core.send.length === 0 ? NO_MESSAGES : core.send.splice(0),
      afterPersist,
      committed,
      readStates: core.readStates.length === 0 ? [] : core.readStates.splice(0),
    };
  }

  /** Everything that the last `take` with `mustPersist` handed out is on disk. */
  persisted(index: number, _term: number): void {
    const core = this.#core;
    if (!this.#inflight) return;
    this.#inflight = false;
    core.durableTerm = this.#inflightTerm;
    core.durableVote = this.#inflightVote;
    core.log.stableTo(Math.min(index, core.log.handed));
    if (core.durableTerm === core.term && core.durableVote === core.id) onOwnVoteDurable(core);
    if (core.role === 'leader') advanceCommit(core);
  }

  /** Entries up to `index` are in the applied state. */
  applied(index: number): void {
    this.#core.appliedTo(index);
  }

  /** The stored log was purged up to and including `index`. */
  compacted(index: number): void {
    this.#core.log.compactTo(index);
  }

  #hardStateChanged(): boolean {
    return this.#core.term !== this.#core.durableTerm || this.#core.vote !== this.#core.durableVote;
  }

  #uncharge(committed: readonly Entry[]): void {
    let bytes = 0;
    for (const entry of committed) bytes += entryBytes(entry);
    this.#core.uncommittedBytes = Math.max(0, this.#core.uncommittedBytes - bytes);
  }
}
