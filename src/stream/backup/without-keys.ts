/**
 * Removes the cluster's secrets from a backup: the private keys that sign webhooks and the secret of callback tokens,
 * which are records of the subscription log. Bytes at an offset never change, so such a record keeps its length, with
 * spaces instead of its members and a kind that every version skips as unknown.
 *
 *   {"op":"key","kid":"ds_…","x":"…","d":"…","secret":"…"}   becomes   {"op":"Key"                                  }
 *   {"op":"rotate", …}                                       becomes   {"op":"rOtate" … }
 */
import { byteAt, compareBytes } from '../../base/bytes.ts';
import { encodeUtf8 } from '../../base/utf8.ts';
import { LOG } from '../../subscriptions/state/record.ts';
import { decodeHead } from '../core/head.ts';
import { TAG, bareIncarnationOf } from '../core/keys.ts';
import { endAt } from '../core/row.ts';
import { RowView } from '../core/row-view.ts';
import type { RowSink } from './rows.ts';

const LOG_NAME = encodeUtf8(`${LOG.bucket}\0${LOG.stream}`);

export class WithoutKeys {
  readonly #sink: RowSink;
  readonly #blanker = new KeyBlanker();
  #incarnation = -1;

  constructor(sink: RowSink) {
    this.#sink = sink;
  }

  /** Heads come before data, and the rows of a stream in order. */
  row(key: Uint8Array, value: Uint8Array): void {
    if (key[0] === TAG.head && compareBytes(key.subarray(1), LOG_NAME) === 0) {
      this.#incarnation = decodeHead(key.slice(1), 0, value).incarnation;
    }
    const isLog = key[0] === TAG.data && bareIncarnationOf(key) === this.#incarnation;
    this.#sink(key, isLog ? this.#blank(value) : value);
  }

  #blank(value: Uint8Array): Uint8Array {
    const copy = value.slice();
    const view = new RowView();
    view.ofValue(0, copy);
    this.#blanker.blank(copy.subarray(endAt(view.count)));
    return copy;
  }
}

const PREFIX = encodeUtf8('{"op":"');
const byteOf = (character: string): number => character.charCodeAt(0);
const LINE_FEED = byteOf('\n');
const QUOTE = byteOf('"');
const BRACE = byteOf('}');
const BLANK = byteOf(' ');
/** The two letters that identify these kinds: of release, remove, rewind and rotate, only rotate goes on with an o. */
const [K, R, O] = [byteOf('k'), byteOf('r'), byteOf('o')];
const CAPITAL = -32;

/** One record per line, the kind first, as nodes write them. A line may continue in the next piece. */
export class KeyBlanker {
  #at: 'begin' | 'kind' | 'r' | 'rest-of-kind' | 'members' | 'other' = 'begin';
  #matched = 0;

  /** In place. */
  blank(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i++) {
      const byte = byteAt(bytes, i);
      bytes[i] = this.#step(byte);
      if (byte !== LINE_FEED) continue;
      this.#at = 'begin';
      this.#matched = 0;
    }
  }

  #step(byte: number): number {
    switch (this.#at) {
      case 'begin':
        if (byte !== PREFIX[this.#matched]) this.#at = 'other';
        else if (++this.#matched === PREFIX.length) this.#at = 'kind';
        return byte;
      case 'kind':
        if (byte === K) return this.#secret(byte);
        this.#at = byte === R ? 'r' : 'other';
        return byte;
      case 'r':
        if (byte === O) return this.#secret(byte);
        this.#at = 'other';
        return byte;
      case 'rest-of-kind':
        if (byte === QUOTE) this.#at = 'members';
        return byte;
      case 'members':
        // No member contains a brace, so the only one is the end.
        return byte === BRACE || byte === LINE_FEED ? byte : BLANK;
      case 'other':
        return byte;
    }
  }

  #secret(byte: number): number {
    this.#at = 'rest-of-kind';
    return byte + CAPITAL;
  }
}
