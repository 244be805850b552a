/**
 * A replica that cannot fail: applies each committed entry of a group once, in order, and flushes after each. What it
 * holds at an index is what every node must hold there, and what it answered is what clients must have been told.
 */
import { apply } from '../../src/stream/apply.ts';
import { State } from '../../src/stream/core/state.ts';
import { ENTRY_CONFIG, ENTRY_DATA, type Entry } from '../../src/raft/types.ts';
import { LmdbTx } from '../../src/store/environment.ts';
import { viewOf } from '../../src/base/bytes.ts';
import { decodePiece } from '../../src/protocol/piece.ts';
import { Command } from '../../src/protocol/command.ts';
import { eachCommand } from '../../src/group/entry.ts';
import { REPLY_DUPLICATE, REPLY_RECORDS, Reply } from '../../src/protocol/reply.ts';
import { createRandom } from '../support/random.ts';
import { SimDisk } from './disk.ts';
import { openEnvironment } from './environment.ts';
import { acceptedFrames } from './frames.ts';
import { tokenOf } from './tokens.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

/** An append that took effect. */
export interface Effect {
  count: number;
  /** Bytes, or records of a JSON stream. */
  readonly start: number;
  readonly next: number;
  /** Index of its entry. */
  readonly index: number;
}

export class Reference {
  /** Committed entries by index - 1. */
  readonly entries: Entry[] = [];
  /** By token of the payload. */
  readonly effects = new Map<string, Effect>();
  /** Hash of the rows after each index. */
  readonly #hashes: number[] = [];
  readonly #disk = new SimDisk(createRandom(0));
  readonly state: State;
  /** Called before and after each command. */
  before: (state: State, command: Command) => void = () => undefined;
  after: (state: State, command: Command, reply: Reply) => void = () => undefined;
  readonly #command = new Command();
  #large = new Uint8Array(0);
  readonly #reply = new Reply();

  constructor(group: number) {
    const hooks = {
      beforeSync: () => undefined,
      hiddenTag: -1,
      sync: (disk: SimDisk) => disk.sync(),
      afterSync: () => undefined,
    };
    this.state = new State(group, new LmdbTx(openEnvironment(this.#disk, hooks, Infinity).state));
  }

  get last(): number {
    return this.entries.length;
  }

  hashAt(index: number): number | undefined {
    return this.#hashes[index - 1];
  }

  /** All rows of the group. */
  *rows(): Generator<readonly [Uint8Array, Uint8Array]> {
    const { prefix } = this.state;
    for (const [key, value] of this.#disk.rowsUnder(prefix))
      yield [Uint8Array.of(prefix >> 8, prefix & 0xff, ...key), value];
  }

  apply(entry: Entry): void {
    const { state } = this;
    this.entries.push(entry);
    state.enter(entry.index, entry.term);
    if (entry.kind === ENTRY_CONFIG) state.configuration = entry.data.slice();
    if (entry.kind === ENTRY_DATA) {
      eachCommand(entry.data, this.#command, () => {
        this.#reply.reset(0);
        const whole = this.#whole();
        if (whole !== undefined) this.before(state, whole);
        apply(state, this.#command, this.#reply);
        if (whole === undefined) return;
        this.after(state, this.#command, this.#reply);
        this.#noteEffects();
      });
    }
    this.#disk.commit(() => state.flush());
    this.#disk.sync();
    state.flushed();
    this.#hashes.push(this.#disk.hash.of(state.group));
  }

  /** The command that is carried out: a large one with its last piece, and nothing with those before. */
  #whole(): Command | undefined {
    if (this.#command.kind !== COMMANDS.piece.number) return this.#command;
    const { totalBytes, offset, bytes } = decodePiece(this.#command.payload());
    if (offset === 0) this.#large = new Uint8Array(totalBytes);
    this.#large.set(bytes, offset);
    if (offset + bytes.length < totalBytes) return undefined;
    const whole = new Command();
    whole.read(this.#large, viewOf(this.#large), 0);
    whole.nowMs = this.#command.nowMs;
    return whole;
  }

  #noteEffects(): void {
    const { kind, bytes, payloadAt, payloadBytes } = this.#command;
    const reply = this.#reply;
    if (payloadBytes === 0 || reply.code !== 0 || reply.has(REPLY_DUPLICATE)) return;
    if (kind === COMMANDS.append.number) {
      const records = reply.has(REPLY_RECORDS);
      const start = records ? reply.recordStart : reply.startOffset;
      this.#note(tokenOf(bytes, payloadAt, payloadBytes), start, records ? reply.recordNext : reply.nextOffset);
    } else if (kind === COMMANDS.appendBatch.number) {
      const frames = acceptedFrames(bytes.subarray(payloadAt, payloadAt + payloadBytes), reply);
      for (const { frame, start, next } of frames) this.#note(tokenOf(frame, 0, frame.length), start, next);
    }
  }

  #note(token: string, start: number, next: number): void {
    const known = this.effects.get(token);
    if (known !== undefined) known.count++;
    else this.effects.set(token, { count: 1, start, next, index: this.last });
  }
}
