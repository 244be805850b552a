// Secrets of the log of subscriptions stay out of backups: every record of a key is blanked, wherever rows cut it, and
// nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyBlanker } from '../../../src/stream/backup/without-keys.ts';
import { Machine } from '../../../src/subscriptions/state/machine.ts';
import type { LogRecord } from '../../../src/subscriptions/state/record.ts';

const SECRET = { kid: 'ds_kid', x: 'eHh4eHh4', d: 'ZGRkZGRk', secret: 'c2VjcmV0' };
const OTHERS: readonly LogRecord[] = [
  { op: 'checkpoint' },
  { op: 'release', id: 'key', at: 1, wake: 'w', generation: 1 },
  { op: 'remove', id: 'rotate', at: 1, path: '{"op":"key","d":"x"}' },
  { op: 'rewind', id: '}', at: 1, path: 'a/b', incarnation: 1, offset: 2 },
  { op: 'delete', id: '\n{"op":"key"', at: 1 },
];
const KEYS: readonly LogRecord[] = [
  { op: 'key', ...SECRET, by: '1f0c-2.3' },
  { op: 'rotate', at: 1, from: 2, alone: true, kid: 'ds_other', x: SECRET.x, d: SECRET.d },
];

const line = (record: LogRecord): string => `${JSON.stringify(record)}\n`;
const NOBODY = {
  added: () => undefined,
  changed: () => undefined,
  removed: () => undefined,
  linked: () => undefined,
  unlinked: () => undefined,
};

function blanked(text: string, cut: number): string {
  const bytes = Buffer.from(text);
  const blanker = new KeyBlanker();
  for (let at = 0; at < bytes.length; at += cut) blanker.blank(bytes.subarray(at, at + cut));
  return bytes.toString();
}

test('records of keys are blanks of the same length, all others are as they were', () => {
  const records = [OTHERS[0], KEYS[0], ...OTHERS.slice(1), KEYS[1], OTHERS[1]] as LogRecord[];
  const text = records.map(line).join('');
  const whole = blanked(text, text.length);
  for (let cut = 1; cut < 64; cut++) assert.equal(blanked(text, cut), whole, `cut into ${cut}`);
  assert.equal(whole.length, text.length);
  for (const part of Object.values(SECRET)) assert(!whole.includes(part), part);
  const lines = whole.trimEnd().split('\n');
  for (const [i, record] of records.entries()) {
    const after = JSON.parse(lines[i] as string) as LogRecord;
    const hides = record.op === 'key' || record.op === 'rotate';
    assert.deepEqual(after, hides ? { op: record.op === 'key' ? 'Key' : 'rOtate' } : record);
  }
});

test('a fold skips what is left of a key', () => {
  const machine = new Machine(NOBODY);
  for (const record of KEYS) {
    const left = JSON.parse(blanked(line(record), 7)) as LogRecord;
    assert.equal(machine.apply(left).code, 'SUBSCRIPTION_NOT_FOUND');
  }
  assert.deepEqual([machine.key, machine.signingKeys], [undefined, []]);
});

test('keys in a checkpoint begin with their kind, too', () => {
  const machine = new Machine(NOBODY);
  for (const record of KEYS) machine.apply(record);
  const text = machine.checkpoint().map(line).join('');
  assert(text.includes(SECRET.secret));
  for (const part of Object.values(SECRET)) assert(!blanked(text, 5).includes(part), part);
});
