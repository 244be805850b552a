// Tampered rows of a group snapshot, and a replica that accepts what passes and is then used heavily.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Contents, DocumentReader } from '../../src/backup/format/document.ts';
import { BACKUP_TAGS } from '../../src/stream/backup/rows.ts';
import { nextCompaction } from '../../src/stream/cold/compaction-plan.ts';
import { pendingNotifications, pinChecks } from '../../src/stream/forks/pin.ts';
import { nextFlush } from '../../src/stream/cold/flush-plan.ts';
import { encodePurge } from '../../src/protocol/bucket-command.ts';
import {
  Command,
  type CommandFields,
  commandBytesMax,
  newCommandFields,
  writeCommand,
} from '../../src/protocol/command.ts';
import { EntryBuilder } from '../../src/group/entry.ts';
import { encodeForkBegin, encodeForkData, encodeForkPin } from '../../src/protocol/fork-command.ts';
import { encodeImportEnd, encodeImportRows, encodeImportToken } from '../../src/protocol/import-command.ts';
import { NO_ORIGIN } from '../../src/protocol/object-key.ts';
import { encodeRetention } from '../../src/protocol/position-command.ts';
import {
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  READ_TAIL_RECORDS,
} from '../../src/protocol/read-fields.ts';
import { type Request, requestFor } from '../../src/protocol/request.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { REPO_ROOT } from '../support/paths.ts';
import type { Random } from '../support/random.ts';
import { type Row, exportOf, validated } from '../stream/backup/exporting.ts';
import { Replica } from '../stream/replica.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

const FOLDER = join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1');
const TOKEN = '0123456789abcdef';
const NOW_MS = 1_800_000_000_000;
/** The longest key that LMDB takes, the prefix included. */
const KEY_BYTES_MAX = 1978;
const EXPIRES_MS_MAX = 253_402_300_799_999;
const EXPIRES = 30;

/** The rows of the golden snapshot, and what its end says. */
export function goldenRows(): { readonly rows: readonly Row[]; readonly contents: Contents } {
  const rows: Row[] = [];
  const reader = new DocumentReader(
    () => undefined,
    (key, value) => {
      if (BACKUP_TAGS.includes(key[0] as number)) rows.push([key.slice(), value.slice()]);
    },
  );
  reader.push(readFileSync(join(FOLDER, 'group-0000.snapshot')));
  return { rows, contents: reader.end() };
}

/** Tokens of the forks below. */
const FORK_TOKENS = [11, 12, 13];

const DOUBLES = [0, -0, 1, -1, -2, 0.5, Number.NaN, Infinity, -Infinity, 2 ** 32, 2 ** 48, 2 ** 48 - 1, 2 ** 53 - 1];
const MORE_DOUBLES = [2 ** 53, 1e300, 8.64e15 + 1, 1e15, 100, 4000, 1_700_000_000_000];
const WORDS = [0, 1, 0xffff, 0x10000, 0xffffffff, 0x0d0a, 0x10010];

/** Changes one row; says how. */
export function tamper(rows: Row[], random: Random): string {
  // Kinds are as likely as each other, however many rows they have.
  const tag = random.pick([...new Set(rows.map(([key]) => key[0]))]) as number;
  const of = rows.flatMap(([key], i) => (key[0] === tag ? [i] : []));
  const i = random.pick(of);
  const row = rows[i] as Row;
  const [key, value] = row;
  const what = `${String.fromCharCode(tag)} row ${i}`;
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
  switch (random.int(0, 7)) {
    case 0: {
      const at = random.int(0, value.length - 1);
      if (value.length > 0) value[at] = random.int(0, 255);
      return `${what}: byte ${at}`;
    }
    case 1: {
      const size = key.length + random.pick([1, 8, 100, 3000]);
      row[0] = longer(key, size, random.pick([0, 0x61, 0xff]));
      return `${what}: key of ${size}`;
    }
    case 2:
      rows.splice(i + 1, 0, [longer(key, key.length + 1, 0), value.slice()]);
      return `${what}: again under a longer key`;
    case 3: {
      const size = value.length + random.pick([1, 8, 5000]);
      row[1] = longer(value, size, random.pick([0, 10, 0x61]));
      return `${what}: value of ${size}`;
    }
    case 4:
      row[1] = value.slice(0, random.int(0, Math.max(0, value.length - 1)));
      return `${what}: value of ${row[1].length}`;
    case 5: {
      if (value.length < 4) return what;
      const at = random.int(0, value.length - 4);
      view.setUint32(at, random.pick(WORDS), true);
      return `${what}: word at ${at}`;
    }
    default: {
      if (value.length < 8) return what;
      const at = 8 * random.int(0, Math.min(20, Math.floor(value.length / 8) - 1));
      view.setFloat64(at, random.pick(random.chance(0.6) ? DOUBLES : MORE_DOUBLES), true);
      return `${what}: ${view.getFloat64(at, true)} at ${at}`;
    }
  }
}

function longer(bytes: Uint8Array, size: number, fill: number): Uint8Array {
  const grown = new Uint8Array(size).fill(fill);
  grown.set(bytes);
  return grown;
}

/** A replica into which rows are imported, and that is then used as clients and the cold tier would. */
export class Used {
  readonly #replica = new Replica();
  #index = 0;

  constructor() {
    this.#replica.fetch = (plan) => plan.refs.map((ref) => objectPart(ref.key, ref.at, ref.length));
  }

  do(kind: number, more: Partial<CommandFields> = {}): string {
    const fields = { ...newCommandFields(), kind, ...more };
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    const command = new Command();
    command.read(bytes, view, 0);
    const entry = new EntryBuilder();
    entry.add(command, more.nowMs ?? NOW_MS);
    return this.#replica
      .applyEntry(++this.#index, entry.finish())
      .map(({ code }) => code)
      .join();
  }

  import({ summary, all }: ReturnType<typeof validated>): void {
    const parts = all.map(([key, value]) => {
      assert(key.length + 2 <= KEY_BYTES_MAX, `LMDB takes no key of ${key.length + 2} bytes`);
      const whole = longer(new Uint8Array(2), 2 + key.length, 0);
      whole.set(key, 2);
      const row = new Uint8Array(rowSize(whole, value));
      writeRow(row, 0, whole, value);
      return row;
    });
    const rows = encodeImportRows({ token: TOKEN, seq: 0, rows: Buffer.concat(parts) });
    const digest = new Uint8Array(32);
    const end = encodeImportEnd({ ...summary, token: TOKEN, pieces: 1, rows: all.length, digest, origin: NO_ORIGIN });
    assert.equal(this.do(COMMANDS.importBegin.number, { payload: encodeImportToken(TOKEN) }), 'OK');
    assert.equal(this.do(COMMANDS.importRows.number, { payload: rows }), 'OK');
    assert.equal(this.do(COMMANDS.importEnd.number, { payload: end }), 'OK', 'what is valid can be imported');
    this.#replica.flush();
  }

  /** Everything at once; what throws on the way would end a node. */
  use(rows: readonly Row[], random: Random): void {
    const replica = this.#replica;
    const names = rows.filter(([key]) => key[0] === 0x68).map(([key]) => namesOf(key));
    const tombstones = rows.filter(([key]) => key[0] === 0x54).map(([key]) => namesOf(key));
    const keys = rows.filter(([key]) => key[0] === 0x68).map(([key]) => key.slice(1));
    this.#readAll(names);
    for (const [bucket] of names) replica.list(bucket, '', '', 100, NOW_MS);
    replica.usage();
    pendingNotifications(replica.state, 100);
    pinChecks(replica.state, 0, 0, 100);
    nextFlush(replica.state, { hotBeforeMs: Infinity, maxBytes: 3000 });
    nextCompaction(replica.state, keys, { maxBytes: 8e6, looks: 10_000, least: 2 });
    for (const [bucket, stream] of names) this.#write(bucket, stream, random);
    this.#readAll(names);
    replica.flush();
    this.do(COMMANDS.create.number, {
      bucket: 'orders',
      stream: 'new',
      contentType: 'text/plain',
      payload: new Uint8Array(9),
    });
    replica.flush();
    this.#readAll(names);
    validated(exportOf(replica));
    for (const [bucket, stream] of [...names, ...tombstones]) this.#unfork(bucket, stream, random);
    this.do(COMMANDS.expire.number, { nowMs: 9e15 });
    for (const [bucket, stream] of names)
      if (random.chance(0.5)) this.do(COMMANDS.deleteStream.number, { bucket, stream });
    for (const [bucket] of names) this.do(COMMANDS.purge.number, { bucket, payload: encodePurge('') });
    for (let i = 0; i < EXPIRES; i++) this.do(COMMANDS.expire.number);
    replica.settle();
    const { hotBytes, nextIncarnation, cold } = replica.state;
    for (const n of [hotBytes, nextIncarnation, cold.bytes, cold.objects, cold.objectBytes])
      assert(Number.isSafeInteger(n) && n >= 0, `a counter of ${n}`);
  }

  /** Every fork operation, on streams with and without forks. */
  #unfork(bucket: string, stream: string, random: Random): void {
    for (const forkToken of FORK_TOKENS)
      for (const kind of [
        COMMANDS.forkCheck.number,
        COMMANDS.forkUnpin.number,
        COMMANDS.forkUnpinned.number,
        COMMANDS.forkAbort.number,
      ])
        if (random.chance(0.5)) this.do(kind, { bucket, stream, forkToken });
    this.do(COMMANDS.create.number, { bucket, stream, contentType: 'text/plain' });
  }

  /** The rows of a backup of it. */
  exported(): Row[] {
    this.#replica.flush();
    return exportOf(this.#replica);
  }

  #write(bucket: string, stream: string, random: Random): void {
    const { code, type: contentType, next } = this.#replica.askHead(bucket, stream, NOW_MS).outcome;
    if (code !== 'OK') return;
    this.do(COMMANDS.touch.number, { bucket, stream });
    const payload = new Uint8Array(Buffer.from(contentType.includes('json') ? '1\n' : 'more'));
    const producer = { producerId: 'p', producerEpoch: 2, producerSeq: 9 };
    this.do(COMMANDS.append.number, { bucket, stream, contentType, payload, ...producer });
    this.do(COMMANDS.append.number, { bucket, stream, contentType, payload: new Uint8Array(5000).fill(10) });
    const attributes = new Uint8Array(Buffer.from('{"title":"x"}'));
    if (random.chance(0.3)) this.do(COMMANDS.setAttributes.number, { bucket, stream, attributes });
    const position = { byRecord: false, value: next, checkedIncarnation: 0, checkedOffset: 0, checkedRecord: 0 };
    if (random.chance(0.5)) this.do(COMMANDS.retention.number, { bucket, stream, payload: encodeRetention(position) });
  }

  #readAll(names: readonly (readonly [string, string])[]): void {
    for (const [bucket, stream] of names) {
      const { outcome, shown } = this.#replica.askHead(bucket, stream, NOW_MS);
      if (shown === undefined) continue;
      for (const n of [outcome.next, outcome.start]) assert(Number.isSafeInteger(n) && n >= 0, `an offset of ${n}`);
      assert(shown.expiresAtMs <= EXPIRES_MS_MAX, `expires at ${shown.expiresAtMs}`);
      assert.match(outcome.type, /^[\x20-\x7e\t]*$/, 'what goes into a header');
      this.#replica.askAttributes(bucket, stream, NOW_MS);
      this.#replica.query(
        requestFor(QUERIES.snapshot, 0, { bucket, stream, choice: 'latest', offset: 0, from: 0, maxBytes: 0 }),
        NOW_MS,
      );
      const offsets = [0, outcome.start, outcome.next, Math.floor((outcome.start + outcome.next) / 2)];
      const reads = [
        [READ_NOW, 0],
        [READ_RECORD, 0],
        [READ_RECORD, 3],
        [READ_RECORD_NOW, 0],
        [READ_TAIL_RECORDS, 2],
      ];
      for (const [mode, value] of [...offsets.map((offset) => [READ_OFFSET, offset]), ...reads] as [number, number][])
        for (const maxBytes of [0, 100])
          this.#read(requestFor(QUERIES.read, 0, { bucket, stream, mode, value, maxBytes }));
    }
  }

  #read(request: Request): void {
    try {
      this.#replica.query(request, NOW_MS);
    } catch (error) {
      // Only the objects know what is in them; a reader is told that one is bad (cold-reader.ts).
      if (!(error as Error).message.includes('every chunk is good')) throw error;
    }
  }
}

function namesOf(key: Uint8Array): readonly [string, string] {
  const border = key.indexOf(0);
  const text = (part: Uint8Array): string => Buffer.from(part).toString();
  return [text(key.subarray(1, border)), text(key.subarray(border + 1))];
}

function objectPart(key: string, at: number, length: number): Uint8Array {
  try {
    return new Uint8Array(readFileSync(join(FOLDER, 'cold', 'test', key)).subarray(at, at + length));
  } catch {
    return new Uint8Array(0);
  }
}

/**
 * A source that is removed and has a fork, forks that are whole, in the making and gone, and a source of another group.
 */
export function forkedRows(): Row[] {
  const used = new Used();
  const bucket = 'orders';
  const contentType = 'text/plain';
  const done = (kind: number, more: Partial<CommandFields>): void =>
    assert.equal(used.do(kind, { bucket, ...more }), 'OK');
  const payload = new Uint8Array(Buffer.from('source'));
  const piece = { anchor: 6, at: 0, record: 0, ends: [6], bytes: payload };
  for (const [stream, fork] of [
    ['a', 'fa'],
    ['b', 'fb'],
    ['c', 'fc'],
  ] as const) {
    const forkToken = 11 + 'abc'.indexOf(stream);
    done(COMMANDS.create.number, { stream, contentType, payload });
    done(COMMANDS.forkBegin.number, {
      stream: fork,
      forkToken,
      payload: encodeForkBegin(`${bucket}\0${stream}`, -1, 0),
    });
    done(COMMANDS.forkPin.number, { stream, forkToken, payload: encodeForkPin(`${bucket}\0${fork}`, -1) });
    done(COMMANDS.forkData.number, { stream: fork, forkToken, contentType, payload: encodeForkData(piece) });
    if (stream !== 'c') done(COMMANDS.forkEnd.number, { stream: fork, forkToken, contentType });
  }
  done(COMMANDS.deleteStream.number, { stream: 'a' });
  done(COMMANDS.deleteStream.number, { stream: 'fb' });
  return used.exported();
}
