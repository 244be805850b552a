// The content of forwards (requests and answers), payloads of commands, keys of rows, and the smaller
// encodings, byte for byte.
import assert from 'node:assert/strict';
import {
  BODY_AS_SENT,
  BODY_RECORDS,
  BODY_REFUSED,
  type BodyMark,
  decodeRecords,
  decodeRefusal,
  encodeRecords,
  encodeRefusal,
} from '../../src/protocol/checked-body.ts';
import { withPlainBody } from '../../src/shard/checked-frames.ts';
import { test } from 'node:test';
import { touchFrame } from '../../src/shard/frames.ts';
import * as keys from '../../src/stream/core/keys.ts';
import { peerKey, systemKey } from '../../src/store/rows.ts';
import { decodePurge, decodeQuota, encodePurge, encodeQuota } from '../../src/protocol/bucket-command.ts';
import * as cold from '../../src/protocol/cold.ts';
import { Command, type CommandFields } from '../../src/protocol/command.ts';
import { conditionText, streamTag } from '../../src/protocol/condition.ts';
import * as forks from '../../src/protocol/fork-command.ts';
import { commandFor } from '../../src/protocol/command-request.ts';
import { decodePiece } from '../../src/protocol/piece.ts';
import { objectKey, parseObjectKey } from '../../src/protocol/object-key.ts';
import {
  PUBLISH_HEAD_BYTES,
  decodePublish,
  decodeRetention,
  encodeRetention,
  writePublishHead,
} from '../../src/protocol/position-command.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { QUOTA_OVER, QUOTA_UNKNOWN, newRequest, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';
import { Layouts, bytesFrom, utf8 } from './layouts.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';

const GROUP = 0x0102;
const SLOT = 0x2122_2324;
const INCARNATION = 2 ** 40 + 5;
const OFFSET = 2 ** 45 + 9;

const FULL: Partial<CommandFields> = {
  ...{ bucket: 'Ünï', stream: 's/1', nowMs: 1_700_000_000_123, close: true, contentType: 'text/plain' },
  ...{ streamSeq: 'a7', producerId: 'p', producerEpoch: 3, producerSeq: 2 ** 35, recordMatch: 77, ttlSeconds: 60 },
  ...{ condition: '* 0123456789abcdef', attributes: utf8('{"title":"T"}'), payload: bytesFrom(1, 9) },
};

function framed(
  kind: number,
  fields: Partial<CommandFields>,
  quotaMark: number,
  bodyMark: BodyMark = BODY_AS_SENT,
): Uint8Array {
  const request = { ...newRequest(), op: kind, group: GROUP, quotaMark, bodyMark };
  Object.assign(request.command, { kind, ...fields });
  const bytes = new Uint8Array(requestBytesMax(request));
  return bytes.slice(0, writeRequest(request, SLOT, 0, bytes, new DataView(bytes.buffer), 0));
}

test('requests and answers, as nodes forward them', () => {
  const layouts = new Layouts('forwards: frames');
  const full = layouts.same('request with everything', framed(COMMANDS.append.number, FULL, QUOTA_OVER));
  const command = new Command();
  command.read(full, new DataView(full.buffer), 16);
  assert.deepEqual(
    [
      command.kind,
      command.keyText(),
      command.contentType(),
      command.producerId(),
      command.streamSeq(),
      command.condition(),
    ],
    [COMMANDS.append.number, 'Ünï\0s/1', 'text/plain', 'p', 'a7', '* 0123456789abcdef'],
  );
  assert.deepEqual(
    [command.producerEpoch, command.producerSeq, command.recordMatch, command.ttlSeconds, command.expiresAtMs],
    [3, 2 ** 35, 77, 60, -1],
  );
  assert.deepEqual([command.nowMs, command.payloadBytes, command.end], [1_700_000_000_123, 9, full.length]);
  const plain = { bucket: 'b', stream: 's' };
  layouts.same('plain request', framed(COMMANDS.create.number, plain, QUOTA_UNKNOWN));
  layouts.same(
    'request of a fork',
    framed(COMMANDS.create.number, { ...plain, forkToken: 2 ** 50 + 3, expiresAtMs: 9e12 }, 0),
  );
  layouts.same('request about a bucket', framed(COMMANDS.create.number, { bucket: 'b' }, 0));
  const expecting = { ...FULL, expectedOffset: OFFSET };
  const expected = layouts.same('request that expects an offset', framed(COMMANDS.append.number, expecting, 0));
  command.read(expected, new DataView(expected.buffer), 16);
  assert.deepEqual(
    [command.kind, command.expectedOffset, command.recordMatch, command.condition(), command.keyText()],
    [COMMANDS.append.number, OFFSET, 77, '* 0123456789abcdef', 'Ünï\0s/1'],
  );
  layouts.same('renewal of a lifetime', touchFrame(GROUP, utf8('b\0s')));
  const records = { bytes: utf8('1\n[2]\n'), ends: [2, 6] };
  const json = { ...plain, contentType: 'application/json' };
  const checked = framed(1, { ...json, payload: encodeRecords(records, 99) }, 0, BODY_RECORDS);
  const marked = layouts.same('request with a checked body', checked);
  command.read(marked, new DataView(marked.buffer), 16);
  const decoded = decodeRecords(command.payload());
  assert.deepEqual([decoded?.bytes, [...(decoded?.ends ?? [])]], [records.bytes, records.ends]);
  const refusal = { code: 'INVALID_JSON', reason: 'Ünï' } as const;
  const refused = framed(1, { ...json, payload: encodeRefusal(refusal, 99) }, 0, BODY_REFUSED);
  const answered = layouts.same('request with a refused body', refused);
  command.read(answered, new DataView(answered.buffer), 16);
  assert.deepEqual(decodeRefusal(command.payload()), refusal);
  // A leader of the version before takes it with a plain body.
  layouts.same('the same with a plain body', withPlainBody(marked) as Uint8Array);
  const reply = new Reply();
  Object.assign(reply, {
    ...{
      id: SLOT,
      kind: 0,
      code: 17,
      flags: 0x1f,
      contentType: 'text/plain',
      text: 'why Ünï',
      startOffset: 1,
      nextOffset: OFFSET,
    },
    ...{ recordFirst: 3, recordStart: 4, recordNext: 5, a: 6, b: -1, c: 2 ** 52, body: bytesFrom(7, 5) },
  });
  const bytes = new Uint8Array(reply.bytesMax());
  const size = reply.write(bytes, new DataView(bytes.buffer), 0);
  const answer = layouts.same('reply with everything', bytes.slice(0, size));
  const read = new Reply();
  read.read(answer, new DataView(answer.buffer), 0);
  assert.deepEqual({ ...read }, { ...reply });
  layouts.end();
});

test('payloads of commands', () => {
  const layouts = new Layouts('commands: payloads');
  const quota = { streamsMax: -1, retainedBytesMax: 2 ** 45 };
  assert.deepEqual(decodeQuota(layouts.same('quota', encodeQuota(quota))), quota);
  assert.deepEqual(decodePurge(layouts.same('purge', encodePurge('Ünï'))), utf8('Ünï'));
  const part = { totalBytes: 2 ** 25 + 9, offset: 2 ** 24 + 7, bytes: bytesFrom(1, 9) };
  assert.deepEqual(decodePiece(layouts.same('piece', commandFor(COMMANDS.piece, part).payload as Uint8Array)), part);
  const position = {
    byRecord: true,
    value: 9,
    checkedIncarnation: INCARNATION,
    checkedOffset: OFFSET,
    checkedRecord: 4,
  };
  const retention = decodeRetention(layouts.same('retention', encodeRetention(position)));
  assert.deepEqual({ ...retention, hasMatch: false }, { ...position, hasMatch: false });
  for (const match of [undefined, bytesFrom(90, 32)]) {
    const payload = new Uint8Array(PUBLISH_HEAD_BYTES + 3).fill(7);
    const digest = bytesFrom(1, 32);
    writePublishHead(payload, { position, digest, match });
    const known = layouts.same(match === undefined ? 'publish' : 'publish in place of one', payload);
    assert.deepEqual(decodePublish(known), { position, digest, match, bytes: Uint8Array.from([7, 7, 7]) });
  }
  const begin = layouts.same('fork begin', forks.encodeForkBegin('b\0source', OFFSET, 3));
  assert.deepEqual(forks.decodeForkBegin(begin), { source: utf8('b\0source'), offset: OFFSET, subOffset: 3 });
  const pin = layouts.same('fork pin', forks.encodeForkPin('b\0fork', -1));
  assert.deepEqual(forks.decodeForkPin(pin), { fork: utf8('b\0fork'), offset: -1 });
  const piece = { anchor: OFFSET, at: 5, record: 6, ends: [2, 300], bytes: bytesFrom(0, 300) };
  const data = layouts.same('fork data', forks.encodeForkData(piece));
  const placed = { endsAt: 28, bytesAt: 36, size: 300 };
  assert.deepEqual(forks.decodeForkData(data), { anchor: OFFSET, at: 5, record: 6, count: 2, ...placed });
  layouts.sameText('condition', conditionText('"0123456789abcdef", W/"ffff000011112222"', '*') ?? '');
  layouts.sameText('tag of a stream', streamTag(INCARNATION, 1_700_000_000_000, OFFSET, true));
  layouts.end();
});

test('lists and rows of the cold tier', () => {
  const layouts = new Layouts('commands: cold');
  const object = { run: 'ff10a0b0c0d0e0f0', seq: INCARNATION };
  const chunk = {
    ...{ start: OFFSET, end: OFFSET + 900, firstRecord: 7, recordNext: 9, lastEnd: OFFSET + 800 },
    ...{ at: 0x0102_0304, length: 1000, digest: bytesFrom(3, 32) },
  };
  assert.deepEqual(cold.decodeObjectId(layouts.same('object id', cold.encodeObjectId(object))), object);
  const key = layouts.sameText('object key', objectKey(GROUP, '0123456789abcdef', 'Ünï b', 0x1f, object));
  assert.deepEqual(parseObjectKey(key), { ...object, origin: '0123456789abcdef' });
  layouts.sameText('object key of several streams', objectKey(GROUP, '0123456789abcdef', 'tame', 0, object));
  const row = layouts.same('chunk row', cold.encodeChunkRow(object, chunk));
  assert.deepEqual(cold.decodeChunkRow(row), { object, ...chunk });
  const list = { object, key, bytes: OFFSET, slices: [{ stream: utf8('b\0s'), incarnation: 8, ...chunk }] };
  assert.deepEqual(cold.decodeFlushList(layouts.same('flush list', cold.encodeFlushList(list))), list);
  assert.deepEqual(cold.decodeGcList(layouts.same('GC list', cold.encodeGcList([1, 2 ** 45 + 3]))), [1, 2 ** 45 + 3]);
  const orphans = [{ object, key: 'k' }];
  assert.deepEqual(cold.decodeOrphanList(layouts.same('doom list', cold.encodeOrphanList(orphans))), orphans);
  layouts.end();
});

test('keys of rows', () => {
  const layouts = new Layouts('keys');
  // The file has the names of the version that wrote it, such as TAG_CHUNK_RECORD.
  const tags = Object.entries(keys.TAG).map(([name, tag]): [string, number] => [
    `TAG_${name.replace(/[A-Z]/g, '_$&').toUpperCase()}`,
    tag,
  ]);
  layouts.sameText('tags', JSON.stringify(tags.sort(([a], [b]) => (a < b ? -1 : 1))));
  layouts.same('bytes', keys.taggedKey(GROUP, keys.TAG.head, utf8('b\0Ünï')));
  layouts.same('incarnation', keys.incarnationKey(GROUP, keys.TAG.attributes, INCARNATION));
  const place = layouts.same('position', keys.positionKey(GROUP, keys.TAG.data, INCARNATION, OFFSET));
  assert.deepEqual([keys.incarnationOf(place), keys.lastPosition(place)], [INCARNATION, OFFSET]);
  layouts.same('producer', keys.producerKey(GROUP, INCARNATION, utf8('Ünï')));
  const expiry = layouts.same('expiry', keys.expiryKey(GROUP, 1_700_000_000_123, INCARNATION));
  assert.deepEqual([keys.timeOf(expiry), keys.timedIncarnationOf(expiry)], [1_700_000_000_123, INCARNATION]);
  const bare = place.subarray(2);
  assert.deepEqual([keys.bareIncarnationOf(bare), keys.barePositionOf(bare)], [INCARNATION, OFFSET]);
  layouts.same('flush', keys.flushKey(GROUP, 1_700_000_000_123, INCARNATION));
  layouts.same('unpin', keys.unpinKey(GROUP, 2 ** 50 + 3));
  layouts.same('part', keys.partKey(GROUP, 0x0102_0304));
  layouts.same('of the shard itself', systemKey(0x76, GROUP));
  layouts.same('of a peer', peerKey(0x0102_0304));
  layouts.end();
});
