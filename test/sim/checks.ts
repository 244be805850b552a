/**
 * Invariants inside the cluster at any time, whatever the clients see (src/README.md "Invariants", thesis figure 3.2).
 */
import { Buffer } from 'node:buffer';
import type { Group } from '../../src/group/group.ts';
import { ENTRY_FILL_BYTES } from '../../src/base/limits.ts';
import { ENTRY_DATA, type Entry, type Message } from '../../src/raft/types.ts';
import type { TurnBatch } from '../../src/shard/ports.ts';
import { Command } from '../../src/protocol/command.ts';
import { eachCommand } from '../../src/group/entry.ts';
import { decodePiece } from '../../src/protocol/piece.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import type { SimProcess } from './process.ts';
import { Reference } from './reference.ts';
import type { World } from './world.ts';

/** A command grows a little when it is normalised: line ends, and a list of where records end. */
const NORMALISED_BYTES = 100;

/** Changes of one command here: a batch of large bodies. */
const CHANGES_BYTES_MAX = 30_000;

interface Known {
  readonly data: Uint8Array;
  /** Term of the entry before; -1: not seen yet. */
  termBefore: number;
}

export class Checks {
  readonly references: readonly Reference[];
  readonly counts = {
    checkpoints: 0,
    entries: 0,
    leaders: 0,
    snapshots: 0,
    tooFarBehind: 0,
    repaired: 0,
    compared: 0,
    readBack: 0,
    unwritten: 0,
    slowRefusals: 0,
    pieceBytes: 0,
  };
  /** Voters are those of the start, and every disk is the one of the start: majorities can be counted. */
  countable = true;
  /** Called for each node that begins to lead a term. */
  onLeader: (process: SimProcess) => void = () => {};
  readonly #world: World;
  readonly #command = new Command();
  /** Every entry that ever reached a disk, by group, index and term. */
  readonly #entries = new Map<string, Known>();
  /** By group and term. */
  readonly #leaders = new Map<string, number>();
  /** Applied index of the last checkpoint that was compared, by process and group. */
  readonly #compared = new Map<SimProcess, Map<number, number>>();

  constructor(world: World) {
    this.#world = world;
    this.references = world.options.groups.map((group) => new Reference(group));
  }

  watch(process: SimProcess): void {
    this.#compared.set(process, new Map());
    for (const group of process.shard.groups) {
      group.onCommitted = (entries) => this.#applied(process, group, entries);
    }
    process.store.onCommit = (batches, checkpointed) => {
      this.#shareTurn(process, batches);
      for (const batch of batches) this.#persisted(process, batch);
      if (checkpointed || batches.some(({ snapshot }) => snapshot !== undefined)) this.#compare(process);
    };
    process.peers.onSend = (to, group, message) => this.#leaves(process, to, group, message);
  }

  unwatch(process: SimProcess): void {
    this.#compared.delete(process);
  }

  /** Once per turn: no node starts and stops leading within one. */
  afterTurn(process: SimProcess): void {
    for (const group of process.shard.groups) if (group.leads) this.#leads(process, group);
    this.#waitsForCheckpoints(process);
  }

  /** Applied changes that are not on disk are bounded, also while a start replays its log. */
  #waitsForCheckpoints({ id, shard, changedBytesMax: bound }: SimProcess): void {
    if (bound === undefined) return;
    const { changedBytes, counters } = shard.status;
    if (changedBytes > bound) this.counts.unwritten++;
    this.counts.slowRefusals = Math.max(this.counts.slowRefusals, counters.refusedDiskSlow);
    if (changedBytes > bound + CHANGES_BYTES_MAX) this.#fail(`backlog: n${id} holds ${changedBytes} bytes of changes`);
  }

  #fail(what: string): void {
    if (!this.#world.blind) throw this.#world.failure(what);
  }

  /** State machine safety; and invariant 1 for the first node that applies an entry. */
  #applied(process: SimProcess, group: Group, entries: readonly Entry[]): void {
    const reference = this.references[group.id] as Reference;
    for (const entry of entries) {
      this.counts.entries++;
      const known = reference.entries[entry.index - 1];
      if (entry.index === reference.last + 1) {
        this.#onMajority(process, group.id, entry);
        reference.apply(entry);
      } else if (known === undefined) {
        this.#fail(`g${group.id}: ${entry.index} applied before its predecessors`);
      } else if (!same(known, entry)) {
        this.#fail(`state-machine-safety g${group.id}: n${process.id} applies another entry at ${entry.index}`);
      }
    }
  }

  #onMajority(process: SimProcess, group: number, { index, term }: Entry): void {
    if (!this.countable) return;
    const { voters } = this.#world.options;
    const holding = this.#world.nodes.filter(({ id, disk }) => voters.includes(id) && disk.holds(group, index, term));
    if (2 * holding.length > voters.length) return;
    const where = holding.map(({ id }) => `n${id}`).join(' ');
    this.#fail(
      `durability g${group}: n${process.id} applies ${index} that is on the disks of ${where || 'no voter'} only`,
    );
  }

  /** Log matching (§3.5): an entry is known by index and term, and so is the one before it. */
  #persisted(process: SimProcess, { group, entries, snapshot }: TurnBatch): void {
    if (snapshot !== undefined) this.counts.snapshots++;
    const first = entries[0];
    if (first === undefined) return;
    let termBefore = process.shard.group(group)?.raft.termAt(first.index - 1) ?? -1;
    for (const { index, term, kind, data } of entries) {
      if (kind === ENTRY_DATA) this.#isBounded(group, index, data);
      const key = `${group}/${index}/${term}`;
      const known = this.#entries.get(key);
      if (known === undefined) this.#entries.set(key, { data, termBefore });
      else {
        if (Buffer.compare(known.data, data) !== 0)
          this.#fail(`log-matching g${group}: two entries ${index} of term ${term}`);
        if (known.termBefore < 0) known.termBefore = termBefore;
        if (termBefore >= 0 && termBefore !== known.termBefore) {
          this.#fail(`log-matching g${group}: n${process.id} has another entry before ${index} of term ${term}`);
        }
      }
      termBefore = term;
    }
  }

  /** An entry travels whole, so only a command that is larger by itself may make one that is large. */
  #isBounded(group: number, index: number, data: Uint8Array): void {
    const bound = this.#world.options.entryFillBytes ?? ENTRY_FILL_BYTES;
    if (data.length <= bound + NORMALISED_BYTES) return;
    let commands = 0;
    eachCommand(data, this.#command, () => commands++);
    if (commands > 1) this.#fail(`entry-bound g${group}: ${index} holds ${commands} commands in ${data.length} bytes`);
  }

  /** A leader's large commands leave room for others in every turn. */
  #shareTurn(process: SimProcess, batches: readonly TurnBatch[]): void {
    const { pieces } = this.#world.options;
    if (pieces === undefined) return;
    let bytes = 0;
    for (const { group, entries } of batches) {
      if (process.shard.group(group)?.leads !== true) continue;
      for (const { kind, data } of entries) {
        if (kind !== ENTRY_DATA) continue;
        eachCommand(data, this.#command, () => {
          if (this.#command.kind === COMMANDS.piece.number) bytes += decodePiece(this.#command.payload()).bytes.length;
        });
      }
    }
    this.counts.pieceBytes += bytes;
    if (bytes > 2 * pieces.turn) this.#fail(`turn-share n${process.id}: ${bytes} bytes of pieces in a turn`);
  }

  /** Election safety and leader completeness (§3.4, §3.6.3). */
  #leads(process: SimProcess, group: Group): void {
    const { raft } = group;
    const key = `${group.id}/${raft.term}`;
    const known = this.#leaders.get(key);
    if (known === process.id) return;
    if (known !== undefined)
      this.#fail(`election-safety g${group.id}: n${known} and n${process.id} lead term ${raft.term}`);
    this.#leaders.set(key, process.id);
    if (process.isMarked)
      this.#fail(`drain g${group.id}: n${process.id} is marked and comes to lead term ${raft.term}`);
    this.counts.leaders++;
    this.onLeader(process);
    for (const { index, term } of (this.references[group.id] as Reference).entries) {
      // A deposed leader that wins again late may not know entries of later terms.
      if (term >= raft.term || raft.termAt(index) === term) continue;
      if (raft.termAt(index) < 0 && index <= raft.appliedIndex) continue;
      this.#fail(`leader-completeness g${group.id}: n${process.id} leads term ${raft.term} without ${index}`);
    }
  }

  /** Invariant 2, and the same for acknowledgements: what a message speaks of is on disk when it leaves. */
  #leaves(process: SimProcess, to: number, group: number, message: Message): void {
    if (message.type === 'vote-response' && message.granted && !message.pre) {
      const { term, vote } = process.store.vote(group);
      // A later term on disk rules out another vote in the one that it speaks of.
      const kept = term > message.term || (term === message.term && vote === to);
      if (!kept) this.#fail(`vote g${group}: n${process.id} votes for n${to} and has it not on disk`);
    } else if (message.type === 'append-response' && !message.reject) {
      const term = process.shard.group(group)?.raft.termAt(message.index) ?? -1;
      if (term >= 0 && !process.node.disk.holds(group, message.index, term) && message.index > 0) {
        this.#fail(`durability g${group}: n${process.id} acknowledges ${message.index} and has it not on disk`);
      }
    }
  }

  /** Invariant 3: its rows are those of the reference at the same index. */
  #compare(process: SimProcess): void {
    const compared = this.#compared.get(process);
    const { disk } = process.node;
    for (const group of this.#world.options.groups) {
      const prefix = process.store.prefix(group);
      const meta = disk.row(String.fromCharCode(prefix >> 8, prefix & 0xff, 0x6d));
      const index = meta === undefined ? 0 : new DataView(meta.buffer, meta.byteOffset).getFloat64(8, true);
      if (index === 0 || compared?.get(group) === index) continue;
      compared?.set(group, index);
      this.counts.checkpoints++;
      const expected = (this.references[group] as Reference).hashAt(index);
      if (expected === undefined)
        this.#fail(`state g${group}: n${process.id} stores ${index}, which no node has applied`);
      else if (disk.hash.of(prefix) !== expected)
        this.#fail(`state-hash g${group}: n${process.id} differs at ${index}`);
    }
  }
}

function same(a: Entry, b: Entry): boolean {
  return a.term === b.term && a.kind === b.kind && Buffer.compare(a.data, b.data) === 0;
}
