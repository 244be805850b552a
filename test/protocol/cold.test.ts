// Lists and plans of the cold tier, chunks and object keys: what is written is read again, and the bytes stay as they
// are.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { CHUNK_HEAD, decodeChunk, writeChunkHead } from '../../src/stream/cold/chunk-layout.ts';
import {
  type ChunkRef,
  type ColdPlan,
  type FlushList,
  decodeChunkRow,
  decodeColdPlan,
  decodeOrphanList,
  decodeFlushList,
  decodeGcList,
  decodeObjectId,
  encodeChunkRow,
  encodeColdPlan,
  encodeOrphanList,
  encodeFlushList,
  encodeGcList,
  encodeObjectId,
  sliceBytes,
} from '../../src/protocol/cold.ts';
import { NO_ORIGIN, objectKey, objectPrefix, parseObjectKey } from '../../src/protocol/object-key.ts';

const text = (value: string): Uint8Array => new Uint8Array(Buffer.from(value));
const object = { run: '00ff10a0b0c0d0e0', seq: 2 ** 48 - 2 };
const chunk = {
  start: 2 ** 40,
  end: 2 ** 40 + 9,
  firstRecord: 7,
  recordNext: 9,
  lastEnd: 2 ** 40 + 8,
  at: 4096,
  length: 1234,
  digest: new Uint8Array(32).map((_, i) => i),
};

test('object ids are 14 bytes that sort by process and upload', () => {
  const bytes = encodeObjectId(object);
  assert.equal(Buffer.from(bytes).toString('hex'), '00ff10a0b0c0d0e0fffffffffffe');
  assert.deepEqual(decodeObjectId(bytes), object);
  assert.deepEqual(decodeObjectId(new Uint8Array([9, ...bytes, 9]), 1), object);
  assert.throws(() => encodeObjectId({ run: 'FF10A0B0C0D0E0F0', seq: 1 }), /16 hex digits/);
});

test('a flush list survives, byte for byte as before', () => {
  const list: FlushList = {
    object,
    key: 'g0001-00ff10a0b0c0d0e0/bucket/pack/x',
    bytes: 8_388_608,
    slices: [
      { stream: text('b\0s'), incarnation: 5, ...chunk },
      { stream: text('b\0é'), incarnation: 2 ** 45, ...chunk, start: 0, firstRecord: 0 },
    ],
  };
  const bytes = encodeFlushList(list);
  assert.deepEqual(decodeFlushList(bytes), list);
  assert.equal(bytes.length, 14 + 2 + list.key.length + 8 + 4 + sliceBytes(3) + sliceBytes(4));
  assert.equal(sha(bytes), '3fa04265522763cb');
  assert.throws(() => decodeFlushList(bytes.subarray(0, bytes.length - 1)), /well-formed/);
});

test('lists of objects and of orphans survive', () => {
  const gc = encodeGcList([1, 2 ** 47]);
  assert.deepEqual(decodeGcList(gc), [1, 2 ** 47]);
  assert.equal(Buffer.from(gc).toString('hex'), '02000000000000000000f03f000000000000e042');
  const orphans = [{ object, key: 'k' }];
  const orphanList = encodeOrphanList(orphans);
  assert.deepEqual(decodeOrphanList(orphanList), orphans);
  assert.equal(Buffer.from(orphanList).toString('hex'), '0100000000ff10a0b0c0d0e0fffffffffffe01006b');
  assert.throws(() => decodeGcList(gc.subarray(1)), /well-formed/);
  assert.throws(() => decodeOrphanList(orphanList.subarray(0, 9)), /well-formed/);
});

test('a chunk row survives', () => {
  const row = encodeChunkRow(object, chunk);
  assert.deepEqual(decodeChunkRow(row), { object, ...chunk });
  assert.equal(sha(row), 'a06d8478a9e1df16');
});

test('a cold plan survives, with an unknown start too', () => {
  const refs: ChunkRef[] = [{ ...chunk, key: 'a/b' }];
  const plan: ColdPlan = {
    group: 65_534,
    stream: text('b\0s'),
    mode: 2,
    value: 77,
    flags: 5,
    maxBytes: 2 ** 32 - 1,
    maxRecords: 3,
    incarnation: 9,
    json: true,
    closed: false,
    onBorder: true,
    startOffset: -1,
    startRecord: 77,
    tail: 2 ** 50,
    recordTail: 80,
    needed: 1,
    refs,
    hot: text('rows'),
  };
  assert.deepEqual(decodeColdPlan(encodeColdPlan(plan)), plan);
  const other = {
    ...plan,
    json: false,
    closed: true,
    onBorder: false,
    startOffset: 0,
    needed: 0,
    refs: [],
    hot: text(''),
  };
  assert.deepEqual(decodeColdPlan(encodeColdPlan(other)), other);
});

test('a chunk survives; what is no chunk is told from it', () => {
  const head = { incarnation: 3, start: 100, end: 107, firstRecord: 4, recordNext: 6 };
  const rows = [text('first row'), text('second')];
  const size = CHUNK_HEAD.size + 4 + 9 + 4 + 6;
  const own = new Uint8Array(size);
  writeChunkHead(head, 2, new DataView(own.buffer), 0);
  own.set([9, 0, 0, 0, ...text('first row'), 6, 0, 0, 0, ...text('second')], CHUNK_HEAD.size);
  assert.deepEqual(decodeChunk(own), { ...head, rows });
  assert.equal(sha(own), 'bc3852e09e72ca46');
  for (let cut = 0; cut < own.length; cut++) assert.equal(decodeChunk(own.subarray(0, cut)), undefined);
  assert.equal(decodeChunk(new Uint8Array([...own, 0])), undefined, 'bytes behind the end');
  for (const at of [0, 4, 48, CHUNK_HEAD.size]) {
    const altered = own.slice();
    altered[at] = (altered[at] as number) ^ 0x80;
    assert.equal(decodeChunk(altered), undefined, `byte ${at} altered`);
  }
});

test('object keys name group, origin, bucket and object, and are read again', () => {
  const single = objectKey(0x1f, 'a'.repeat(16), 'my-bucket', 255, object);
  assert.equal(single, 'g001f-aaaaaaaaaaaaaaaa/my-bucket/iff/00ff10a0b0c0d0e0-fffffffffffe');
  assert(single.startsWith(objectPrefix(0x1f, 'a'.repeat(16))));
  assert.deepEqual(parseObjectKey(single), { ...object, origin: 'a'.repeat(16) });
  assert.equal(objectKey(1, NO_ORIGIN, 'b', 0, object).split('/')[2], 'pack');
  const seen = new Set<string>();
  for (const bucket of [
    'A',
    'a',
    '..',
    '.',
    'a/b',
    'a_b',
    'é',
    `${'x'.repeat(900)}1`,
    `${'x'.repeat(900)}2`,
    '\ufeffa',
  ]) {
    const key = objectKey(1, NO_ORIGIN, bucket, 2 ** 47, object);
    const folder = key.split('/')[1] as string;
    assert(/^[a-z0-9_.-]+$/.test(folder) && folder !== '.' && folder !== '..', folder);
    assert(Buffer.byteLength(key) <= 255);
    assert.notEqual(parseObjectKey(key), undefined);
    seen.add(folder);
  }
  assert.equal(seen.size, 10);
  for (const foreign of ['', 'x', 'g0001/x', `${single}x`, single.slice(0, -1), `x${single}`, 'readme.txt']) {
    assert.equal(parseObjectKey(foreign), undefined, foreign);
  }
});

function sha(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16);
}
