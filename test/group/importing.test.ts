// A leader takes writes while a backup comes into its group, whose rows name others that are not there yet. Applying
// refuses them as such; what looks ahead at rows must not take the missing ones for damage (seed 0x7d1fbc).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CommandFields } from '../../src/protocol/command.ts';
import { rowSize, writeRow } from '../../src/base/row-bytes.ts';
import { encodeImportRows, encodeImportToken } from '../../src/protocol/import-command.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { QUOTA_OVER, QUOTA_UNKNOWN, QUOTA_UNMARKED } from '../../src/protocol/request.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { Host } from './host.ts';

const TOKEN = '0123456789abcdef';
const NAMES = { bucket: 'bucket', stream: 's' } as const;
const TEXT = { ...NAMES, contentType: 'text/plain', payload: new TextEncoder().encode('text') } as const;

/** A leader whose commands are committed before the next one. */
class Leader extends Host {
  #slots = 0;

  constructor() {
    super();
    this.elect();
  }

  /** The answer to a command. */
  do(fields: Partial<CommandFields>, quota = QUOTA_UNMARKED): string | undefined {
    const slot = ++this.#slots;
    this.submit(slot, fields, quota);
    this.group.seal();
    this.work();
    this.answerFrom2();
    return this.answers.get(slot);
  }

  /** The row of the stream's head. */
  headRow(): Uint8Array {
    this.tx.begin();
    this.group.state.flush();
    this.tx.commit();
    const rows: Uint8Array[] = [];
    this.tx.range(Uint8Array.of(0, 0, TAG.head), Uint8Array.of(0, 0, TAG.head + 1), false, (key, value) => {
      const row = new Uint8Array(rowSize(key, value));
      writeRow(row, 0, key, value);
      return rows.push(row) > 0;
    });
    assert.equal(rows.length, 1);
    return rows[0] as Uint8Array;
  }
}

/** A group that has the head of the stream, and neither its bytes nor its bucket. */
function halfImported(): Leader {
  const source = new Leader();
  assert.equal(source.do({ kind: COMMANDS.create.number, ...NAMES, contentType: 'text/plain' }), 'OK');
  assert.equal(source.do({ kind: COMMANDS.append.number, ...TEXT }), 'OK');
  const target = new Leader();
  assert.equal(target.do({ kind: COMMANDS.importBegin.number, payload: encodeImportToken(TOKEN) }), 'OK');
  const payload = encodeImportRows({ token: TOKEN, seq: 0, rows: source.headRow() });
  assert.equal(target.do({ kind: COMMANDS.importRows.number, payload }), 'OK');
  return target;
}

test('a write that comes while a backup comes in is told so, whatever rows are missing', () => {
  for (const quota of [QUOTA_UNMARKED, QUOTA_UNKNOWN, QUOTA_OVER]) {
    for (const kind of [COMMANDS.append.number, COMMANDS.create.number]) {
      assert.equal(halfImported().do({ kind, ...TEXT }, quota), 'GROUP_IMPORTING');
    }
  }
});
