// The HTTP side of a purge over a fake gateway: slices, refusals in the middle, and the GC pass with a store that
// fails.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { decodePurge } from '../../src/protocol/bucket-command.ts';
import { decodeGcList } from '../../src/protocol/cold.ts';
import type { Asked, Script } from '../support/scripted-gateway.ts';
import { type Rig, startPlanes } from './planes.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

const NO_GARBAGE = { isRestored: false, seqs: [], keys: [], next: undefined };
/** Entries of the queue at which one query looks. */
const LOOKS = 1000;
/** Others have the entries between two of the bucket's. */
const STEP = 3;
const afterOf = (asked: Asked): string => Buffer.from(decodePurge(asked.payload as Buffer) ?? []).toString();

async function purge(rig: Rig): Promise<{ status: number; text: string }> {
  const response = await fetch(`${rig.admin}/__svc/purge/demo`, { method: 'DELETE' });
  return { status: response.status, text: await response.text() };
}

/** Group 1 takes two commands and queues `queued` objects, which wait until GC_DONE names them. */
function groups(queued: number): Script {
  const waiting = new Set(Array.from({ length: queued }, (_, i) => STEP * i));
  return (asked, reply) => {
    if (asked.op === COMMANDS.purge.number && asked.group === 1) {
      const isFirst = afterOf(asked) === '';
      COMMANDS.purge.result.write(reply, {
        streamsRemoved: isFirst ? 5 : 2,
        hasMore: isFirst,
        continueAfter: isFirst ? 'last' : '',
        objectsQueued: isFirst ? queued : 0,
      });
    } else if (asked.op === QUERIES.bucketGarbage.number && asked.group === 1) {
      const { from = 0, limit } = QUERIES.bucketGarbage.request.read(asked.query);
      const end = Math.min(from + LOOKS, STEP * queued);
      const seqs = [...waiting].filter((seq) => seq >= from && seq < end).slice(0, limit);
      const keys = seqs.map((seq) => `demo/${seq / STEP}`);
      const looked = seqs.length < limit ? end : (seqs.at(-1) as number) + 1;
      const next = looked < STEP * queued ? looked : undefined;
      QUERIES.bucketGarbage.result.write(reply, { isRestored: false, seqs, keys, next });
    } else if (asked.op === QUERIES.bucketGarbage.number) {
      QUERIES.bucketGarbage.result.write(reply, NO_GARBAGE);
    } else if (asked.op === COMMANDS.gcDone.number) {
      for (const seq of decodeGcList(asked.payload as Buffer)) waiting.delete(seq);
    }
  };
}

test('each group in turn, as often as it needs; then its objects, in bounded calls', async (t) => {
  const rig = await startPlanes(t);
  rig.gateway.script = groups(600);
  const { status, text } = await purge(rig);
  assert.equal(status, 200);
  assert.deepEqual(JSON.parse(text), {
    bucket: 'demo',
    removed_streams: 7,
    groups_with_streams: [1],
    cold_gc_entries_reclaimed: 600,
  });
  const commands = rig.gateway.asked.filter(({ op }) => op === COMMANDS.purge.number);
  assert.deepEqual(
    commands.map((asked) => [asked.group, afterOf(asked)]),
    [
      [0, ''],
      [1, ''],
      [1, 'last'],
      [2, ''],
      [3, ''],
    ],
  );
  assert.equal(new Set(rig.coldObjects.removed).size, 600);
  assert.equal(rig.gateway.asked.filter(({ op }) => op === COMMANDS.gcDone.number).length, 3);
});

test('a store that does not delete costs nothing but the count; a repetition finds what waits', async (t) => {
  const rig = await startPlanes(t);
  rig.gateway.script = groups(3);
  rig.coldObjects.failure = 'unreachable';
  const failed = await purge(rig);
  assert.equal(failed.status, 200);
  assert.equal((JSON.parse(failed.text) as Record<string, number>)['cold_gc_entries_reclaimed'], 0);
  assert.equal(rig.gateway.asked.filter(({ op }) => op === COMMANDS.gcDone.number).length, 0);
  rig.coldObjects.failure = undefined;
  const again = await purge(rig);
  assert.equal((JSON.parse(again.text) as Record<string, number>)['cold_gc_entries_reclaimed'], 3);
  assert.deepEqual(rig.coldObjects.removed, ['demo/0', 'demo/1', 'demo/2']);
});

test('of a group that was restored only what was deleted counts', async (t) => {
  const rig = await startPlanes(t);
  const script = groups(5);
  rig.gateway.script = (asked, reply) => {
    script(asked, reply);
    if (asked.op !== QUERIES.bucketGarbage.number || asked.group !== 1) return;
    // The others are objects of the cluster that the backup came from.
    const garbage = QUERIES.bucketGarbage.result.read(reply);
    QUERIES.bucketGarbage.result.write(reply, { ...garbage, isRestored: true, keys: garbage.keys.slice(0, 2) });
  };
  const { text } = await purge(rig);
  assert.equal((JSON.parse(text) as Record<string, number>)['cold_gc_entries_reclaimed'], 2);
  assert.deepEqual(rig.coldObjects.removed, ['demo/0', 'demo/1']);
  rig.gateway.script = (asked, reply) => {
    if (asked.op === COMMANDS.purge.number) {
      const none = { streamsRemoved: 0, hasMore: false, continueAfter: '' };
      COMMANDS.purge.result.write(reply, { ...none, objectsQueued: 3 });
    }
    // A collector took what the purge queued: its owner is no longer known.
    if (asked.op !== QUERIES.bucketGarbage.number) return;
    QUERIES.bucketGarbage.result.write(reply, { ...NO_GARBAGE, isRestored: true });
  };
  assert.equal((JSON.parse((await purge(rig)).text) as Record<string, number>)['cold_gc_entries_reclaimed'], 0);
});

test('a group that refuses ends the purge with what was done so far', async (t) => {
  const rig = await startPlanes(t);
  const script = groups(0);
  rig.gateway.script = (asked, reply) => {
    if (asked.op === COMMANDS.purge.number && asked.group === 2) reply.code = errorNumber('NO_LEADER');
    else script(asked, reply);
  };
  const { status, text } = await purge(rig);
  assert.equal(status, 503);
  assert.match(text, /group 2 was not finished, 7 streams are removed; repeat the purge/);
  rig.gateway.full = true;
  assert.equal((await purge(rig)).status, 503);
});
