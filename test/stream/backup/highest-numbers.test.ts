// Numbers that a request may bring are possible in a backup, up to the highest.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { viewOf } from '../../../src/base/bytes.ts';
import { encodeQuota } from '../../../src/protocol/bucket-command.ts';
import { encodeForkBegin } from '../../../src/protocol/fork-command.ts';
import { TIMESTAMP_MS_MAX, TTL_SECONDS_MAX } from '../../../src/protocol/header-values.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';
import { TAG, taggedKey } from '../../../src/stream/core/keys.ts';
import { PRODUCER_ROW } from '../../../src/stream/core/producers.ts';
import { Group } from '../forks/commands.ts';
import { GROUP } from '../replica.ts';
import type { SortedMapTx } from '../sorted-map-tx.ts';
import { type Row, exportOf, validated } from './exporting.ts';

const MAX = Number.MAX_SAFE_INTEGER;
const text = (value: string): Uint8Array => new Uint8Array(Buffer.from(value));

/** The rows of a state with each number that a client or an operator chooses at its highest. */
function stored(): SortedMapTx {
  const group = new Group(GROUP);
  // The deadline of the longest TTL is no whole number of a double: it is rounded.
  group.nowMs++;
  const type = { contentType: 'text/plain' };
  const producer = { producerId: 'w', producerEpoch: MAX, producerSeq: 0 };
  const quota = encodeQuota({ streamsMax: MAX, retainedBytesMax: MAX });
  const fork = { forkToken: 2 ** 48, ttlSeconds: TTL_SECONDS_MAX, payload: encodeForkBegin('b\0ttl', MAX, MAX) };
  const codes = [
    group.code(COMMANDS.create.number, 'b/ttl', { ...type, ttlSeconds: TTL_SECONDS_MAX }),
    group.code(COMMANDS.append.number, 'b/ttl', { ...type, ...producer, payload: text('x') }),
    group.code(COMMANDS.create.number, 'b/expires', { ...type, expiresAtMs: TIMESTAMP_MS_MAX }),
    group.code(COMMANDS.quota.number, 'b', { payload: quota }),
    group.code(COMMANDS.forkBegin.number, 'b/fork', fork),
  ];
  assert.deepEqual(new Set(codes), new Set(['OK']));
  const [replica] = group.replicas;
  assert(replica !== undefined);
  replica.flush();
  return replica.tx;
}

const sorted = (rows: readonly Row[]): string[] =>
  rows.map(([key, value]) => `${Buffer.from(key).toString('hex')} ${Buffer.from(value).toString('hex')}`).sort();

test('the highest numbers go into a backup, and an import writes the rows that were there', () => {
  const tx = stored();
  const meta = Buffer.from(taggedKey(GROUP, TAG.meta)).toString('latin1');
  const rows: Row[] = [];
  for (const [key, value] of tx.entries()) {
    if (key !== meta) rows.push([new Uint8Array(Buffer.from(key, 'latin1')).slice(2), value]);
  }
  const { summary, all } = validated(exportOf({ tx }));
  assert.equal(summary.streams, 3);
  assert.deepEqual(sorted(all), sorted(rows));
});

test('what counts on from a backup is bounded', () => {
  const rows = exportOf({ tx: stored() });
  const producer = rows.find(([key]) => key[0] === TAG.producer)?.[1];
  assert(producer !== undefined);
  PRODUCER_ROW.fields.seq.set(viewOf(producer), 0, 2 ** 52 + 1);
  assert.throws(() => validated(rows), /a producer has an impossible seq: 4503599627370497/);
});
