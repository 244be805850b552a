/**
 * Read and write positions in a frame, little-endian. Reading is total: past the end, or on an invalid value, a reader
 * turns bad and returns zeros from then on, so a decoder reads to its end and checks once.
 */
import { byteAt, viewOf } from './bytes.ts';
import { assert } from './assert.ts';
import type { Slab } from './slab.ts';
import type { NumberField, NumberShape, Shape, Struct, StructValues } from './struct.ts';
import { readText, textBytes, writeText } from './text.ts';

const NO_BYTES = new Uint8Array(0);

export class Reader {
  #bytes: Uint8Array;
  #view: DataView;
  #at = 0;
  #end: number;
  #record = 0;
  #bad = false;
  /** Allocates own bytes. */
  memory: Slab | undefined = undefined;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
    this.#end = bytes.length;
  }

  get bad(): boolean {
    return this.#bad;
  }

  get leftBytes(): number {
    return this.#end - this.#at;
  }

  /** Everything was read, and all of it was valid. */
  get finished(): boolean {
    return !this.#bad && this.#at === this.#end;
  }

  /** Marks the reader bad because a value that was read is invalid. */
  fail(): void {
    this.#bad = true;
    this.#at = this.#end;
  }

  u8(): number {
    const at = this.#take(1);
    return at < 0 ? 0 : byteAt(this.#bytes, at);
  }

  u16(): number {
    const at = this.#take(2);
    return at < 0 ? 0 : this.#view.getUint16(at, true);
  }

  u32(): number {
    const at = this.#take(4);
    return at < 0 ? 0 : this.#view.getUint32(at, true);
  }

  /** A whole number from `lowest` to 2^53 - 1, as f64. */
  int53(lowest = 0): number {
    const at = this.#take(8);
    if (at < 0) return 0;
    const value = this.#view.getFloat64(at, true);
    if (Number.isSafeInteger(value) && value >= lowest) return value + 0; // -0 becomes 0
    this.fail();
    return 0;
  }

  /** A view, not a copy: valid as long as the frame's buffer is. */
  bytes(size: number): Uint8Array {
    const at = this.#take(size);
    return at < 0 ? NO_BYTES : this.#bytes.subarray(at, at + size);
  }

  /** The one copy out of the receive buffer, for bytes that outlive it. */
  ownBytes(size: number): Uint8Array {
    const at = this.#take(size);
    if (at < 0) return NO_BYTES;
    // Not slice(): for a Buffer that is a view, and through Uint8Array's own method it is still a Buffer.
    const own = this.memory?.take(size) ?? new Uint8Array(size);
    own.set(this.#bytes.subarray(at, at + size));
    return own;
  }

  /** All remaining bytes, as a view. */
  rest(): Uint8Array {
    return this.bytes(this.leftBytes);
  }

  /** Length u16, then UTF-8; invalid sequences become U+FFFD. */
  text(): string {
    const size = this.u16();
    const at = this.#take(size);
    return at < 0 ? '' : readText(this.#bytes, at, size);
  }

  /** Moves past a record of fixed size; `get` then reads its fields. For hot paths, see `record`. */
  open(record: { readonly size: number }): void {
    this.#record = this.#take(record.size);
  }

  /** A whole number of the open record, not below the lowest of its field. */
  get(field: NumberField): number {
    if (this.#bad) return 0;
    const value = field.get(this.#view, this.#record);
    if (Number.isSafeInteger(value) && value >= field.lowest) return value + 0; // -0 becomes 0
    this.fail();
    return 0;
  }

  record<S extends NumberShape>(record: Struct<S>): StructValues<S> {
    this.open(record);
    const values: Record<string, number> = {};
    for (const [name, field] of Object.entries<NumberField>(record.fields)) values[name] = this.get(field);
    return values as StructValues<S>;
  }

  #take(size: number): number {
    const at = this.#at;
    if (this.#end - at < size) {
      this.fail();
      return -1;
    }
    this.#at = at + size;
    return at;
  }
}

/** Writes into a buffer whose size the caller computed; `finish` detects a wrong size. */
export class Writer {
  readonly bytes: Uint8Array;
  readonly #view: DataView;
  #at: number;
  #record = 0;

  constructor(bytes: Uint8Array, at = 0) {
    this.bytes = bytes;
    this.#view = viewOf(bytes);
    this.#at = at;
  }

  get at(): number {
    return this.#at;
  }

  u8(value: number): void {
    this.#view.setUint8(this.#at, value);
    this.#at += 1;
  }

  u16(value: number): void {
    this.#view.setUint16(this.#at, value, true);
    this.#at += 2;
  }

  u32(value: number): void {
    this.#view.setUint32(this.#at, value, true);
    this.#at += 4;
  }

  int53(value: number): void {
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  raw(bytes: Uint8Array): void {
    this.bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  text(text: string): void {
    const size = writeText(this.bytes, this.#at + 2, text);
    this.#view.setUint16(this.#at, size, true);
    this.#at += 2 + size;
  }

  /** Leaves room for a record of fixed size; `set` then writes its fields. For hot paths, see `record`. */
  open(record: { readonly size: number }): void {
    this.#record = this.#at;
    this.#at += record.size;
  }

  set(field: NumberField, value: number): void {
    field.set(this.#view, this.#record, value);
  }

  record<S extends Shape>(record: Struct<S>, values: Readonly<StructValues<S>>): void {
    record.write(this.#view, this.#at, values);
    this.#at += record.size;
  }

  finish(): Uint8Array {
    assert(this.#at === this.bytes.length, `${this.#at} bytes written where ${this.bytes.length} were announced`);
    return this.bytes;
  }
}

/** Size of `text` as Writer.text writes it. */
export function textFieldBytes(text: string): number {
  return 2 + textBytes(text);
}
