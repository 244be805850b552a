/**
 * Large commands that a leader accepted and cuts into pieces, one after the other, so that other commands pass between
 * the pieces (README, "Large commands"). Commands of a producer stay behind its large ones to the same stream: it may
 * send on without waiting, and its sequence must arrive in order.
 */
import { compareBytes, viewOf } from '../base/bytes.ts';
import {
  ALONE_PIECES_BYTES_MAX,
  LARGE_BEGINS_BYTES_MAX,
  PIECES_IN_FLIGHT_BYTES_MAX,
  PIECE_BYTES_MAX,
  TURN_PIECES_BYTES_MAX,
} from '../base/limits.ts';
import { planted } from '../base/planted.ts';
import { type Command, FLAG_PRODUCER } from '../protocol/command.ts';
import { type Replacement, endsBytes, frontBytes, writeEnds, writeFront } from '../protocol/rewrite-command.ts';
import { commandsWhere } from '../protocol/operations.ts';
import type { State } from '../stream/core/state.ts';
import type { JsonNormalizer } from '../json/json-records.ts';
import type { CommandSink, EntryBuilder, PieceSource } from './entry.ts';
import { NO_SLOT } from './reply-slot.ts';

/** How large commands are cut, in bytes. */
export interface PieceBounds {
  /** Larger commands are cut into pieces of this size. */
  readonly piece: number;
  /** Pieces that a turn takes, over all groups of a shard (shard/piece-turns.ts). */
  readonly turn: number;
  /** The same on a single node that has nothing else to do. */
  readonly alone: number;
  /** A group's pieces that are proposed and not applied; see PIECES_IN_FLIGHT_BYTES_MAX. */
  readonly inFlight: number;
}

export const PIECE_BOUNDS: PieceBounds = {
  piece: PIECE_BYTES_MAX,
  turn: TURN_PIECES_BYTES_MAX,
  alone: ALONE_PIECES_BYTES_MAX,
  inFlight: PIECES_IN_FLIGHT_BYTES_MAX,
};

/** A command that waits. */
interface Large extends PieceSource {
  slot: number;
  /** Since when, on the monotonic clock. */
  sinceMs: number;
  /** Bytes in pieces already. */
  offset: number;
  /** Names stream and producer; undefined: no producer. */
  readonly sequence: Uint8Array | undefined;
}

/** An import closes the group to pieces, and its own commands are bounded. */
const IMPORTS = commandsWhere(({ isImport }) => isImport);

/** A leader's position. */
interface Position {
  readonly state: Pick<State, 'appliedIndex' | 'dirtyBytes'>;
  /** Proposed and not applied, or in this turn's entry. */
  readonly inFlightBytes: number;
  readonly term: number;
}

export class LargeCommands implements CommandSink {
  readonly json: JsonNormalizer;
  bounds = PIECE_BOUNDS;
  /** Whether all members of the group know pieces. */
  areUnderstood = (): boolean => true;
  readonly #queue: Large[] = [];
  /** Term of the first one's pieces. */
  #term = 0;
  /** Index of the last entry with a piece; Infinity: it is this turn's. */
  #lastIndex = 0;
  /** Bytes that wait to be cut. */
  bytes = 0;

  constructor(json: JsonNormalizer) {
    this.json = json;
  }

  get count(): number {
    return this.#queue.length;
  }

  /** Whether a command of this size comes in pieces, or has to stay behind one that does. */
  takes(command: Command, commandBytes: number): boolean {
    if (commandBytes <= this.bounds.piece && !this.#holds(command)) return false;
    return !IMPORTS.has(command.kind) && this.areUnderstood();
  }

  #holds(command: Command): boolean {
    if (this.#queue.length === 0 || !command.has(FLAG_PRODUCER)) return false;
    const sequence = sequenceOf(command) as Uint8Array;
    return this.#queue.some((one) => one.sequence !== undefined && compareBytes(one.sequence, sequence) === 0);
  }

  add(command: Command): void {
    this.#push(command, [command.bytes.slice(command.offset, command.end)]);
  }

  addRewritten(command: Command, _nowMs: number, replacement: Replacement): void {
    const front = new Uint8Array(frontBytes(command, replacement.attributes));
    writeFront(command, replacement, front, viewOf(front), 0);
    const ends = new Uint8Array(endsBytes(replacement.ends));
    writeEnds(replacement.ends, viewOf(ends), 0);
    // The frame of the command is overwritten after the call.
    const isInFrame = replacement.payload.buffer === command.bytes.buffer;
    this.#push(command, [front, isInFrame ? replacement.payload.slice() : replacement.payload, ends]);
  }

  /** The one that was added last is answered to `slot`. */
  answerTo(slot: number, clockMs: number): void {
    const last = this.#queue[this.#queue.length - 1];
    if (last === undefined) return;
    last.slot = slot;
    last.sinceMs = clockMs;
  }

  /** Size of the piece that can be cut now; 0: none. */
  nextBytes({ state, inFlightBytes, term }: Position): number {
    const first = this.#queue[0];
    if (first === undefined) return 0;
    // State machines have dropped the pieces of the term before.
    if (term !== this.#term && !planted('partial-outlives-its-term')) this.rewind();
    this.#term = term;
    const isApplied = this.#lastIndex <= state.appliedIndex;
    // A checkpoint falls between two large commands, where no piece has to be stored.
    if (first.offset === 0 && (!isApplied || state.dirtyBytes > LARGE_BEGINS_BYTES_MAX)) return 0;
    const sizeBytes = Math.min(first.totalBytes - first.offset, this.bounds.piece);
    return isApplied || inFlightBytes + sizeBytes <= this.bounds.inFlight ? sizeBytes : 0;
  }

  /** The entry with the pieces of this turn has this index; 0: they were lost. */
  proposed(index: number): void {
    if (this.#lastIndex === Infinity) this.#lastIndex = index;
    if (index === 0) this.rewind();
  }

  /** The first one is cut from its beginning. */
  rewind(): void {
    const first = this.#queue[0];
    if (first === undefined) return;
    this.bytes += first.offset;
    first.offset = 0;
  }

  /** Adds the next `sizeBytes` of the first one to `entry`; returns its slot with the last ones. */
  cut(sizeBytes: number, entry: EntryBuilder, nowMs: number): number | undefined {
    const first = this.#queue[0] as Large;
    entry.addPiece(first, sizeBytes, nowMs);
    this.#lastIndex = Infinity;
    first.offset += sizeBytes;
    this.bytes -= sizeBytes;
    if (first.offset < first.totalBytes) return undefined;
    this.#queue.shift();
    return first.slot;
  }

  /** Gives up those that wait since before then; returns their slots. One that has begun goes on, for no client. */
  expire(beforeMs: number): number[] {
    const slots: number[] = [];
    const isLate = (one: Large | undefined): one is Large => one !== undefined && one.sinceMs < beforeMs;
    const [first] = this.#queue;
    const begun = first !== undefined && first.offset > 0 ? 1 : 0;
    if (isLate(first) && begun > 0) {
      slots.push(first.slot);
      first.slot = NO_SLOT;
    }
    let late = 0;
    while (isLate(this.#queue[begun + late])) late++;
    for (const { slot, totalBytes } of this.#queue.splice(begun, late)) {
      slots.push(slot);
      this.bytes -= totalBytes;
    }
    return slots;
  }

  /** Forgets all of them; returns their slots. */
  drop(): number[] {
    this.bytes = 0;
    return this.#queue.splice(0).map(({ slot }) => slot);
  }

  #push(command: Command, parts: readonly Uint8Array[]): void {
    const totalBytes = parts.reduce((sum, { length }) => sum + length, 0);
    this.#queue.push({ slot: NO_SLOT, sinceMs: 0, parts, totalBytes, offset: 0, sequence: sequenceOf(command) });
    this.bytes += totalBytes;
  }
}

function sequenceOf({ bytes, keyAt, keyBytes, producerIdAt, producerIdBytes, flags }: Command): Uint8Array | undefined {
  if ((flags & FLAG_PRODUCER) === 0) return undefined;
  const sequence = new Uint8Array(keyBytes + producerIdBytes);
  sequence.set(bytes.subarray(keyAt, keyAt + keyBytes));
  sequence.set(bytes.subarray(producerIdAt, producerIdAt + producerIdBytes), keyBytes);
  return sequence;
}
