/**
 * The part of MessagePack that sessions speak, read and written in place. A general decoder builds what it is told to
 * build: maps with hostile names, arrays of four billion elements, records that become code. This reader hands out
 * numbers, texts and views of the message, one at a time, and builds nothing.
 */
import { byteAt, viewOf } from '../base/bytes.ts';
import { decodeUtf8Strict } from '../base/utf8.ts';
import { readText, textBytes, writeText } from '../base/text.ts';

/** The message is not what the protocol allows; its sender cannot be understood any further. */
export class MalformedMessage extends Error {
  override readonly name = 'MalformedMessage';
}

const NIL = 0xc0;
const FALSE = 0xc2;
const TRUE = 0xc3;
const BIN_8 = 0xc4;
const BIN_32 = 0xc6;
const FLOAT_64 = 0xcb;
const UINT_8 = 0xcc;
const UINT_16 = 0xcd;
const UINT_32 = 0xce;
const UINT_64 = 0xcf;
const STR_8 = 0xd9;
const STR_32 = 0xdb;
const ARRAY_16 = 0xdc;
const ARRAY_32 = 0xdd;
const MAP_16 = 0xde;
const MAP_32 = 0xdf;
const TWO_POW_32 = 0x1_0000_0000;
/** Bytes behind the first one of 0xc0 to 0xdf, without what follows a length; -1: the protocol has no such value. */
const FIXED_BYTES = [
  ...[0, -1, 0, 0, 1, 2, 4, -1, -1, -1, 4, 8, 1, 2, 4, 8],
  ...[1, 2, 4, 8, -1, -1, -1, -1, -1, 1, 2, 4, 2, 4, 2, 4],
];

/** Names and options: for them a loop is faster than a call into native code. */
const SHORT_TEXT_BYTES = 64;

/** Reads one message. Every method throws MalformedMessage when the next value is of another kind, or cut short. */
export class MessageReader {
  #bytes: Uint8Array;
  #view: DataView;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
  }

  get isAtEnd(): boolean {
    return this.at >= this.#bytes.length;
  }

  /** The part of the message between two places. */
  slice(from: number, to: number): Uint8Array {
    return this.#bytes.subarray(from, to);
  }

  /** How many values follow. Each takes at least a byte, so a count cannot exceed what is left. */
  array(): number {
    const first = this.#byte();
    if ((first & 0xf0) === 0x90) return first & 0x0f;
    if (first === ARRAY_16) return this.#count(this.#uint(2), 1);
    if (first === ARRAY_32) return this.#count(this.#uint(4), 1);
    throw this.#unlike('an array');
  }

  /** How many pairs follow. */
  map(): number {
    const first = this.#byte();
    if ((first & 0xf0) === 0x80) return first & 0x0f;
    if (first === MAP_16) return this.#count(this.#uint(2), 2);
    if (first === MAP_32) return this.#count(this.#uint(4), 2);
    throw this.#unlike('a map');
  }

  /** Up to 2^53 - 1, also where the sender's library wrote a float. */
  uint(): number {
    const value = this.#number(this.#byte());
    if (!Number.isSafeInteger(value) || value < 0) throw this.#unlike('a whole number from 0 to 2^53 - 1');
    return value;
  }

  /** Strict UTF-8. */
  text(): string {
    const size = this.#textBytes(this.#byte());
    if (size < 0) throw this.#unlike('a text');
    return this.#text(size);
  }

  /** Passes over a text that is read later, or was read before. */
  skipText(): void {
    const size = this.#textBytes(this.#byte());
    if (size < 0) throw this.#unlike('a text');
    this.#take(size);
  }

  /** Whether these bytes, which are whole values, come next; then it passes over them. */
  take(values: Uint8Array): boolean {
    const { at } = this;
    const bytes = this.#bytes;
    if (values.length > bytes.length - at) return false;
    for (let i = 0; i < values.length; i++) if (values[i] !== bytes[at + i]) return false;
    this.at = at + values.length;
    return true;
  }

  /** A hash of what was read behind `from`, for tables in memory. */
  hashFrom(from: number): number {
    let hash = 0;
    for (let i = from; i < this.at; i++) hash = Math.imul(hash ^ byteAt(this.#bytes, i), 0x01000193);
    return hash ^ (hash >>> 15);
  }

  /** A number as its digits, a flag as `true` or `false`, or a text as it is. */
  scalar(): string {
    const first = this.#byte();
    if (first === TRUE || first === FALSE) return first === TRUE ? 'true' : 'false';
    const size = this.#textBytes(first);
    if (size >= 0) return this.#text(size);
    const value = this.#number(first);
    if (!Number.isSafeInteger(value)) throw this.#unlike('a text, a flag or a whole number');
    return String(value);
  }

  /** A view of the message. A text counts as its bytes. */
  bytes(): Uint8Array {
    const first = this.#byte();
    const size = first >= BIN_8 && first <= BIN_32 ? this.#uint(1 << (first - BIN_8)) : this.#textBytes(first);
    if (size < 0) throw this.#unlike('bytes');
    const from = this.#take(size);
    return this.#bytes.subarray(from, this.at);
  }

  /** Passes over nil, if that is next. */
  nil(): boolean {
    if (this.isAtEnd || byteAt(this.#bytes, this.at) !== NIL) return false;
    this.at++;
    return true;
  }

  get isArray(): boolean {
    if (this.isAtEnd) return false;
    const first = byteAt(this.#bytes, this.at);
    return (first & 0xf0) === 0x90 || first === ARRAY_16 || first === ARRAY_32;
  }

  /** Passes over a value, however deep: a loop that takes at least a byte for each turn. */
  skip(): void {
    for (let left = 1; left > 0; left--) {
      const first = this.#byte();
      if (first < 0x80 || first >= 0xe0) continue;
      if (first < 0x90) left += 2 * (first & 0x0f);
      else if (first < 0xa0) left += first & 0x0f;
      else if (first < 0xc0) this.#take(first & 0x1f);
      else left += this.#skipLong(first);
      if (left > this.#bytes.length) throw this.#unlike('as many values as it announces');
    }
  }

  /** Returns how many values follow inside. */
  #skipLong(first: number): number {
    const size = FIXED_BYTES[first - NIL] ?? -1;
    if (size < 0) throw this.#unlike('a value of this protocol');
    const isSized = (first >= BIN_8 && first <= BIN_32) || (first >= STR_8 && first <= STR_32);
    if (isSized) this.#take(this.#uint(size));
    else if (first >= ARRAY_16) return this.#uint(size) * (first >= MAP_16 ? 2 : 1);
    else this.#take(size);
    return 0;
  }

  #text(size: number): string {
    const from = this.#take(size);
    if (size <= SHORT_TEXT_BYTES) {
      const text = readText(this.#bytes, from, size);
      // Where the bytes are no text, it has this in their place.
      if (!text.includes('\ufffd')) return text;
    }
    const text = decodeUtf8Strict(this.#bytes.subarray(from, this.at));
    if (text === undefined) throw this.#unlike('UTF-8');
    return text;
  }

  /** -1: not a text. */
  #textBytes(first: number): number {
    if ((first & 0xe0) === 0xa0) return first & 0x1f;
    return first >= STR_8 && first <= STR_32 ? this.#uint(1 << (first - STR_8)) : -1;
  }

  #number(first: number): number {
    if (first < 0x80) return first;
    if (first >= UINT_8 && first <= UINT_32) return this.#uint(1 << (first - UINT_8));
    if (first === UINT_64) return this.#uint(4) * TWO_POW_32 + this.#uint(4);
    if (first === FLOAT_64) return this.#view.getFloat64(this.#take(8));
    return NaN;
  }

  #uint(size: number): number {
    const from = this.#take(size);
    if (size === 1) return this.#view.getUint8(from);
    return size === 2 ? this.#view.getUint16(from) : this.#view.getUint32(from);
  }

  #byte(): number {
    return byteAt(this.#bytes, this.#take(1));
  }

  #take(size: number): number {
    const from = this.at;
    if (size > this.#bytes.length - from) throw new MalformedMessage(`the message is cut short at byte ${from}`);
    this.at = from + size;
    return from;
  }

  #count(count: number, bytesEach: number): number {
    if (count * bytesEach > this.#bytes.length - this.at) throw this.#unlike('as many values as it announces');
    return count;
  }

  #unlike(wanted: string): MalformedMessage {
    return new MalformedMessage(`the value that ends before byte ${this.at} is not ${wanted}`);
  }
}

/** Answers are some dozen bytes; a writer that grew beyond KEPT_BYTES_MAX does not keep its memory. */
const FIRST_BYTES = 1024;
const KEPT_BYTES_MAX = 64 * 1024;
const NO_BYTES = new Uint8Array(0);

/** Writes messages one after the other into memory that grows, and is used again. */
export class MessageWriter {
  #bytes: Uint8Array = NO_BYTES;
  #view = viewOf(NO_BYTES);
  length = 0;

  /** Valid until the next write. */
  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.length);
  }

  clear(): void {
    this.length = 0;
    if (this.#bytes.length > KEPT_BYTES_MAX) this.#use(NO_BYTES);
  }

  /** Takes back what was written behind `from`, as a copy. */
  cut(from: number): Uint8Array {
    const part = this.#bytes.slice(from, this.length);
    // They may have left meanwhile.
    this.length = Math.min(from, this.length);
    return part;
  }

  /** Bytes that are a message already. */
  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.length);
    this.length += bytes.length;
  }

  /** At most 2^16 - 1 values. */
  array(count: number): void {
    this.#reserve(3);
    if (count < 0x10) this.#bytes[this.length++] = 0x90 | count;
    else this.#put(ARRAY_16, 2, count);
  }

  /** Begins a map whose size is known when it ends; returns its place. */
  beginMap(): number {
    this.#head(0x80);
    return this.length - 1;
  }

  /** At most 15 pairs. */
  endMap(place: number, count: number): void {
    this.#bytes[place] = 0x80 | count;
  }

  nil(): void {
    this.#head(NIL);
  }

  uint(value: number): void {
    this.#reserve(9);
    if (value < 0x80) this.#bytes[this.length++] = value;
    else if (value < 0x100) this.#put(UINT_8, 1, value);
    else if (value < 0x1_0000) this.#put(UINT_16, 2, value);
    else if (value < TWO_POW_32) this.#put(UINT_32, 4, value);
    else {
      this.#put(UINT_64, 4, Math.floor(value / TWO_POW_32));
      this.#view.setUint32(this.length, value % TWO_POW_32);
      this.length += 4;
    }
  }

  text(value: string): void {
    const size = textBytes(value);
    this.#reserve(5 + size);
    if (size < 0x20) this.#bytes[this.length++] = 0xa0 | size;
    else this.#sized(STR_8, size);
    this.length += writeText(this.#bytes, this.length, value);
  }

  bytes(value: Uint8Array): void {
    this.#reserve(5 + value.length);
    this.#sized(BIN_8, value.length);
    this.#bytes.set(value, this.length);
    this.length += value.length;
  }

  /** A head whose length takes one, two or four bytes; `first` is that of one. */
  #sized(first: number, size: number): void {
    if (size < 0x100) this.#put(first, 1, size);
    else if (size < 0x1_0000) this.#put(first + 1, 2, size);
    else this.#put(first + 2, 4, size);
  }

  #head(byte: number): void {
    this.#reserve(1);
    this.#bytes[this.length++] = byte;
  }

  /** The memory is reserved. */
  #put(first: number, size: 1 | 2 | 4, value: number): void {
    this.#bytes[this.length] = first;
    if (size === 1) this.#view.setUint8(this.length + 1, value);
    else if (size === 2) this.#view.setUint16(this.length + 1, value);
    else this.#view.setUint32(this.length + 1, value);
    this.length += 1 + size;
  }

  #reserve(more: number): void {
    const needed = this.length + more;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(FIRST_BYTES, 2 * this.#bytes.length, needed));
    grown.set(this.written);
    this.#use(grown);
  }

  #use(bytes: Uint8Array): void {
    this.#bytes = bytes;
    this.#view = viewOf(bytes);
  }
}
