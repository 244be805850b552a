/**
 * Data of a log entry: the commands of one turn for one group, each as an ITEM and the command (command.ts).
 * The leader fills one builder per group and turn; everyone iterates when the entry commits.
 */
import { byteAt } from '../base/bytes.ts';
import { struct, u32 } from '../base/struct.ts';
import { Slab } from '../base/slab.ts';
import { PIECE_HEAD_BYTES, writePieceHead } from '../protocol/piece.ts';
import { stampCommand } from '../protocol/command-layout.ts';
import type { Command } from '../protocol/command.ts';
import { JsonNormalizer } from '../json/json-records.ts';
import { type Replacement, rewriteCommand, rewrittenBytes } from '../protocol/rewrite-command.ts';

export const ITEM = struct({ commandBytes: u32 }, 'command; the next item');
const { commandBytes: COMMAND_SIZE } = ITEM.fields;
const INITIAL_BYTES = 4096;
/** A builder larger than this, grown for one huge command, releases its memory. */
const KEPT_BYTES = 1024 * 1024;

/** Takes the commands of clients when they are prepared (prepare.ts). */
export interface CommandSink {
  /** Normalises the JSON bodies of commands before they are added. */
  readonly json: JsonNormalizer;
  /** Adds the command as it is in its frame, with the leader's clock. */
  add(command: Command, nowMs: number): void;
  /** Adds the command with other attributes and payload; see rewriteCommand. */
  addRewritten(command: Command, nowMs: number, replacement: Replacement): void;
}

/** A large command in consecutive parts, and where its next piece begins. */
export interface PieceSource {
  readonly parts: readonly Uint8Array[];
  readonly totalBytes: number;
  readonly offset: number;
}

export class EntryBuilder implements CommandSink {
  #bytes = new Uint8Array(INITIAL_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;
  readonly #memory = new Slab();
  readonly json = new JsonNormalizer();

  get length(): number {
    return this.#length;
  }

  add(command: Command, nowMs: number): void {
    const size = command.end - command.offset;
    this.#reserve(ITEM.size + size);
    const at = this.#length + ITEM.size;
    COMMAND_SIZE.set(this.#view, this.#length, size);
    const source = command.bytes;
    // Two calls (subarray, set) cost more than a short loop.
    if (size <= 96) for (let i = 0; i < size; i++) this.#bytes[at + i] = byteAt(source, command.offset + i);
    else this.#bytes.set(source.subarray(command.offset, command.end), at);
    stampCommand(this.#view, at, nowMs);
    this.#length += ITEM.size + size;
  }

  addRewritten(command: Command, nowMs: number, replacement: Replacement): void {
    const size = rewrittenBytes(command, replacement);
    this.#reserve(ITEM.size + size);
    const at = this.#length + ITEM.size;
    const written = rewriteCommand(command, replacement, this.#bytes, this.#view, at);
    COMMAND_SIZE.set(this.#view, this.#length, written);
    stampCommand(this.#view, at, nowMs);
    this.#length += ITEM.size + written;
  }

  /** Adds the next `sizeBytes` of a large command. */
  addPiece({ parts, totalBytes, offset }: PieceSource, sizeBytes: number, nowMs: number): void {
    const size = PIECE_HEAD_BYTES + sizeBytes;
    this.#reserve(ITEM.size + size);
    COMMAND_SIZE.set(this.#view, this.#length, size);
    const at = this.#length + ITEM.size;
    writePieceHead(this.#view, at, { totalBytes, offset }, sizeBytes);
    stampCommand(this.#view, at, nowMs);
    let partAt = 0;
    for (const part of parts) {
      const from = Math.max(0, offset - partAt);
      const to = Math.min(part.length, offset + sizeBytes - partAt);
      if (from < to) this.#bytes.set(part.subarray(from, to), at + PIECE_HEAD_BYTES + partAt + from - offset);
      partAt += part.length;
    }
    this.#length += ITEM.size + size;
  }

  /** The entry's data; the builder is empty afterwards. */
  finish(): Uint8Array {
    const built = this.#bytes.subarray(0, this.#length);
    this.#length = 0;
    if (this.#bytes.length <= KEPT_BYTES) return this.#memory.copy(built);
    // Gives the buffer away instead of copying it: a 32 MiB body would be in memory twice.
    this.#bytes = new Uint8Array(INITIAL_BYTES);
    this.#view = new DataView(this.#bytes.buffer);
    return built;
  }

  #reserve(extra: number): void {
    if (this.#length + extra <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#length + extra, 2 * this.#bytes.length));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** Calls `visit` with each command of an entry, in order; `command` is reused. */
export function eachCommand(data: Uint8Array, command: Command, visit: (position: number) => void): void {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let position = 0;
  for (let at = 0; at < data.length; position++) {
    const size = COMMAND_SIZE.get(view, at);
    command.read(data, view, at + ITEM.size);
    visit(position);
    at += ITEM.size + size;
  }
}
