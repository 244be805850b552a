/**
 * The answers to clients about one stream, checked as they come in. Offsets (of a JSON stream: record ordinals) are
 * the order that a linearization needs, so the check is a direct one:
 *
 *   1. Reads agree with each other and with acknowledgements byte by byte: nothing that was shown vanishes or changes.
 *   2. An append that began after another was acknowledged, or after its bytes were seen, lies behind it.
 *   3. An append is there at most once; not at all when it was refused; at its place when it was acknowledged.
 *   4. A node does not show less than it has shown, or acknowledged, in this life or an earlier one.
 */
import { Buffer } from 'node:buffer';
import { jsonRecord, parseArray, textPayload } from './tokens.ts';

export interface AppendOp {
  readonly token: string;
  /** Bytes, or records. */
  readonly size: number;
  readonly fillerBytes: number;
  /** Tail that the clients knew of when it began. */
  readonly floor: number;
  outcome: 'waiting' | 'ok' | 'refused' | 'unknown';
  /** Where it was acknowledged to be, or seen. */
  start: number;
  seen: boolean;
}

/** The content of a stream. A string would be copied as a whole by every slice after an addition. */
class Content {
  length = 0;
  #bytes = Buffer.alloc(1024);

  append(more: string): void {
    const end = this.length + more.length;
    if (end > this.#bytes.length) this.#bytes = Buffer.concat([this.#bytes], end * 2);
    this.#bytes.write(more, this.length, 'latin1');
    this.length = end;
  }

  slice(from: number, to: number): string {
    return this.#bytes.toString('latin1', Math.min(from, this.length), Math.min(to, this.length));
  }
}

export class StreamHistory {
  readonly name: string;
  readonly json: boolean;
  readonly ops = new Map<string, AppendOp>();
  /** Final tail, once any client was told that the stream is closed. */
  closedAt = -1;
  /** Longest content seen: bytes, or records. */
  readonly text = new Content();
  records: string[] = [];
  /** Where reads of everything begin: the floor, once it has risen. */
  from = 0;
  /** The highest floor that was ever requested: below it, bytes may be gone. */
  floorAsked = 0;
  /** Greatest tail that a client was told. */
  tail = 0;
  readonly #fail: (what: string) => never;
  readonly #failWith: (what: string) => never;
  /** Bytes or records that were taken apart already. */
  #parsed = 0;
  /** Text behind that: an append of which the end is not known yet. */
  #rest = '';
  /** The least that a node must show. */
  readonly #shown = new Map<number, number>();
  /** Where appends begin that were seen, ascending. */
  readonly #borders: number[] = [];
  /** By start, of those whose place is known. */
  readonly #placed = new Map<number, AppendOp>();

  constructor(name: string, json: boolean, fail: (what: string) => never) {
    this.name = name;
    this.json = json;
    this.#failWith = fail;
    this.#fail = (what) => fail(`${what} in ${name}`);
  }

  /** A copy with the same appends as far as `startOf` knows where they are; nothing was shown or told yet. */
  copy(name: string, startOf: (token: string) => number | undefined): StreamHistory {
    const copy = new StreamHistory(name, this.json, this.#failWith);
    for (const op of this.ops.values()) {
      const start = startOf(op.token);
      if (start !== undefined) copy.ops.set(op.token, { ...op, outcome: 'ok', start, seen: false, floor: 0 });
    }
    return copy;
  }

  /** All that is known of comes one behind the other, up to the tail; `node` has told so. */
  layOut(from: number, tail: number, isClosed: boolean, node: number): void {
    for (const { token, size, fillerBytes, start } of [...this.ops.values()].sort((a, b) => a.start - b.start)) {
      const length = this.json ? this.records.length : this.text.length;
      if (start !== length) this.#fail(`${token} is at ${start}, not at ${length}`);
      if (this.json) for (let k = 0; k < size; k++) this.records.push(jsonRecord(token, k, fillerBytes));
      else this.#appendText(Buffer.from(textPayload(token, fillerBytes)).toString('latin1'));
    }
    if (this.json) this.#parseRecords();
    this.from = from;
    this.floorAsked = from;
    if (isClosed) this.closedAt = tail;
    this.tailSeen(tail, node, 0);
    if (tail !== (this.json ? this.records.length : this.text.length)) this.#fail(`the tail is ${tail}`);
  }

  begin(token: string, size: number, fillerBytes: number): AppendOp {
    const op: AppendOp = { token, size, fillerBytes, floor: this.tail, outcome: 'waiting', start: -1, seen: false };
    this.ops.set(token, op);
    return op;
  }

  /** The least that a node must show to a read that begins now. */
  floorOf(node: number): number {
    return this.#shown.get(node) ?? 0;
  }

  /** Start of a message or record, not below the floor. */
  someBorder(pick: (most: number) => number): number {
    const behind = this.#borders.filter((border) => border >= this.floorAsked);
    return behind[pick(Math.max(0, behind.length - 1))] ?? this.from;
  }

  acknowledged(op: AppendOp, start: number, next: number, node: number): void {
    if (next - start !== op.size) this.#fail(`density: ${op.token} of ${op.size} takes [${start}, ${next})`);
    if (op.outcome === 'ok' && op.start !== start)
      this.#fail(`linearizability: ${op.token} is at ${op.start} and at ${start}`);
    op.outcome = 'ok';
    this.#place(op, start);
    this.#raise(next, node);
  }

  refused(op: AppendOp): void {
    op.outcome = 'refused';
    if (op.seen) this.#fail(`linearizability: ${op.token} was refused and is there`);
  }

  closed(tail: number): void {
    if (this.closedAt >= 0 && this.closedAt !== tail)
      this.#fail(`close: the stream ends at ${this.closedAt} and at ${tail}`);
    this.closedAt = tail;
    if (this.tail > tail) this.#fail(`close: the stream ends at ${tail}, but ${this.tail} was acknowledged`);
  }

  /** A node said where the stream ends now. `floor`: floorOf(node) when it was asked. */
  tailSeen(tail: number, node: number, floor: number): void {
    if (tail < floor) this.#fail(`stale read: n${node} shows ${tail} after ${floor}`);
    this.#raise(tail, node);
  }

  readText(offset: number, body: Uint8Array, next: number): void {
    const text = Buffer.from(body).toString('latin1');
    if (offset + text.length !== next) this.#fail(`density: ${text.length} bytes from ${offset} end at ${next}`);
    if (offset > this.text.length) return;
    const known = this.text.slice(offset, offset + text.length);
    if (known !== text.slice(0, known.length)) this.#fail(`lost or changed bytes: ${difference(known, text, offset)}`);
    if (next <= this.text.length) return;
    this.#appendText(text.slice(known.length));
  }

  readRecords(first: number, body: Uint8Array, next: number): void {
    const records = body.length === 0 ? [] : parseArray<string>(Buffer.from(body).toString('latin1'), this.#fail);
    if (first + records.length !== next) this.#fail(`density: ${records.length} records from ${first} end at ${next}`);
    if (first > this.records.length) return;
    records.forEach((record, i) => {
      const known = this.records[first + i];
      if (known === undefined) this.records.push(record);
      else if (known !== record) this.#fail(`lost or changed records: ${difference(known, record, first + i)}`);
    });
    this.#parseRecords();
  }

  /** At the end, when all of the stream was read. */
  finish(): void {
    const length = this.json ? this.records.length : this.text.length;
    if (length < this.tail) this.#fail(`lost: the stream has ${length}, ${this.tail} was told to a client`);
    for (const op of this.ops.values()) {
      if (op.outcome === 'ok' && !op.seen) this.#fail(`lost: ${op.token}, acknowledged at ${op.start}`);
    }
    if (this.closedAt >= 0 && this.closedAt !== length) this.#fail(`close: ends at ${length}, not ${this.closedAt}`);
  }

  #appendText(more: string): void {
    this.text.append(more);
    this.#rest += more;
    let from = 0;
    for (;;) {
      const end = this.#rest.indexOf(')', from) + 1;
      if (end === 0) break;
      const piece = this.#rest.slice(from, end);
      const token = /^\(([a-z0-9.]+)\|\.*\)$/.exec(piece)?.[1] ?? '';
      this.#see(token, this.#parsed, piece.length);
      this.#parsed += piece.length;
      from = end;
    }
    this.#rest = this.#rest.slice(from);
  }

  #parseRecords(): void {
    while (this.#parsed < this.records.length) {
      const record = this.records[this.#parsed] as string;
      const token = /^([a-z]\d+\.\d+)\.0\|/.exec(record)?.[1] ?? '';
      const op = this.ops.get(token);
      if (op === undefined) this.#fail(`bytes from nowhere: record ${this.#parsed} is ${record.slice(0, 40)}`);
      // A batch is committed as a whole, but a read may end inside it.
      if (this.#parsed + op.size > this.records.length) return;
      for (let k = 0; k < op.size; k++) {
        const found = this.records[this.#parsed + k];
        if (found !== jsonRecord(token, k, op.fillerBytes))
          this.#fail(`torn append: ${token}.${k} is ${found?.slice(0, 40)}`);
      }
      this.#see(token, this.#parsed, op.size);
      this.#parsed += op.size;
    }
  }

  #see(token: string, start: number, size: number): void {
    const op = this.ops.get(token);
    if (op === undefined) this.#fail(`bytes from nowhere: ${token} at ${start}`);
    if (op.seen) this.#fail(`doubled: ${token} at ${op.start} and at ${start}`);
    if (size !== op.size) this.#fail(`torn append: ${token} has ${size} of ${op.size}`);
    if (op.outcome === 'refused') this.#fail(`linearizability: ${token} was refused and is there`);
    if (op.outcome === 'ok' && op.start !== start) {
      this.#fail(`linearizability: ${token} was acknowledged at ${op.start} and is at ${start}`);
    }
    op.seen = true;
    this.#borders.push(start);
    this.#place(op, start);
  }

  #place(op: AppendOp, start: number): void {
    if (start < op.floor) this.#fail(`linearizability: ${op.token} at ${start} began when ${op.floor} was known`);
    const other = this.#placed.get(start);
    if (other !== undefined && other !== op) this.#fail(`lost: ${other.token} and ${op.token} are both at ${start}`);
    this.#placed.set(start, op);
    op.start = start;
  }

  #raise(tail: number, node: number): void {
    this.tail = Math.max(this.tail, tail);
    if (this.closedAt >= 0 && tail > this.closedAt)
      this.#fail(`close: closed at ${this.closedAt}, ${tail} was told later`);
    this.#shown.set(node, Math.max(this.floorOf(node), tail));
  }
}

function difference(known: string, found: string, from: number): string {
  let at = 0;
  while (at < known.length && known[at] === found[at]) at++;
  return `at ${from + at}: ${known.slice(at, at + 40)} became ${found.slice(at, at + 40)}`;
}
