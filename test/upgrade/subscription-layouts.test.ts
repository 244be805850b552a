// Records of the log of subscriptions: the checkpoint that they amount to is text on every node's disk, and is read
// again.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readDrainMark, writeDrainMark } from '../../src/placement/shed-state.ts';
import type { Machine } from '../../src/subscriptions/state/machine.ts';
import type { LogRecord } from '../../src/subscriptions/state/record.ts';
import type { LinkPosition } from '../../src/subscriptions/state/subscription.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';
import { PULL, Scene, WEBHOOK } from '../subscriptions/state/scene.ts';
import { Layouts } from './layouts.ts';

const NOW = 1_700_000_000_000;
const one: LinkPosition = ['events/1', 7, 30];
const two: LinkPosition = ['events/2', 8, 40];
const about = (id: string): { id: string; at: number } => ({ id, at: NOW });

/** One of each kind, in an order in which each does something. */
const RECORDS: readonly LogRecord[] = [
  { op: 'key', kid: 'k1', x: 'x1', d: 'd1', secret: 's' },
  { op: 'rotate', at: NOW, kid: 'k2', x: 'x2', d: 'd2', from: NOW + 60_000, alone: false },
  { op: 'create', ...about('hook'), config: WEBHOOK, hash: 'h1', base: 'http://h', links: [one] },
  { op: 'create', ...about('pull'), config: { ...PULL, streams: ['events/1'] }, hash: 'h2', base: '', links: [one] },
  { op: 'create', ...about('gone'), config: PULL, hash: 'h3', base: '', links: [] },
  { op: 'delete', ...about('gone') },
  { op: 'add', ...about('pull'), links: [two] },
  { op: 'link', ...about('hook'), links: [two] },
  { op: 'add', ...about('pull'), links: [['events/3', 9, 1]] },
  { op: 'gone', ...about('pull'), path: 'events/3', incarnation: 9 },
  { op: 'remove', ...about('pull'), path: 'events/3' },
  { op: 'rewind', ...about('hook'), path: 'events/2', incarnation: 8, offset: 35 },
  { op: 'wake', ...about('hook'), wake: 'w1', generation: 1, tails: [['events/1', 7, 50]] },
  { op: 'failed', ...about('hook'), wake: 'w1', next: NOW + 500 },
  { op: 'delivered', ...about('hook'), wake: 'w1' },
  { op: 'wake', ...about('pull'), wake: 'w2', generation: 1, tails: [['events/1', 7, 60]] },
  { op: 'claim', ...about('pull'), wake: 'w2', worker: 'worker', tails: [] },
  { op: 'ack', ...about('pull'), wake: 'w2', generation: 1, acks: [['events/1', 7, 55]], done: false },
];

const ends: readonly LogRecord[] = [
  { op: 'release', ...about('pull'), wake: 'w2', generation: 1 },
  { op: 'done', ...about('hook'), wake: 'w1' },
  { op: 'expire', ...about('hook'), wake: 'w1', until: NOW, next: -1 },
];

function fold(machine: Machine, records: readonly LogRecord[]): string {
  for (const record of records) machine.apply(JSON.parse(JSON.stringify(record)) as LogRecord);
  return JSON.stringify(machine.checkpoint());
}

test('a checkpoint of subscriptions', () => {
  const layouts = new Layouts('subscriptions');
  const { machine } = new Scene();
  const outcomes = RECORDS.map((record) => [record.op, machine.apply(record).code]);
  layouts.sameText('outcomes', JSON.stringify(outcomes));
  const during = layouts.sameText('checkpoint', JSON.stringify(machine.checkpoint()));
  // Read from the file, it says the same, and goes on alike.
  const late = new Scene().machine;
  assert.equal(fold(late, JSON.parse(during) as LogRecord[]), during);
  const after = layouts.sameText('checkpoint when the wakes are over', fold(machine, ends));
  assert.equal(fold(late, ends), after);
  layouts.end();
});

test('the drain mark', async (t) => {
  const layouts = new Layouts('store: drain mark');
  const folder = temporaryFolder('layouts');
  t.after(() => removeFolder(folder));
  for (const draining of [true, false]) {
    await writeDrainMark(folder, draining);
    layouts.sameText(`draining ${draining}`, readFileSync(join(folder, 'leadership-shed.json'), 'utf8'));
    assert.equal(readDrainMark(folder), draining);
  }
  layouts.end();
});
